"""Every rank of every way to train in parallel is killed, many times each: a table.

    python tests/bench/kill_matrix.py --repeats 20 --json deaths.jsonl > matrix.md

Trains a small model over three or four processes with DDP, FSDP2, HSDP, ZeRO-1 and a pipeline,
kills one with SIGKILL at a random moment of a step, and judges what all others saw by what
docs/reference/guarantees.md says (tests/python/membership/parallel_deaths.py). Prints a row as
soon as it is known; times are from the kill until a survivor was told, or had ended its next step.
Exit status 1 when anything was not as documented. All of it are 320 deaths, of one to three seconds
each.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "python/membership"))
sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "python/support"))

from parallel_deaths import WAYS, Trial, Way, try_death

HEAD = (
    "| way to train | ranks | killed | as documented | survivors saw | median ms | longest ms |\n"
    "|---|---|---|---|---|---|---|"
)


def row(way: Way, victim: int, trials: list[Trial]) -> str:
    right = sum(not trial.wrong for trial in trials)
    saw = ", ".join(kind for kind, _ in Counter(trial.saw for trial in trials).most_common())
    times = [time for trial in trials for time in trial.times_s] or [float("nan")]
    return (
        f"| {way.name} | {way.ranks} | {victim} | {right}/{len(trials)} | {saw} "
        f"| {1e3 * statistics.median(times):.0f} | {1e3 * max(times):.0f} |"
    )


class Notes:
    """What a long run leaves behind: a line for each death, and what was said in wrong ones."""

    def __init__(self, trials: str, log: str) -> None:
        self._trials = Path(trials or os.devnull)
        self._log = Path(log or os.devnull)
        self._shows = sys.stderr.isatty()

    def progress(self, text: str) -> None:
        if self._shows:
            print(f"\r{text:<60}", end="", file=sys.stderr, flush=True)

    def trial(self, seed: int, trial: Trial) -> None:
        death = trial.death
        ops = sorted({one.error["op"] for one in death.seen if one.error is not None})
        line = {
            "way": death.way,
            "ranks": death.size,
            "killed": death.victim,
            "seed": seed,
            "step": death.step,
            "right": not trial.wrong,
            "wrong": trial.wrong,
            "saw": trial.saw,
            "ops": ops,
            "times_ms": [round(1e3 * time, 1) for time in trial.times_s],
        }
        with self._trials.open("a") as out:
            print(json.dumps(line), file=out)
        if not trial.wrong:
            return
        with self._log.open("a") as out:
            print(f"=== {death.way}, rank {death.victim}, seed {seed}: {trial.wrong}", file=out)
            for one in death.seen:
                print(f"--- rank {one.rank}, status {one.status}\n{one.text}", file=out)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--repeats", type=int, default=20, help="deaths of each rank (default: 20)")
    names = ", ".join(way.name for way in WAYS)
    parser.add_argument("--only", default="", help=f"these ways, with commas between: {names}")
    parser.add_argument("--killed", type=int, default=-1, help="this rank only")
    parser.add_argument("--first-seed", type=int, default=0, help="the moments of death")
    parser.add_argument("--json", default="", help="file for one line per death")
    parser.add_argument("--log", default="", help="file for what was said in wrong ones")
    arguments = parser.parse_args()
    wanted = arguments.only.split(",") if arguments.only else [way.name for way in WAYS]
    unknown = set(wanted) - {way.name for way in WAYS}
    if unknown:
        parser.error(f"--only {sorted(unknown)}; accepted: {names}")
    notes = Notes(arguments.json, arguments.log)
    seeds = range(arguments.first_seed, arguments.first_seed + arguments.repeats)
    wrong: Counter[str] = Counter()
    print(HEAD, flush=True)
    for way in [way for way in WAYS if way.name in wanted]:
        for victim in range(way.ranks):
            if arguments.killed not in (-1, victim):
                continue
            trials = []
            for seed in seeds:
                notes.progress(
                    f"{way.name}, rank {victim}: death {len(trials) + 1} of {len(seeds)}"
                )
                with tempfile.TemporaryDirectory() as here:
                    trials.append(try_death(way, victim, seed, Path(here)))
                notes.trial(seed, trials[-1])
                wrong.update(f"{way.name}: {what}" for what in trials[-1].wrong)
            notes.progress("")
            print(row(way, victim, trials), flush=True)
    for what, times in wrong.most_common(20):
        print(f"\n{times} times: {what}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
