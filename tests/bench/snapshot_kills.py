"""Kills at random instants of a training with snapshots: whether its bits stay what they were.

``python snapshot_kills.py --count 50 --code 3+1`` trains with FSDP2 and AdamW on four ranks again
and again (tests/python/state/snapshot_ranks.py), each time with a kill of a trainer, a keeper, a
host (both), or all trainers after a random time, and a second one in half of the cases; the job
goes on in the processes that live, or is started again. One line each, and at the end how many had
other losses or shards than the undisturbed run, hung, or did more than two steps again.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

HERE = Path(__file__).resolve().parent
RANKS, LIMIT_S = 4, 120.0
WHAT = ("trainer", "keeper", "host", "all")


def start(here: Path, job: str, code: str, steps: int) -> subprocess.Popen[str]:
    folders = [HERE.parent / "python/state", HERE.parent / "python/support"]
    (here / "program.py").write_text(
        f"import sys; sys.path[:0] = {[str(f) for f in folders]!r}\n"
        "import snapshot_ranks; snapshot_ranks.restarts()\n"
    )
    env = {
        **os.environ,
        "OMP_NUM_THREADS": "1",
        "SPREAD": "fsdp",
        "MARKS": str(here),
        "CODE": code,
        "STEPS": str(steps),
        "HOLDFAST_JOB": job,
    }
    command = [sys.executable, "-m", "holdfast.cli", "run", "-n", str(RANKS), "--tag-output"]
    return subprocess.Popen(
        [*command, "--respawn", "program.py"],
        cwd=here,
        env=env,
        text=True,
        stdout=(here / "output").open("a"),
        stderr=subprocess.STDOUT,
    )


def processes(job: str) -> dict[str, dict[int, int]]:
    """Trainers and keepers of a job, by rank."""
    found: dict[str, dict[int, int]] = {"trainer": {}, "keeper": {}}
    for folder in Path("/proc").iterdir():
        if not folder.name.isdecimal():
            continue
        try:
            words = (folder / "cmdline").read_bytes().split(b"\0")
            env = (folder / "environ").read_bytes().split(b"\0")
        except OSError:
            continue
        if f"HOLDFAST_JOB={job}".encode() not in env:
            continue
        if b"holdfast._keeper" in words:
            found["keeper"][int(words[words.index(b"--rank") + 1])] = int(folder.name)
        elif any(word.endswith(b"program.py") for word in words) and b"--respawn" not in words:
            rank = next((e for e in env if e.startswith(b"RANK=")), b"RANK=-1")
            found["trainer"][int(rank[5:])] = int(folder.name)
    return found


def kill(job: str, what: str, rank: int) -> None:
    there = processes(job)
    victims = []
    if what in ("trainer", "host"):
        victims.append(there["trainer"].get(rank))
    if what in ("keeper", "host"):
        victims.append(there["keeper"].get(rank))
    if what == "all":
        victims += there["trainer"].values()
    for process in victims:
        if process:
            try:
                os.kill(process, signal.SIGKILL)
            except ProcessLookupError:
                continue


def steps_of(text: str) -> dict[tuple[str, str], set[str]]:
    found: dict[tuple[str, str], set[str]] = {}
    for line in text.splitlines():
        words = line.split()
        if len(words) == 5 and words[1] == "STEP":
            found.setdefault((words[0], words[2]), set()).add(" ".join(words[3:]))
    return found


def one(here: Path, rng: random.Random, options: argparse.Namespace, right: object) -> list[str]:
    """Disturb one training; return what was wrong."""
    job = f"kills-{here}"
    process = start(here, job, options.code, options.steps)
    begun = time.monotonic()
    while "STEP" not in (here / "output").read_text() and time.monotonic() - begun < LIMIT_S:
        time.sleep(0.01)
    # A host at a time, as the code says.
    plan = [(rng.choice(WHAT), rng.randrange(RANKS)) for _ in range(rng.choice((1, 2)))]
    for what, rank in plan:
        time.sleep(rng.uniform(0.0, options.within))
        kill(job, what, rank)
        if (what, rank) != plan[-1]:
            time.sleep(rng.uniform(2.0, 6.0))
    wrong = []
    try:
        process.wait(LIMIT_S)
    except subprocess.TimeoutExpired:
        wrong.append("hangs")
        process.terminate()
        process.wait()
    text = (here / "output").read_text()
    found = steps_of(text)
    if any(len(values) > 1 for values in found.values()):
        wrong.append("a step came to two things")
    if found != right:
        wrong.append(f"{len(found)} steps, others than the undisturbed run's")
    print(plan, wrong or "well", f"{time.monotonic() - begun:.1f} s", flush=True)
    for keeper in processes(job)["keeper"].values():
        os.kill(keeper, signal.SIGKILL)
    return wrong


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--count", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--code", default="3+1", help="k+m; empty: none")
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--within", type=float, default=1.0, help="seconds until a kill, at most")
    options = parser.parse_args(arguments)
    rng = random.Random(options.seed)
    with tempfile.TemporaryDirectory() as folder:
        here = Path(folder) / "right"
        here.mkdir()
        start(here, f"kills-{here}", options.code, options.steps).wait(LIMIT_S)
        right = steps_of((here / "output").read_text())
        bad = 0
        for number in range(options.count):
            here = Path(folder) / str(number)
            here.mkdir()
            wrong = one(here, rng, options, right)
            if wrong:
                bad += 1
                kept = Path(tempfile.gettempdir()) / f"snapshot-kills-{options.seed}-{number}"
                kept.write_text((here / "output").read_text())
                print("output kept in", kept, flush=True)
    print(f"{bad} of {options.count} trainings were wrong")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
