"""Makes the tables of docs/evidence/mpi-figures.md of rows of `holdfast bench --api mpi --json`.

    holdfast bench --api mpi -n 2,4 --rounds 5 --mpiexec A/mpiexec,B/mpiexec --json > rows.jsonl
    python tests/bench/mpi_figures.py rows.jsonl

Beside each figure stands what is asked of it, and whether it is met. Figures are the least times;
of more than two ranks the medians: two cores let one pair of ranks go undisturbed now and then,
which says nothing about the others.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

OTHERS = ("mpich", "openmpi")
SMALL_PAYLOAD = 256 << 10
UNITS = ((1 << 20, "MiB"), (1 << 10, "KiB"))

# Of ranks that have a core each, on the machine that the tables are made on.
RANKS_WITH_CORES = 2

Times = Mapping[str, float]  # in microseconds, by contestant


@dataclass(frozen=True)
class Asked:
    """What is asked of a case: a figure of it, and its bound."""

    text: str
    bound: float
    figure: Callable[[Times], float]
    at_most: bool = False

    def verdict(self, times: Times) -> str:
        """Return "met", or that it falls short; to the digits that are printed."""
        value = round(self.figure(times), 2)
        met = value <= self.bound if self.at_most else value >= self.bound
        return "met" if met else "**short**"


def faster(times: Times) -> float:
    """Return the faster other MPI's time by ours."""
    return min(times[other] for other in OTHERS if other in times) / times["holdfast"]


def ours(times: Times) -> float:
    """Return our time."""
    return times["holdfast"]


def by_hand(times: Times) -> float:
    """Return our time by that of a loop by hand."""
    return times["holdfast"] / times["holdfast/hand"]


def more_than_call(times: Times) -> float:
    """Return what MPI's manner costs beside holdfast.h."""
    return times["holdfast"] - times["holdfast/holdfast.h"]


def at_least(ratio: float) -> Asked:
    """Ask for a ratio to the faster MPI."""
    return Asked(f"{ratio:g}x", ratio, faster)


def at_most_us(us: float) -> Asked:
    """Ask for a time."""
    return Asked(f"{us:g} us", us, ours, at_most=True)


def asked_of(name: str, size: int, ranks: int) -> Asked | None:
    """Return what is asked of a case; None: nothing."""
    if name.startswith("10000"):
        return at_most_us(25_000) if ranks == 2 else None
    if name.startswith("halo"):
        return Asked("1 by hand", 1.0, by_hand, at_most=True)
    if name.startswith("call_"):
        return Asked("0.2 us more", 0.2, more_than_call, at_most=True)
    if name in ("dup_and_free", "split_and_free"):
        return at_most_us(15 if ranks == 2 else 55)
    if name.startswith(("pack_", "unpack_")):
        shape = name.partition("_")[2]
        if size > SMALL_PAYLOAD:
            return at_least(4 if shape == "records" else 1.1)
        return at_least({"records": 10, "gather": 1.2}.get(shape, 2))
    if name not in ("ping_pong", "bounce", "pairs", "exchange"):
        return None
    if ranks > 2:
        return at_least(1)
    if name == "exchange":
        return None
    return {8: at_most_us(0.6), 4096: at_most_us(2), 65536: at_least(1)}.get(
        size, at_least(1.2) if size >= SMALL_PAYLOAD else None
    )


def size_text(size: int) -> str:
    """Return a size as people write it."""
    for unit, name in UNITS:
        if size >= unit:
            return f"{size // unit} {name}"
    return f"{size} B" if size else ""


def number(us: float | None) -> str:
    """Return a time with three digits or more."""
    if us is None:
        return ""
    return f"{us:.2f}" if us < 100 else f"{us:.0f}"


def cases_of(paths: list[str]) -> dict[tuple[int, str, int], dict[str, float]]:
    """Return times by ranks, case and size, then contestant."""
    cases: dict[tuple[int, str, int], dict[str, float]] = {}
    for path in paths:
        for line in Path(path).read_text().splitlines():
            row = json.loads(line)
            case = (row["ranks"], row["name"], row["bytes"])
            time = row["time_us" if row["ranks"] <= RANKS_WITH_CORES else "p50_us"]
            cases.setdefault(case, {})[row["contestant"]] = time
    return cases


def table_of(name: str) -> str:
    """Return which table a case is in."""
    heads = ("pack_", "unpack_", "halo_", "call_", "10000")
    for head in heads:
        if name.startswith(head):
            return "pack" if head == "unpack_" else head.strip("_")
    if name in ("ping_pong", "bounce", "pairs", "exchange"):
        return "messages"
    return "other"


def lines_of(table: str, cases: dict[tuple[int, str, int], dict[str, float]]) -> Iterator[str]:
    """Yield the rows of one table."""
    beside = {"pack": "hand", "halo": "hand", "call": "holdfast.h"}.get(table)
    others = () if table == "call" else OTHERS
    heads = ["case", "size", "ours", *([beside] if beside else []), *others]
    if table == "halo":
        heads += [f"{who}/hand" for who in ("ours", *OTHERS)]
    elif table == "call":
        heads += ["more"]
    else:
        heads += ["ratio"]
    heads += ["asked", ""]
    yield "| " + " | ".join(heads) + " |"
    yield "|" + "---|" * len(heads)
    for (ranks, name, size), times in cases.items():
        cells = [name, size_text(size), number(times["holdfast"])]
        if beside:
            cells.append(number(times.get(f"holdfast/{beside}")))
        cells += [number(times.get(other)) for other in others]
        if table == "halo":
            for who in ("holdfast", *OTHERS):
                by = times.get(f"{who}/hand")
                cells.append(f"{times[who] / by:.2f}" if by else "")
        elif table == "call":
            cells.append(f"{more_than_call(times):.2f}")
        else:
            cells.append(f"{faster(times):.2f}")
        asked = asked_of(name, size, ranks)
        cells += [asked.text, asked.verdict(times)] if asked else ["", ""]
        yield "| " + " | ".join(cells) + " |"


def main(paths: list[str]) -> None:
    """Print the tables."""
    cases = cases_of(paths)
    tables: dict[tuple[str, int], dict[tuple[int, str, int], dict[str, float]]] = {}
    for case, times in cases.items():
        tables.setdefault((table_of(case[1]), case[0]), {})[case] = times
    met = short = 0
    for (table, ranks), rows in tables.items():
        print(f"\n### {table}: {ranks} {'rank' if ranks == 1 else 'ranks'}\n")
        for line in lines_of(table, rows):
            print(line)
            met += "| met |" in line
            short += "short" in line
    print(f"\n{met} of {met + short} rows are met.", file=sys.stderr)


if __name__ == "__main__":
    main(sys.argv[1:])
