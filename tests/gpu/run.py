"""Runs every row of docs/evidence/gpu-results.md on this machine's GPU, and writes the table.

    python tests/gpu/run.py --write                # all rows, into docs/evidence/gpu-results.md
    python tests/gpu/run.py --only kill,errors     # some
    python tests/gpu/run.py --budget 500 --out build/gpu-results.md --resume

What tells most in the least time is run first, so that `--budget` cuts the least; `--resume` leaves
out rows that the file of `--out` has figures of. Without a GPU the same programs run over the
emulated device, which proves the programs: no row gets a figure, and one that fails is told.
Needs Holdfast installed in this Python, and `make native` for the native rows: `make gpu` sees to
both.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import results_table
from catalogue import ROWS
from execution import NATIVE, ROOT, Runner, execute
from row import Result, Row

DOCS = ROOT / "docs/evidence/gpu-results.md"
# The first import of torch on a cold disk takes most of it.
PROBE_S = 180.0


def probe() -> dict[str, Any]:
    """Return what there is here, as probe.py tells it."""
    with tempfile.TemporaryDirectory() as folder:
        here = Path(folder)
        command = [sys.executable, str(ROOT / "tests/gpu/probe.py")]
        runner = Runner(ROOT / NATIVE, sys.stderr)
        _, env = runner.words(("python",), here)
        status = execute(command, env, here, PROBE_S)
        text = (here / "stdout").read_text(errors="replace").splitlines()
        if status != 0 or not text:
            sys.stderr.write((here / "stderr").read_text(errors="replace"))
            raise SystemExit(f"tests/gpu/probe.py: status {status}; it says what there is here")
    parts: dict[str, Any] = json.loads(text[-1])
    return parts


def lacking(row: Row, parts: dict[str, Any], *, emulated: bool) -> str:
    """Return what a row lacks here; empty if nothing."""
    if emulated and not row.rehearsal:
        return "what it needs is on a GPU alone"
    if not emulated and parts["device"]["lacks"]:
        return str(parts["device"]["lacks"])
    for need in row.needs:
        if parts[need] and not (emulated and need == "torch_cuda" and not parts["torch"]):
            return str(parts[need])
    return ""


def commit() -> str:
    """Return the commit, and whether there is more; nothing where there is no git."""
    try:
        told = subprocess.run(
            ["git", "describe", "--always", "--dirty=+changes"],
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=20,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return "unknown commit"
    return told.stdout.strip()


class Report:
    """What was run, told as it comes, and in files that are whole after each row."""

    def __init__(self, given: Any, parts: dict[str, Any]) -> None:
        device = parts["device"]
        self._given = given
        self._where = f"{device.get('name', 'no device')}, {given.commit or commit()}"
        self._new: dict[str, results_table.Cells] = {}
        self.failed = 0
        self._before = {
            path: results_table.parse(path.read_text()) if path.is_file() else {}
            for path in filter(None, (given.out, given.write))
        }

    def has(self, row: Row) -> bool:
        """Return whether the file of `--out` has a figure of it."""
        cells = self._before.get(self._given.out, {}).get(row.what)
        return cells is not None and results_table.was_run(cells)

    def add(self, row: Row, result: Result) -> None:
        """Tell of a row on a GPU."""
        self._new[row.what] = results_table.cells_of(row, result, self._where)
        self._tell(row, result.status, result, result.text)
        self.write()

    def rehearsed(self, row: Row, result: Result, lacks: str) -> None:
        """Tell of a row over the emulated device, of which the table has the reason alone."""
        self._new[row.what] = results_table.cells_of(row, Result("not run", lacks), "")
        works = result.status == "passed"
        # Its figure would be taken for a GPU's.
        self._tell(row, "works" if works else result.status, result, "" if works else result.text)
        self.write()

    def _tell(self, row: Row, shown: str, result: Result, text: str) -> None:
        self.failed += shown == "failed"
        print(f"{row.name:12} {shown:8} {result.seconds:6.1f} s  {text}".rstrip(), flush=True)

    def write(self) -> None:
        """Write the files."""
        given = self._given
        if given.out:
            merged = results_table.merge(self._before[given.out], ROWS, self._new)
            given.out.parent.mkdir(parents=True, exist_ok=True)
            given.out.write_text(results_table.render(merged))
        if given.write:
            # Why something was not run here is of no use to others.
            new = {what: cells for what, cells in self._new.items() if results_table.was_run(cells)}
            table = results_table.render(results_table.merge(self._before[given.write], ROWS, new))
            given.write.write_text(results_table.replace(given.write.read_text(), table))


def arguments(argv: list[str] | None) -> Any:
    """Parse the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--list", action="store_true", help="names and commands of the rows")
    parser.add_argument("--only", default="", help="names of rows, with commas between")
    parser.add_argument("--budget", type=float, default=0, help="seconds for all; 0: no limit")
    parser.add_argument("--out", type=Path, help="a file for the table")
    parser.add_argument("--resume", action="store_true", help="leave out what --out has already")
    parser.add_argument(
        "--write", nargs="?", type=Path, const=DOCS, help="fill the table in the docs or here"
    )
    parser.add_argument("--log", type=Path, default=ROOT / "build/logs/gpu.log", help="all output")
    parser.add_argument("--native", type=Path, default=ROOT / NATIVE, help="native tests' folder")
    parser.add_argument("--commit", default="", help="what the table says; git's, if left out")
    parser.add_argument("--emulated", action="store_true", help="rehearse, even beside a GPU")
    given = parser.parse_args(argv)
    unknown = set(filter(None, given.only.split(","))) - {row.name for row in ROWS}
    if unknown:
        names = ", ".join(row.name for row in ROWS)
        parser.error(f"--only has {', '.join(sorted(unknown))}; accepted: {names}")
    if given.resume and not given.out:
        parser.error("--resume needs --out")
    return given


def main(argv: list[str] | None = None) -> int:
    """Run the rows; 1 when one failed."""
    given = arguments(argv)
    chosen = given.only.split(",") if given.only else [row.name for row in ROWS]
    rows = sorted((row for row in ROWS if row.name in chosen), key=lambda row: row.first)
    if given.list:
        for row in rows:
            print(f"{row.name:12} {results_table.commands_of(row)}")
        return 0
    began = time.monotonic()
    parts = probe()
    lacks = parts["device"]["lacks"] or ("rehearsed, not run" if given.emulated else "")
    told = f"{lacks}: over the emulated device, for no figures" if lacks else "on the GPU"
    print(f"{told} ({parts['device']['why']})")
    report = Report(given, parts)
    given.log.parent.mkdir(parents=True, exist_ok=True)
    with given.log.open("a", encoding="utf-8") as log:
        deadline = began + given.budget if given.budget else float("inf")
        runner = Runner(given.native, log, deadline)
        for row in rows:
            if given.resume and report.has(row):
                continue
            missing = lacking(row, parts, emulated=bool(lacks))
            if lacks:
                result = Result("not run", missing)
                result = result if missing else runner.run_row(row, rehearse=True)
                report.rehearsed(row, result, lacks)
            else:
                result = Result("not run", missing)
                report.add(row, result if missing else runner.run_row(row))
    report.write()
    print(f"{report.failed} failed, {time.monotonic() - began:.0f} s; all output in {given.log}")
    return 1 if report.failed else 0


if __name__ == "__main__":
    sys.exit(main())
