"""Runs mpi4py's own tests on its published wheel over Holdfast's libmpi, and tells what happened.

    python tests/mpi_suite/run.py                        # all modules at 1, 2, 3 and 5 ranks
    python tests/mpi_suite/run.py --ranks 2 --only p2p   # modules whose name has it, at 2 ranks
    python tests/mpi_suite/run.py --abi openmpi          # over the library with Open MPI's ABI
    python tests/mpi_suite/run.py --write                # into docs/evidence/mpi4py-tests.md too

The tests come with mpi4py's sdist, which is fetched from PyPI at the version that is installed.
Each module runs by itself, with a time limit, and its ranks' summaries all count. Ends with status
1 when a module fails.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tarfile
import time
from dataclasses import dataclass
from datetime import date
from importlib.metadata import version
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "build/mpi_suite"
PAGE = ROOT / "docs/evidence/mpi4py-tests.md"
# What our libmpi does not have: one-sided communication, files, dynamic processes.
LEFT_OUT = ("win", "rma", "rma_nb", "file", "io", "spawn", "dynproc")
LIMIT_S = 300
SUMMARY = re.compile(r"Ran (\d+) tests? in .*?\n\n(OK|FAILED)(?: \((.*?)\))?", re.DOTALL)
# Tests of other modules that begin with what the library does not have.
LEFT_OUT_TESTS = ("TestErrhandlerFile", "TestErrhandlerWin", "TestHandleFile", "TestHandleWin")
LEFT_OUT_TESTS += ("TestMessageRMA", "TestMessageVectorRMA")


@dataclass(frozen=True)
class Outcome:
    """What became of a module: counts of the rank that fared worst."""

    ran: int
    failed: int
    skipped: int
    problem: str = ""  # a crash or a time limit

    @property
    def good(self) -> bool:
        """Whether nothing failed."""
        return self.failed == 0 and not self.problem

    def text(self) -> str:
        """For the table."""
        if self.problem:
            return self.problem
        failed = f", **{self.failed} failed**" if self.failed else ""
        skipped = f", {self.skipped} skipped" if self.skipped else ""
        return f"{self.ran - self.failed - self.skipped} passed{failed}{skipped}"


def fetch() -> Path:
    """The folder of mpi4py's sources, fetched once."""
    release = version("mpi4py")
    folder = BUILD / f"mpi4py-{release}"
    if not folder.exists():
        BUILD.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
        command += ["--no-binary", "mpi4py", "--dest", str(BUILD), f"mpi4py=={release}"]
        subprocess.run(command, check=True)
        with tarfile.open(BUILD / f"mpi4py-{release}.tar.gz") as archive:
            archive.extractall(BUILD, filter="data")
    return folder


def modules(folder: Path, only: list[str]) -> list[str]:
    """The names of test modules, without `test_`."""
    names = sorted(path.stem.removeprefix("test_") for path in (folder / "test").glob("test_*.py"))
    names = [name for name in names if name not in LEFT_OUT]
    return [name for name in names if not only or any(part in name for part in only)]


def counts(summary: str) -> dict[str, int]:
    """`failures=1, skipped=2` as numbers."""
    return {key: int(value) for key, value in re.findall(r"([a-z ]+)=(\d+)", summary)}


def read(logs: list[Path], status: int) -> Outcome:
    """What a module's ranks have said, each into a file of its own."""
    ran = failed = skipped = 0
    problem = ""
    for log in logs:
        found = SUMMARY.search(log.read_text() if log.exists() else "")
        if found is None:
            problem = f"crashed (status {status})"
            continue
        number, _, detail = found.groups()
        said = {key.strip(): value for key, value in counts(detail or "").items()}
        ran = max(ran, int(number))
        failed = max(failed, said.get("failures", 0) + said.get("errors", 0))
        skipped = max(skipped, said.get("skipped", 0))
    return Outcome(ran, failed, skipped, problem)


def run(folder: Path, module: str, ranks: int, abi: str, extra: list[str]) -> Outcome:
    """Run a module, and keep what its ranks printed."""
    command = [sys.executable, "-m", "holdfast.cli", "run", "-n", str(ranks), "--mpi", abi]
    command += [str(Path(__file__).with_name("rank.py")), f"{BUILD}/{module}-{ranks}-{abi}"]
    command += ["--no-builddir", "-i", rf"(^|/)test_{module}(\.py)?$"]
    command += [word for name in LEFT_OUT_TESTS for word in ("-x", name)]
    logs = [Path(f"{BUILD}/{module}-{ranks}-{abi}.{rank}.log") for rank in range(ranks)]
    for log in logs:
        log.unlink(missing_ok=True)
    try:
        done = subprocess.run(
            [*command, *extra], cwd=folder, capture_output=True, timeout=LIMIT_S, check=False
        )
    except subprocess.TimeoutExpired:
        return Outcome(0, 0, 0, f"not done in {LIMIT_S} s")
    return read(logs, done.returncode)


def table(found: dict[str, dict[int, Outcome]], ranks: list[int]) -> str:
    """A row for each module."""
    head = "| module | " + " | ".join(f"{n} rank{'s' if n > 1 else ''}" for n in ranks) + " |"
    rows = [head, "|---" * (len(ranks) + 1) + "|"]
    for module, by_ranks in found.items():
        cells = [by_ranks[n].text() for n in ranks]
        rows.append(f"| {module} | " + " | ".join(cells) + " |")
    total = [sum(f[n].ran - f[n].failed - f[n].skipped for f in found.values()) for n in ranks]
    failed = [sum(f[n].failed + bool(f[n].problem) for f in found.values()) for n in ranks]
    cells = [f"{t} passed, {f} failed" for t, f in zip(total, failed, strict=True)]
    rows.append("| all | " + " | ".join(cells) + " |")
    return "\n".join(rows)


def page(text: str, abi: str) -> str:
    """The page of evidence."""
    return f"""# mpi4py's own tests

`test/` of mpi4py {version("mpi4py")}, on its published wheel, over Holdfast's libmpi with the ABI
{abi}; made by `make test-mpi` on {date.today()}. The counts are those of the rank that fared worst.
Left out: {", ".join(LEFT_OUT)} (one-sided communication, files, dynamic processes), which the
library does not have.

{text}
"""


def main() -> int:
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--ranks", type=int, nargs="+", default=[1, 2, 3, 5])
    parser.add_argument("--only", nargs="+", default=[], help="parts of modules' names")
    parser.add_argument("--abi", default="mpich", choices=["abi", "mpich", "openmpi"])
    parser.add_argument("--write", action="store_true", help="write the page of evidence")
    parser.add_argument("rest", nargs="*", help="after --: options of mpi4py's test/main.py")
    arguments = parser.parse_args()
    folder = fetch()
    found: dict[str, dict[int, Outcome]] = {}
    for module in modules(folder, arguments.only):
        found[module] = {}
        for ranks in arguments.ranks:
            begun = time.monotonic()
            outcome = run(folder, module, ranks, arguments.abi, arguments.rest)
            found[module][ranks] = outcome
            seconds = time.monotonic() - begun
            print(f"{module:22} {ranks} ranks {seconds:5.1f} s  {outcome.text()}", flush=True)
    text = table(found, arguments.ranks)
    if arguments.write:
        PAGE.write_text(page(text, arguments.abi))
    return 0 if all(o.good for by in found.values() for o in by.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
