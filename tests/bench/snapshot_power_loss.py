"""Power lost at random instants of a flush: whether the newest state that verifies is restored.

``python snapshot_power_loss.py --count 100`` has two keepers with a disk of its own each that flush
at every step, their bodies coded 1+1, and kills both and their trainer at a random instant, again
and again; each life goes on from what the one before has left. After each loss it reads what all
disks together have, as a restore does, once as it is and once without one of the disks. A line for
each loss that was wrong, and at the end how many were.
"""

from __future__ import annotations

import argparse
import random
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "python/state"), str(HERE.parent / "python/support")]

from keeper_flush import lose_power, newest_manifest, newest_there  # noqa: E402

WORLD = 2


def wrong_after(here: Path, newest: int, committed: int, lost: int) -> tuple[int, str]:
    """Return the step that is there after a loss, and what is wrong."""
    step, wrong = newest_there(here, WORLD)
    if not wrong and step != newest_manifest(here):
        wrong = f"of step {newest_manifest(here)} there is a manifest, and step {step} is taken"
    if not wrong and not newest <= step <= committed + 1:
        wrong = f"step {step}, after {newest}; {committed} was committed"
    if wrong:
        return step, wrong
    with tempfile.TemporaryDirectory() as folder:
        for rank in {*range(WORLD)} - {lost}:
            shutil.copytree(here / f"disk{rank}", Path(folder) / f"disk{rank}")
        # A disk may lack the newest manifest, which the other one has.
        there, wrong = newest_there(Path(folder), WORLD)
        if not wrong and there != newest_manifest(Path(folder)):
            wrong = f"without disk {lost}: step {there}"
    return step, wrong


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--count", type=int, default=100, help="losses of power")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--within", type=float, default=0.5, help="seconds until a loss, at most")
    options = parser.parse_args(arguments)
    chance = random.Random(options.seed)
    newest, bad = 0, 0
    with tempfile.TemporaryDirectory() as folder:
        here = Path(folder)
        for number in range(options.count):
            job = f"{folder}-{number}"
            committed = lose_power(here, job, newest + 1, chance, options.within)
            step, wrong = wrong_after(here, newest, committed, number % WORLD)
            if wrong:
                bad += 1
                print(f"loss {number}: {wrong}", flush=True)
            else:
                newest = step
    print(f"{bad} of {options.count} losses were wrong; {newest} steps in all")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
