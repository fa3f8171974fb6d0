"""Kills in every phase of a training with snapshots: whether its bits stay what they were.

``python snapshot_kills.py --count 25 --code 3+1 --transport shm`` trains on four ranks, each a host
(a domain) of its own, with a snapshot at each step, and kills a trainer, rank 0, a keeper, a host
(both), m hosts at once, all trainers, all of them and their launcher (the job is started again
under its name), or somebody while others are being brought back: in the step, or while keepers
copy, code, commit or flush. Processes kill each other at the very place that the order names
(kills/trap.py). Each kill waits until all is protected again after the one before.

It counts what differs from a run without snapshots and kills, at any step of any rank, in the loss
or in any bit of the state's tensors and residuals; what did more than two steps again; and what was
not protected again within four minutes. A line of JSON for each kill goes to ``--out``.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parent / "kills"))

from training import RANKS, Steps, Training
from trap import Order

VICTIMS = ("trainer", "rank 0", "keeper", "host", "m hosts", "all", "job", "second")
PHASES = ("step", "copy", "coding", "commit", "flush")
WELL_S, HIT_S = 240.0, 60.0


class Kill(NamedTuple):
    """What is killed, where, and what at the next restore."""

    what: str
    phase: str
    victims: list[str]
    second: list[str]


def planned(rng: random.Random, what: str, phase: str, parity: int) -> Kill:
    """Draw the ranks of a kill."""
    first, other = rng.sample(range(RANKS), 2)
    host = [f"trainer-{first}", f"keeper-{first}"]
    second: list[str] = []
    victims = {
        "trainer": [f"trainer-{max(1, first)}"],
        "rank 0": ["trainer-0"],
        "keeper": host[1:],
        "host": host,
        "m hosts": [*host, *((f"trainer-{other}", f"keeper-{other}") if parity > 1 else ())],
        "all": [f"trainer-{rank}" for rank in range(RANKS)],
        "job": ["launcher", *(f"trainer-{rank}" for rank in range(RANKS))],
    }.get(what)
    if victims is None:
        victims = host if parity and rng.random() < 0.5 else host[:1]
        # Of hosts m in all.
        second = [f"trainer-{other}"]
        if parity > len(victims) - 1 and rng.random() < 0.5:
            second.append(f"keeper-{other}")
    return Kill(what, phase, victims, second)


def do(training: Training, number: int, kill: Kill, rng: random.Random) -> dict[str, Any]:
    """Kill, and wait until all is protected again; return what happened."""
    rank = rng.randrange(RANKS)
    # Flushes are rare.
    skip = rng.randrange(2 if kill.phase == "flush" else 4)
    order = Order(number, kill.phase, rank, skip, kill.victims)
    told: dict[str, Any] = {"what": kill.what, "phase": kill.phase, "victims": kill.victims}
    order.leave(training.folder)
    is_hit = training.waits(lambda: order.hit(training.folder) is not None, HIT_S)
    if not is_hit and order.take_back(training.folder):
        return {**told, "missed": True}
    told["hit"] = order.hit(training.folder)
    begun, after, lives = time.monotonic(), training.furthest, len(training.again)
    if kill.second:
        later = Order(number + 1, "restore", -1, rng.randrange(8), kill.second)
        later.leave(training.folder)
        told["second"] = kill.second
        # A restore with less to do than the order skips goes by it.
        training.waits(
            lambda: later.hit(training.folder) is not None or training.is_well(after + 2), WELL_S
        )
        if not later.take_back(training.folder):
            told["second_hit"] = later.hit(training.folder)
    if kill.what == "job":
        training.launcher.wait()
        training.start()
    if not training.waits(lambda: training.is_well(after + 2) or is_over(training), WELL_S):
        told["failed"] = "not protected again in time"
    elif training.launcher.poll() == 0 and told["hit"]["killed"] < len(kill.victims):
        return {**told, "missed": True}  # the training was over, and some of them had gone
    elif training.launcher.poll() is not None:
        told["failed"] = f"the job ended with status {training.launcher.returncode}"
    told["seconds"] = round(time.monotonic() - begun, 2)
    told["again"] = max(training.again[lives:], default=0)
    if told["again"] > 2:
        told["failed"] = f"{told['again']} steps were done again"
    return told


def is_over(training: Training) -> bool:
    return training.launcher.poll() is not None


def environment(options: argparse.Namespace, job: str, code: str) -> dict[str, str]:
    found = {
        "HOLDFAST_JOB": job,
        "HOLDFAST_TRANSPORTS": options.transport,
        "KIND": options.kind,
        "CODE": code,
        "WIDTH": str(options.width),
        "STEPS": str(options.steps),
        "PACE": "0" if code == "plain" else str(options.pace),
        "EVERY": str(options.flush_every),
    }
    if options.kind != "fsdp":
        found["HOLDFAST_ON_PEER_LOSS"] = "raise"
    return found


def undisturbed(options: argparse.Namespace, folder: Path) -> Steps:
    """Return what each step comes to, without snapshots; kept for the next run."""
    training = Training(folder / "right", environment(options, f"right-{folder}", "plain"))
    try:
        if not training.waits(lambda: is_over(training), 1200.0):
            raise SystemExit("the undisturbed training does not end")
        training.look()
    finally:
        training.end()
    return {at: next(iter(told)) for at, told in training.found.items()}


def right_steps(options: argparse.Namespace, folder: Path) -> Steps:
    kept = Path(options.right) if options.right else None
    # The order of sums is that of the transport.
    of = {name: getattr(options, name) for name in ("kind", "transport", "width", "steps")}
    if kept is not None and kept.exists():
        found = json.loads(kept.read_text())
        if found["of"] != of:
            raise SystemExit(f"--right {kept} is of {found['of']}; accepted: one of {of}")
        return {(r, s): told for r, s, told in found["steps"]}
    right = undisturbed(options, folder)
    if kept is not None:
        steps = [[r, s, told] for (r, s), told in right.items()]
        kept.write_text(json.dumps({"of": of, "steps": steps}))
    return right


def one(
    folder: Path, kills: list[Kill], rng: random.Random, options: argparse.Namespace, right: Steps
) -> list[dict[str, Any]]:
    """Train until all kills are done, or one has failed; return what each came to."""
    training = Training(folder, environment(options, f"kills-{folder}", options.code))
    told: list[dict[str, Any]] = []
    try:
        while kills and training.furthest < options.steps - 100:
            if not told and not training.waits(lambda: training.is_well(2), WELL_S):
                told.append({"failed": "does not begin"})
                break
            kill = kills.pop(0)
            told.append(do(training, 10 * len(told), kill, rng))
            if wrong := training.wrong(right):
                told[-1]["failed"] = "; ".join(wrong)
            say(told[-1], options)
            if "failed" in told[-1]:
                break
        else:
            (folder / "enough").touch()
            if not training.waits(lambda: is_over(training), WELL_S):
                told.append({"what": "end", "failed": "does not end"})
            elif training.wrong(right) or training.missing:
                wrong = f"{training.wrong(right)}, {training.missing} steps are missing"
                told.append({"what": "end", "failed": wrong})
        if told and "failed" in told[-1]:
            training.dump()
            kept = Path(tempfile.mkdtemp(prefix="snapshot-kills-"))
            for path in folder.iterdir():
                if path.is_file():
                    shutil.copy(path, kept)
            told[-1]["kept"] = str(kept)
            say(told[-1], options)
    finally:
        training.end()
        shutil.rmtree(folder / "states", ignore_errors=True)
    return told


def say(told: dict[str, Any], options: argparse.Namespace) -> None:
    line = {"code": options.code, "transport": options.transport, "kind": options.kind, **told}
    print(json.dumps(line), flush=True)
    if options.out:
        with Path(options.out).open("a") as out:
            out.write(json.dumps(line) + "\n")


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--count", type=int, default=20, help="kills")
    parser.add_argument("--each", type=int, default=10, help="kills of one training, at most")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--code", default="3+1", help="k+m; empty: none")
    parser.add_argument("--transport", default="shm,tcp", help="HOLDFAST_TRANSPORTS")
    parser.add_argument("--kind", default="fsdp", choices=("fsdp", "ddp", "onebit", "powersgd"))
    parser.add_argument("--what", default=",".join(VICTIMS), help="victims, with commas between")
    parser.add_argument("--phases", default=",".join(PHASES))
    parser.add_argument("--width", type=int, default=900, help="of the model's layers")
    parser.add_argument("--steps", type=int, default=1500, help="of a training, at most")
    parser.add_argument("--pace", type=float, default=0.05, help="seconds, a pause in each step")
    parser.add_argument("--flush-every", type=int, default=5)
    parser.add_argument("--right", default="", help="file of the undisturbed run, made or read")
    parser.add_argument("--out", default="", help="file that gets a line for each kill")
    options = parser.parse_args(arguments)
    rng = random.Random(options.seed)
    parity = int(options.code.partition("+")[2] or 0)
    cells = [(w, p) for p in options.phases.split(",") for w in options.what.split(",")]
    if not parity:
        cells = [(w, p) for w, p in cells if w in ("trainer", "rank 0", "keeper", "all", "job")]
    rng.shuffle(cells)
    kills = [planned(rng, *cells[n % len(cells)], parity) for n in range(options.count)]
    told: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory(prefix="kills-") as place:
        folder = Path(place)
        right = right_steps(options, folder)
        number = 0
        while kills:
            some, kills = kills[: options.each], kills[options.each :]
            told += one(folder / str(number), some, rng, options, right)
            kills, number = some + kills, number + 1
    done = [each for each in told if "hit" in each]
    bad = [each for each in told if "failed" in each]
    print(Counter((each["what"], each["phase"]) for each in done))
    print(f"{len(done)} kills in {number} trainings, {len(bad)} wrong")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
