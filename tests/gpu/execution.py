"""Runs a row's commands, each in a session of its own that is ended with all in it, and reads them.

A row that crashes, hangs or says nothing is a failed row; the others go on.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TextIO
from xml.etree import ElementTree

from row import Command, Result, Row

ROOT = Path(__file__).resolve().parents[2]
NATIVE = "build/native/tests/native"
# How programs of this folder exit that lack something here (world.py).
LACKS = 3
# What ended in pytest: all passed, some failed. Others are not about tests.
PYTEST_RAN = (0, 1)
# How long a process may take to go that was killed: its driver lets go of the device first.
GONE_S = 20.0


@dataclass(frozen=True, slots=True)
class Ran:
    """How a command ended: no status if it was cut; its lines of JSON; the last that it said."""

    status: int | None
    lines: list[dict[str, Any]]
    last: str
    seconds: float


@dataclass
class Runner:
    """Runs commands, those that several rows share once.

    Parameters
    ----------
    native : Path
        Where the native tests are.
    log : TextIO
        Gets all output.
    deadline : float
        Of `time.monotonic()`, for all rows; infinite if there is none.
    """

    native: Path
    log: TextIO
    deadline: float = float("inf")
    _ran: dict[Command, Ran] = field(default_factory=dict)

    def run_row(self, row: Row, *, rehearse: bool = False) -> Result:
        """Run a row on the GPU, or over the emulated device, where no speed is too low."""
        began = time.monotonic()
        result = self._outcome(row, rehearse)
        return Result(result.status, result.text, time.monotonic() - began)

    def _outcome(self, row: Row, rehearse: bool) -> Result:
        lines: list[dict[str, Any]] = []
        until = time.monotonic() + row.limit_s
        for command in row.rehearsal if rehearse else row.commands:
            seconds = min(until, self.deadline) - time.monotonic()
            if self.deadline <= time.monotonic():
                return Result("not run", "out of time")
            ran = self._ran.get(command) or self._run(command, seconds)
            if ran.status is None:
                if self.deadline < until:
                    return Result("not run", "out of time")
                return Result("failed", f"out of time, after {ran.seconds:.0f} s: {ran.last}")
            self._ran[command] = ran
            is_pytest = "pytest" in command
            if ran.status == LACKS and not is_pytest:
                return Result("not run", ran.last)
            if ran.status not in (PYTEST_RAN if is_pytest else (0,)):
                return Result("failed", f"status {ran.status}: {ran.last}")
            lines += ran.lines
        return read(row, lines, any_speed=rehearse and row.is_timed)

    def _run(self, command: Command, seconds: float) -> Ran:
        with tempfile.TemporaryDirectory() as folder:
            here = Path(folder)
            try:
                argv, env = self.words(command, here)
            except FileNotFoundError as error:
                return Ran(LACKS, [], str(error), 0)
            began = time.monotonic()
            status = execute(argv, env, here, seconds)
            took = time.monotonic() - began
            said = [(here / name).read_text(errors="replace") for name in ("stdout", "stderr")]
            lines = json_lines(said[0])
            if "pytest" in command:
                lines = pytest_lines(here / "report.xml")
        shown = " ".join(command)
        self.log.write(f"\n==== {shown}\n==== status {status}, {took:.1f} s\n{said[0]}{said[1]}")
        self.log.flush()
        return Ran(status, lines, last_of(said), took)

    def words(self, command: Command, folder: Path) -> tuple[list[str], dict[str, str]]:
        """Return a command's program with arguments, and its environment.

        Raises
        ------
        FileNotFoundError
            For a program that was not built.
        """
        env = {name: value for name, value in os.environ.items() if "HOLDFAST_" not in name}
        # It is run elsewhere.
        paths = filter(None, env.pop("PYTHONPATH", "").split(os.pathsep))
        env["PYTHONPATH"] = os.pathsep.join(str(Path(path).resolve()) for path in paths)
        rest = list(command)
        while "=" in rest[0]:
            name, _, value = rest.pop(0).partition("=")
            env[name] = value
        argv = [self._word(word) for word in rest]
        if "pytest" in argv:
            # By names, so that the last line is that of a test that hangs.
            argv += ["-v", "-c", str(ROOT / "pyproject.toml"), "-o", f"cache_dir={folder}/cache"]
            argv += ["--junitxml", str(folder / "report.xml")]
        if any(word.endswith("native_tests.py") for word in argv):
            argv += ["--folder", str(self.native)]
        if not (shutil.which(argv[0]) or Path(argv[0]).is_file()):
            raise FileNotFoundError(f"{rest[0]} is not built")
        return argv, env

    def _word(self, word: str) -> str:
        if word == "python":
            return sys.executable
        if word.startswith(f"{NATIVE}/"):
            return str(self.native / word.removeprefix(f"{NATIVE}/"))
        return str(ROOT / word) if word.startswith("tests/") else word


def execute(argv: list[str], env: dict[str, str], folder: Path, seconds: float) -> int | None:
    """Return the status, or None when it took longer; nothing of its session is left running.

    Output goes to `stdout` and `stderr` in the folder, which is its current one: a file, unlike a
    pipe, is not held open by what hangs.
    """
    with (folder / "stdout").open("w") as out, (folder / "stderr").open("w") as err:
        process = subprocess.Popen(
            argv, env=env, cwd=folder, stdout=out, stderr=err, start_new_session=True
        )
        status: int | None = None
        with contextlib.suppress(subprocess.TimeoutExpired):
            status = process.wait(max(seconds, 0.01))
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(GONE_S)
    return status


def read(row: Row, lines: list[dict[str, Any]], *, any_speed: bool = False) -> Result:
    """Return what the lines come to."""
    reports = [line for line in lines if line.get("name") == "pytest"]
    if reports and all(report["passed"] + report["failed"] == 0 for report in reports):
        return Result("not run", "; ".join(sorted({r for one in reports for r in one["reasons"]})))
    try:
        reading = row.read(lines)
    except (LookupError, TypeError, ValueError) as error:
        return Result("failed", f"no figure: {type(error).__name__}: {error}")
    return Result("passed" if reading.holds or any_speed else "failed", reading.figure)


def json_lines(text: str) -> list[dict[str, Any]]:
    """Return the objects among lines of text; a line that was cut off is none."""
    found = []
    for line in text.splitlines():
        if line.startswith("{"):
            with contextlib.suppress(json.JSONDecodeError):
                found.append(json.loads(line))
    return found


def pytest_lines(report: Path) -> list[dict[str, Any]]:
    """Return pytest's report as a line like those of other programs; none if there is none."""
    if not report.is_file():
        return []
    line: dict[str, Any] = {"name": "pytest", "passed": 0, "failed": 0, "skipped": 0}
    line |= {"failures": [], "reasons": []}
    for case in ElementTree.parse(report).iter("testcase"):
        wrong = case.find("failure")
        wrong = case.find("error") if wrong is None else wrong
        skipped = case.find("skipped")
        if wrong is not None:
            line["failed"] += 1
            said = wrong.get("message", "").strip().splitlines() or ["no message"]
            line["failures"].append(f"{case.get('name')}: {said[0]}")
        elif skipped is not None:
            line["skipped"] += 1
            line["reasons"].append(skipped.get("message", "no reason"))
        else:
            line["passed"] += 1
    return [line]


def last_of(said: list[str]) -> str:
    """Return the last thing that a program said: of its errors, else of its output."""
    for text in reversed(said):
        lines = [line.strip() for line in text.splitlines() if line.strip()]
        # The frame of a traceback's end says less than what is above.
        lines = [line for line in lines if not re.fullmatch(r"[\^~\s]+", line)]
        if lines:
            return lines[-1]
    return "it said nothing"
