"""All faults that the doctor should tell, several times each, on real ranks: a table.

    python tests/bench/fault_matrix.py --seeds 5 --healthy 20 > matrix.md

Prints a row as soon as it is known. Needs root for the faults of networks (namespaces, token
buckets, a packet filter); without, those rows say why they are missing. Exit status 0.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "python/health"))
sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "python/support"))

from doctor_faults import FAULTS, Fault, Trial, show, try_fault, try_healthy
from emulated_network import Unavailable


def row(name: str, trials: list[Trial], seeds: int) -> str:
    right = sum(t.right for t in trials)
    alone = sum(t.right and t.alone for t in trials)
    took = sorted(t.verdict.seconds for t in trials)
    since = sorted(t.since_s for t in trials)
    said = sorted({f["kind"] for t in trials for f in t.verdict.accusations})
    return (
        f"| {name} | {right}/{seeds} | {alone}/{seeds} | {', '.join(said)} "
        f"| {statistics.median(took):.1f} | {took[-1]:.1f} | {since[-1]:.1f} |"
    )


class Notes:
    """Files that a long run leaves behind; no path, no file."""

    def __init__(self, log: str, trials: str) -> None:
        self.log = Path(log or os.devnull)
        self.trials = Path(trials or os.devnull)

    def wrong(self, what: str, text: str) -> None:
        with self.log.open("a") as out:
            print(f"=== {what}\n{text}", file=out)

    def trial(self, name: str, seed: int, trial: Trial) -> None:
        told = {
            "fault": name,
            "seed": seed,
            "right": trial.right,
            "alone": trial.alone,
            "seconds": trial.verdict.seconds,
            "since_s": trial.since_s,
        }
        with self.trials.open("a") as out:
            print(json.dumps(told), file=out)
        if not (trial.right and trial.alone):
            self.wrong(f"{name}, seed {seed}", show(trial))


def try_all(fault: Fault, seeds: range, notes: Notes) -> str:
    """A row of the table."""
    trials: list[Trial] = []
    for seed in seeds:
        with tempfile.TemporaryDirectory() as here:
            try:
                trials.append(try_fault(fault, Path(here) / "w", seed))
            except Unavailable as why:
                return f"| {fault.name} | {why} | | | | | |"
        notes.trial(fault.name, seed, trials[-1])
    return row(fault.name, trials, len(seeds))


def try_all_healthy(seeds: range, notes: Notes) -> str:
    accused = 0
    took = []
    for seed in seeds:
        with tempfile.TemporaryDirectory() as here:
            verdict = try_healthy(Path(here) / "w", seed)
        accused += verdict.status != 0
        took.append(verdict.seconds)
        if verdict.status != 0:
            notes.wrong(f"healthy, seed {seed}", verdict.text)
    return f"{accused} of {len(seeds)} healthy noisy jobs accused; longest look {max(took):.1f} s"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--healthy", type=int, default=20)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--rows", default="", metavar="A:B", help="these rows of the table only")
    parser.add_argument("--only", default="", help="faults whose name has this in it")
    parser.add_argument("--log", default="", help="file for what was said in wrong answers")
    parser.add_argument("--json", default="", help="file for one line per trial")
    arguments = parser.parse_args()
    notes = Notes(arguments.log, arguments.json)
    start = arguments.first_seed
    first, _, last = arguments.rows.partition(":")
    faults = FAULTS[int(first or 0) : int(last or len(FAULTS))]
    if arguments.seeds > 0:
        print("| fault | named | and nobody else | as | median s | longest s | since fault s |")
        print("|---|---|---|---|---|---|---|", flush=True)
        for fault in faults:
            if arguments.only in fault.name:
                seeds = range(start, start + arguments.seeds)
                print(try_all(fault, seeds, notes), flush=True)
    if arguments.healthy > 0:
        print(f"\n{try_all_healthy(range(start, start + arguments.healthy), notes)}")


if __name__ == "__main__":
    main()
