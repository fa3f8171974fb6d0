"""Bits flipped at random places of keepers' memory and of files: repaired, refused, never loaded.

``python snapshot_flips.py --count 1000`` has three keepers with bodies coded 2+1, flips a bit in
the memory of one (every fourth time three bits, anywhere), and lets the next life of the job read
its state; then it does the same to the files of such a state. Says how often the state was had as
it was captured, how often it was refused, and how often other bytes were given out, which is wrong.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "python/state"), str(HERE.parent / "python/support")]

from coded_files import body_of, written  # noqa: E402
from keeper_flush import flipped, turn  # noqa: E402

from holdfast.ft.state.files import flush  # noqa: E402
from holdfast.ft.state.files.schemes import place  # noqa: E402

K, M = 2, 1


def flipped_files(here: Path, count: int, chance: random.Random) -> dict[str, int]:
    found = {"restored": 0, "refused": 0, "wrong": 0, "one was refused": 0}
    root = place(str(here))
    folder = here / written([root] * (K + M), K, M).folder
    paths = sorted(folder.iterdir())
    for number in range(count):
        bits = 3 if number % 4 == 3 else 1
        places = []
        for _ in range(bits):
            path = chance.choice(paths)
            places.append((path, chance.randrange(path.stat().st_size), chance.randrange(8)))
            turn(*places[-1])
        saved = flush.newest(root)
        if saved is None:
            found["refused"] += 1
            # A manifest is not coded: of one that is damaged the state before is taken.
            found["one was refused"] += bits == 1 and path.suffix != ".json"
        else:
            is_right = all(saved.body(r) == body_of(r, 5).tobytes() for r in range(K + M))
            found["restored" if is_right else "wrong"] += 1
        for one in places:
            turn(*one)
    return found


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--count", type=int, default=1000, help="of each kind")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--where", choices=("memory", "files", "both"), default="both")
    options = parser.parse_args(arguments)
    wrong = 0
    with tempfile.TemporaryDirectory() as folder:
        for where in ("memory", "files"):
            if options.where not in (where, "both"):
                continue
            chance, begun = random.Random(options.seed), time.monotonic()
            here = Path(folder) / where
            here.mkdir()
            if where == "memory":
                found = flipped(here, f"{folder}", options.count, chance)
            else:
                found = flipped_files(here, options.count, chance)
            wrong += found["wrong"] + found["one was refused"]
            print(f"{where}: {options.count} times, {found}, {time.monotonic() - begun:.0f} s")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
