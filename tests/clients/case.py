"""A client's program, run once with one backend, and what became of its ranks."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

PROGRAMS = Path(__file__).parent / "programs"
STEPS = 12
# Reductions add in another order; a curve of twelve steps of a small model shows no more than this.
RTOL = 1e-4
# Between SIGTERM and SIGKILL of a launcher that has run out of time.
LAST_WORDS_S = 5.0

# What may become of a case.
SAME = "same losses as gloo"
PASSES = "passes"
GOES_ON = "survivors go on to the end"
PEER_LOST = "PeerLost on all survivors, at one step"
TORN_DOWN = "the client's launcher ends the survivors"
RESTARTED = "the client starts all ranks anew, from its checkpoint, and ends"
REFUSED = "the client refuses"


@dataclass(frozen=True, slots=True)
class Case:
    """What is run, and what is expected of Holdfast.

    Parameters
    ----------
    client : str
        Whose environment it is run in.
    name : str
        Unique; what `--only` takes.
    what : str
        For the table.
    launcher : str
        "torchrun" or "holdfast run", with options, or "deepspeed"; "own": the program starts its
        ranks itself.
    kill : str
        RANK:STEP, or nothing.
    """

    client: str
    name: str
    what: str
    program: tuple[str, ...]
    launcher: str
    ranks: int
    expected: str
    kill: str = ""
    limit_s: int = 120
    env: dict[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class Run:
    """What one backend made of a case."""

    became: str
    seconds: float
    status: int | None
    ranks: list[list[dict[str, Any]]]
    detail: str = ""

    def losses(self, rank: int) -> dict[int, float]:
        """Return a rank's losses by step; of a step that was made twice, the last."""
        return {row["step"]: row["loss"] for row in self.ranks[rank] if "step" in row}


def command_of(case: Case, python: Path) -> list[str]:
    program = [str(PROGRAMS / case.program[0]), *case.program[1:]]
    if case.launcher == "own":
        return [str(python), *program]
    if case.launcher.startswith("torchrun"):
        run = [str(python), "-m", "torch.distributed.run", "--standalone"]
        return [*run, "--nproc-per-node", str(case.ranks), *case.launcher.split()[1:], *program]
    if case.launcher == "deepspeed":
        run = [str(python), str(python.parent / "deepspeed"), "--no_local_rank"]
        return [*run, "--num_accelerators", str(case.ranks), *program]
    # Survivors have the whole of the time to end by themselves.
    start = [str(python), "-c", "import sys; from holdfast.cli import main; sys.exit(main())"]
    options = ["-n", str(case.ranks), "--grace", str(case.limit_s), *case.launcher.split()[2:]]
    return [*start, "run", *options, *program]


