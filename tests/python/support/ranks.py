"""Runs a test's function as every rank of a world, in processes of their own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import cuda_driver
import nursery

Process = subprocess.Popen[str] | nursery.Child


@dataclass(frozen=True)
class Outcome:
    """How one rank ended."""

    rank: int
    status: int
    output: str
    pid: int


# Of ranks whose end is what a test is about (nursery.py).
END_WHOLE = {"END_WHOLE": "1"}


def importing(module: str) -> str:
    """Return a line of Python, for a program of its own, that imports a module of the tests."""
    folders = [str(folder) for folder in nursery.folders_of(module)]
    return f"import sys; sys.path[:0] = {folders!r}; import {module}"


def start_rank(
    module: str,
    function: str,
    rank: int,
    size: int,
    meeting: Path,
    env: Mapping[str, str],
    before: Sequence[str] = (),
    *,
    fresh: bool = False,
) -> Process:
    """Start one rank; it calls `module.function()` with RANK and WORLD_SIZE set.

    `before`: a command that runs the rest of its arguments. `fresh`: nothing is imported yet, which
    is so for ranks on a real GPU as well: no driver of one sees a fork.
    """
    whole = {
        **os.environ,
        "RANK": str(rank),
        "WORLD_SIZE": str(size),
        "HOLDFAST_STORE": f"file://{meeting}/directory",
        "MEETING_FILE": str(meeting / "torch"),
        "OMP_NUM_THREADS": "1",
        **env,
    }
    real = env.get("HOLDFAST_CUDA_DRIVER", cuda_driver.EMULATED) == ""
    if not (before or fresh or real):
        return nursery.fork(module, function, whole, meeting)
    return subprocess.Popen(
        [*before, sys.executable, "-c", f"{importing(module)}; {module}.{function}()"],
        env=whole,
        cwd=meeting,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def finish(processes: Sequence[Process], timeout_s: float) -> list[Outcome]:
    """Collect all ranks; those that hang are ended and count as failed."""
    outcomes = []
    for rank, process in enumerate(processes):
        try:
            output, _ = process.communicate(timeout=timeout_s)
        except subprocess.TimeoutExpired:
            process.kill()
            output, _ = process.communicate()
            output += f"\n(did not end within {timeout_s} s)"
        outcomes.append(Outcome(rank, process.returncode, output, process.pid))
    return outcomes


def run_ranks(
    module: str,
    function: str,
    size: int,
    meeting: Path,
    *,
    env: Mapping[str, str] | None = None,
    timeout_s: float = 120,
    fresh: bool = False,
) -> list[Outcome]:
    """Run all ranks and require that every one of them succeeded."""
    meeting.mkdir(parents=True, exist_ok=True)
    processes = [
        start_rank(module, function, r, size, meeting, env or {}, fresh=fresh) for r in range(size)
    ]
    return all_end_well(processes, timeout_s)


def all_end_well(processes: Sequence[Process], timeout_s: float) -> list[Outcome]:
    """Wait for the ranks; when one fails, say what each of them said."""
    outcomes = finish(processes, timeout_s)
    failed = sum(outcome.status != 0 for outcome in outcomes)
    text = "\n".join(f"--- process {o.rank}, status {o.status}\n{o.output}" for o in outcomes)
    assert failed == 0, f"{failed} of {len(outcomes)} ranks failed\n{text}"
    return outcomes


def segments_of(outcomes: Sequence[Outcome]) -> set[str]:
    """Shared memory that these ranks made and left: other jobs on the machine have their own."""
    pids = {str(o.pid) for o in outcomes}
    names = {p.name for p in Path("/dev/shm").glob("holdfast.*")}
    return {name for name in names if name.split(".")[3] in pids}


def kill(process: Process) -> None:
    """End a rank the hard way."""
    process.send_signal(signal.SIGKILL)
