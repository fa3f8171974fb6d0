"""Runs mpi4py's own tests on its published wheel over Holdfast's libmpi, and tells what happened.

    python tests/mpi_suite/run.py                        # all modules at 1, 2, 3 and 5 ranks
    python tests/mpi_suite/run.py --ranks 2 --only p2p   # modules whose name is or has it
    python tests/mpi_suite/run.py --abi openmpi          # over the library with Open MPI's ABI
    python tests/mpi_suite/run.py --write                # into docs/evidence/mpi4py-tests.md too

The tests come with mpi4py's sdist, which is fetched from PyPI at the version that is installed.
Each module runs by itself, with a time limit, and its ranks' summaries all count. What is left out
stands in left_out.py. Ends with status 1 when a module fails.

`--abi abi` wants an mpi4py that was built with `holdfast mpicc`, since PyPI's wheels have no module
for the standard's ABI: MPICC="holdfast mpicc" pip install --no-binary mpi4py --target DIRECTORY,
and the directory in PYTHONPATH.
"""

from __future__ import annotations

import argparse
import json
import re
import signal
import subprocess
import sys
import tarfile
import time
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path

from left_out import CHANGES, MODULES, patterns
from page import PAGE, page

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "build/mpi_suite"
ABIS = ("mpich", "openmpi", "abi")
# The slowest module takes about 20 s on two cores, and several times that at five ranks on a
# machine with other work.
LIMIT_S = 300
# A launcher that was told to end has this long to end its ranks.
GRACE_S = 10
SUMMARY = re.compile(r"Ran (\d+) tests? in .*?\n\n(OK|FAILED)(?: \((.*?)\))?", re.DOTALL)


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

    @property
    def passed(self) -> int:
        """Tests that passed: one of many subtests that failed is one of `failed`, too."""
        return max(0, self.ran - self.failed - self.skipped)

    def text(self) -> str:
        """For people."""
        if self.problem:
            return f"**{self.problem}**"
        failed = f", **{self.failed} failed**" if self.failed else ""
        skipped = f", {self.skipped} skipped" if self.skipped else ""
        return f"{self.passed} passed{failed}{skipped}"


def fetch() -> Path:
    """Return the folder of mpi4py's sources, fetched once."""
    release = version("mpi4py")
    folder = BUILD / f"mpi4py-{release}"
    if not folder.exists():
        BUILD.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
        command += ["--no-binary", "mpi4py", "--dest", str(BUILD), f"mpi4py=={release}"]
        subprocess.run(command, check=True, timeout=LIMIT_S)
        with tarfile.open(BUILD / f"mpi4py-{release}.tar.gz") as archive:
            archive.extractall(BUILD, filter="data")
    for change in CHANGES:
        path = folder / "test" / change.file
        text = path.read_text()
        if change.after not in text:
            if text.count(change.before) != 1:
                raise SystemExit(f"{path} has not the lines that left_out.py changes")
            path.write_text(text.replace(change.before, change.after))
    return folder


def modules(folder: Path, only: list[str]) -> list[str]:
    """Return the names of test modules, without `test_`."""
    names = sorted(path.stem.removeprefix("test_") for path in (folder / "test").glob("test_*.py"))
    names = [name for name in names if name not in MODULES]
    wanted = set()
    for part in only:
        wanted |= {part} if part in names else {name for name in names if part in name}
    return [name for name in names if not only or name in wanted]


def counts(summary: str) -> dict[str, int]:
    """Read `failures=1, skipped=2` as numbers."""
    return {key.strip(): int(n) for key, n in re.findall(r"([a-z ]+)=(\d+)", summary)}


def read(logs: list[Path], status: int) -> Outcome:
    """Return what a module's ranks have said, each into a file of its own."""
    ran = failed = skipped = 0
    problem = ""
    for log in logs:
        found = SUMMARY.search(log.read_text() if log.exists() else "")
        if found is None:
            problem = f"crashed (status {status})"
            continue
        number, _, detail = found.groups()
        said = counts(detail or "")
        ran = max(ran, int(number))
        failed = max(failed, said.get("failures", 0) + said.get("errors", 0))
        skipped = max(skipped, said.get("skipped", 0))
    if status != 0 and failed == 0 and not problem:
        problem = f"ended with status {status}"
    return Outcome(ran, failed, skipped, problem)


def run(folder: Path, module: str, ranks: int, abi: str, extra: list[str]) -> Outcome:
    """Run a module, and keep what its ranks printed."""
    stem = f"{BUILD}/{module}-{ranks}-{abi}"
    command = [sys.executable, "-m", "holdfast.cli", "run", "-n", str(ranks), "--mpi", abi]
    command += [str(Path(__file__).with_name("rank.py")), stem]
    command += ["--no-builddir", "-i", rf"(^|/)test_{module}(\.py)?$"]
    command += [word for name in patterns(abi) for word in ("-x", name)]
    logs = [Path(f"{stem}.{rank}.log") for rank in range(ranks)]
    for log in logs:
        log.unlink(missing_ok=True)
    with Path(f"{stem}.launcher.log").open("wb") as told:
        launched = subprocess.Popen(
            [*command, *extra], cwd=folder, stdin=subprocess.DEVNULL, stdout=told, stderr=told
        )
        try:
            status = launched.wait(LIMIT_S)
        except subprocess.TimeoutExpired:
            launched.send_signal(signal.SIGTERM)
            try:
                launched.wait(GRACE_S)
            except subprocess.TimeoutExpired:
                launched.kill()
                launched.wait()
            return Outcome(0, 0, 0, f"not done in {LIMIT_S} s")
    return read(logs, status)


def gathered(abi: str) -> Path:
    """Return the file of what --write has gathered over a library, run by run."""
    return BUILD / f"results-{abi}.json"


def remember(abi: str, module: str, ranks: int, outcome: Outcome) -> None:
    """Add an outcome to what the page is made of."""
    path = gathered(abi)
    known = json.loads(path.read_text()) if path.exists() else {}
    known.setdefault(module, {})[str(ranks)] = {
        **asdict(outcome),
        "text": outcome.text(),
        "passed": outcome.passed,
        "mpi4py": version("mpi4py"),
    }
    path.write_text(json.dumps(known, indent=1))


def main() -> int:
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--ranks", type=int, nargs="+", default=[1, 2, 3, 5])
    parser.add_argument("--only", nargs="+", default=[], help="parts of modules' names")
    parser.add_argument("--abi", default="mpich", choices=ABIS)
    parser.add_argument("--write", action="store_true", help="write the page of evidence")
    parser.add_argument("rest", nargs="*", help="after --: options of mpi4py's test/main.py")
    arguments = parser.parse_args()
    folder = fetch()
    good = True
    for module in modules(folder, arguments.only):
        for ranks in arguments.ranks:
            begun = time.monotonic()
            outcome = run(folder, module, ranks, arguments.abi, arguments.rest)
            good = good and outcome.good
            seconds = time.monotonic() - begun
            print(f"{module:22} {ranks} ranks {seconds:5.1f} s  {outcome.text()}", flush=True)
            if arguments.write:
                remember(arguments.abi, module, ranks, outcome)
    if arguments.write:
        found = {abi: gathered(abi) for abi in ABIS}
        PAGE.write_text(
            page({abi: json.loads(p.read_text()) for abi, p in found.items() if p.exists()})
        )
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