def execute(case: Case, backend: str, python: Path, folder: Path) -> Run:
    """Run a case to its end or its limit; its output goes to `log` in the folder."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    env = {
        **os.environ,
        **case.env,
        "CLIENT_BACKEND": backend,
        "CLIENT_OUT": str(folder),
        "CLIENT_STEPS": str(STEPS),
        "CLIENT_RANKS": str(case.ranks),
        "CLIENT_KILL": case.kill,
        "OMP_NUM_THREADS": "1",
        "TOKENIZERS_PARALLELISM": "false",
        "PATH": f"{python.parent}:{os.environ['PATH']}",
    }
    begin = time.monotonic()
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            command_of(case, python),
            cwd=folder,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        status = wait(process, case.limit_s)
    seconds = time.monotonic() - begin
    ranks = [told(folder / f"rank{rank}.jsonl") for rank in range(case.ranks)]
    became, detail = judge(case, ranks, status)
    return Run(became, seconds, status, ranks, detail)


def wait(process: subprocess.Popen[bytes], limit_s: float) -> int | None:
    """Wait for a launcher; end it and what it started when its time is over."""
    status: int | None = None
    try:
        status = process.wait(limit_s)
    except subprocess.TimeoutExpired:
        process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(LAST_WORDS_S)
    # Whoever of its session is left, whether it ended or not.
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait(LAST_WORDS_S)
    return status


def told(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def last(rows: list[dict[str, Any]], key: str) -> dict[str, Any] | None:
    return next((row for row in reversed(rows) if key in row), None)


def judge(case: Case, ranks: list[list[dict[str, Any]]], status: int | None) -> tuple[str, str]:
    """Return what became of the ranks, in the words of this file where they fit, and details."""
    killed = {r for r, rows in enumerate(ranks) if last(rows, "killed")}
    others = [rows for r, rows in enumerate(ranks) if r not in killed or last(rows, "end")]
    ended = [rows for rows in others if last(rows, "end")]
    if case.kill and not killed:
        return "nobody was killed", reason(ranks)
    if others and len(ended) == len(others):
        hung = "; the launcher did not end" if status is None else ""
        return became_of_end(case, ranks, killed) + hung, digests(ended)
    errors = [row["error"] for rows in others if (row := last(rows, "error"))]
    if status is None:
        return "hangs", f"{case.limit_s} s; {len(ended)} of {len(others)} ranks ended"
    steps = sorted({max(steps_of(rows), default=-1) for rows in others})
    where = "after step " + ", ".join(str(step) for step in steps)
    lost = [chain for chain in errors if any("PeerLost" in link for link in chain)]
    if lost and len(lost) == len(others) and len(steps) == 1:
        return PEER_LOST, where
    if errors and len(errors) == len(others):
        unstarted = not any(steps_of(rows) for rows in ranks)
        kind = REFUSED if unstarted else errors[0][0].split(":")[0] + " on all survivors"
        return kind, errors[0][0][:200]
    if errors and not killed:
        return REFUSED if not any(steps_of(rows) for rows in ranks) else "fails", errors[0][0][:200]
    if killed:
        texts = sorted({chain[0].split(":")[0] for chain in errors})
        return TORN_DOWN, where + (f"; before that: {', '.join(texts)}" if texts else "")
    return "fails", reason(ranks)


def became_of_end(case: Case, ranks: list[list[dict[str, Any]]], killed: set[int]) -> str:
    if not killed:
        return PASSES
    restarted = any(sum("begins" in row for row in rows) > 1 for rows in ranks)
    return RESTARTED if restarted else GOES_ON


def steps_of(rows: list[dict[str, Any]]) -> list[int]:
    return [row["step"] for row in rows if "step" in row]


def reason(ranks: list[list[dict[str, Any]]]) -> str:
    chains = [row["error"] for rows in ranks if (row := last(rows, "error"))]
    return chains[0][0][:200] if chains else "no rank said why"


def digests(ended: list[list[dict[str, Any]]]) -> str:
    """Say whether those who ended have the same parameters; nothing where they told none."""
    ends = [last(rows, "end") or {} for rows in ended]
    found = {row["parameters"] for row in ends if "parameters" in row}
    if not found:
        return ""
    return "parameters alike" if len(found) == 1 else "parameters DIFFER"


def apart(one: Run, other: Run) -> float | None:
    """Return the largest relative difference of losses; None where the steps are others."""
    largest, compared = 0.0, 0
    for rank in range(len(one.ranks)):
        mine, theirs = one.losses(rank), other.losses(rank)
        if mine.keys() != theirs.keys():
            return None
        for step, loss in mine.items():
            scale = max(abs(loss), abs(theirs[step]), 1e-9)
            largest, compared = max(largest, abs(loss - theirs[step]) / scale), compared + 1
    return largest if compared else None


def shortfall(case: Case, gloo: Run, holdfast: Run) -> str:
    """Return what is not as expected; empty where all is."""
    if "DIFFER" in holdfast.detail:
        return holdfast.detail
    if case.expected != SAME:
        if holdfast.became == case.expected:
            return ""
        return f"expected: {case.expected}; became: {holdfast.became} ({holdfast.detail})"
    if holdfast.became != PASSES:
        return f"holdfast: {holdfast.became} ({holdfast.detail})"
    difference = apart(holdfast, gloo)
    if difference is None:
        return f"the steps of gloo are others ({gloo.became}, {gloo.detail})"
    return "" if difference <= RTOL else f"losses differ from gloo's by {difference:.1e}"
