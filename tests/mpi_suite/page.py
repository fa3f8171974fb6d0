"""Makes docs/evidence/mpi4py-tests.md of what runs have gathered."""

from __future__ import annotations

import os
import textwrap
from collections.abc import Mapping
from datetime import date
from pathlib import Path
from typing import Any

from left_out import CHANGES, MODULES, TESTS

PAGE = Path(__file__).resolve().parents[2] / "docs/evidence/mpi4py-tests.md"
TITLES = {
    "mpich": ("The published wheel, its module for MPICH", "tests/mpi_suite/run.py --write"),
    "openmpi": (
        "The published wheel, its module for Open MPI",
        "tests/mpi_suite/run.py --write --abi openmpi",
    ),
    "abi": (
        "Built from source with holdfast mpicc, for the ABI of MPI-5",
        "tests/mpi_suite/run.py --write --abi abi",
    ),
}


def processor() -> str:
    """Return what the machine has."""
    names = [
        line.partition(":")[2].strip()
        for line in Path("/proc/cpuinfo").read_text().splitlines()
        if line.startswith("model name")
    ]
    return f"{names[0] if names else 'a processor without a name'}, {os.cpu_count()} cores"


def table(found: Mapping[str, Mapping[str, Any]]) -> str:
    """Return a row for each module, and one for all."""
    ranks = sorted({int(n) for by in found.values() for n in by})
    heads = (f"{n} rank{'s' if n > 1 else ''}" for n in ranks)
    rows = ["| module | " + " | ".join(heads) + " |", "|---" * (len(ranks) + 1) + "|"]
    for module, by in sorted(found.items()):
        cells = (by[str(n)]["text"] if str(n) in by else "not run" for n in ranks)
        rows.append(f"| {module} | " + " | ".join(cells) + " |")
    cells = []
    for n in ranks:
        these = [by[str(n)] for by in found.values() if str(n) in by]
        passed = sum(one["passed"] for one in these)
        failed = sum(one["failed"] + bool(one["problem"]) for one in these)
        skipped = sum(one["skipped"] for one in these)
        cells.append(f"{passed} passed, {failed} failed, {skipped} skipped")
    rows.append("| all | " + " | ".join(cells) + " |")
    return "\n".join(rows)


def item(text: str) -> str:
    """Return a point of a list, in lines of the house's length."""
    return textwrap.fill(text, 100, initial_indent="- ", subsequent_indent="  ")


def page(results: Mapping[str, Mapping[str, Mapping[str, Any]]]) -> str:
    """Return the page of evidence."""
    outcomes = [o for by in results.values() for module in by.values() for o in module.values()]
    releases = ", ".join(sorted({outcome["mpi4py"] for outcome in outcomes}))
    left = [
        item(f"`{one.name}`{'' if len(one.abis) > 1 else f' ({one.abis[0]} alone)'}: {one.why}.")
        for one in TESTS
    ]
    changed = [item(f"`{one.file}`: {one.why}.") for one in CHANGES]
    begin = textwrap.fill(
        f"`test/` of mpi4py {releases} over Holdfast's libmpi, module by module; made by "
        f"`make test-mpi` on {date.today()}, on {processor()}. The counts are those of the rank "
        "that fared worst. What a module skips it skips by itself: at one rank, for "
        "example, what needs two.",
        100,
    )
    modules = textwrap.fill(
        f"Left out are the modules {', '.join(MODULES)} (one-sided communication, files, dynamic "
        "processes), which the library does not have, and by name:",
        100,
    )
    parts = ["# mpi4py's own tests", begin, modules, "\n".join(left)]
    parts += ["Changed are a few lines of:", "\n".join(changed)]
    for abi, (title, command) in TITLES.items():
        if abi in results:
            parts += [f"## {title}", f"`{command}`", table(results[abi])]
    return "\n\n".join(parts) + "\n"
