"""All faults that the doctor should tell, several times each, on real ranks: a table.

    python tests/bench/fault_matrix.py --seeds 5 --healthy 20 > matrix.md

Prints a row as soon as it is known. Needs root for the faults of networks (namespaces, token
buckets, a packet filter); without, those rows say why they are missing. Exit status 0.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "python"))

from doctor_faults import FAULTS, Trial, show, try_fault, try_healthy
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--healthy", type=int, default=20)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--only", default="", help="faults whose name has this in it")
    parser.add_argument("--log", default="", help="file for what was said in wrong answers")
    parser.add_argument("--json", default="", help="file for one line per trial")
    arguments = parser.parse_args()
    log = Path(arguments.log).open("a") if arguments.log else None  # noqa: SIM115
    lines = Path(arguments.json).open("a") if arguments.json else None  # noqa: SIM115
    print("| fault | named | and nobody else | as | median s | longest s | since the fault s |")
    print("|---|---|---|---|---|---|---|", flush=True)
    for fault in FAULTS:
        if arguments.only not in fault.name:
            continue
        trials: list[Trial] = []
        missing = ""
        for seed in range(arguments.first_seed, arguments.first_seed + arguments.seeds):
            with tempfile.TemporaryDirectory() as here:
                try:
                    trials.append(try_fault(fault, Path(here) / "w", seed))
                except Unavailable as why:
                    missing = str(why)
                    break
            trial = trials[-1]
            if lines:
                told = {
                    "fault": fault.name,
                    "seed": seed,
                    "right": trial.right,
                    "alone": trial.alone,
                    "seconds": trial.verdict.seconds,
                    "since_s": trial.since_s,
                }
                print(json.dumps(told), file=lines, flush=True)
            if log and not (trial.right and trial.alone):
                print(f"=== {fault.name}, seed {seed}\n{show(trial)}", file=log, flush=True)
        if missing:
            print(f"| {fault.name} | {missing} | | | | | |", flush=True)
        else:
            print(row(fault.name, trials, arguments.seeds), flush=True)
    accused = 0
    took = [0.0]
    for seed in range(arguments.first_seed, arguments.first_seed + arguments.healthy):
        with tempfile.TemporaryDirectory() as here:
            verdict = try_healthy(Path(here) / "w", seed)
        accused += bool(verdict.accusations)
        took.append(verdict.seconds)
        if log and verdict.accusations:
            print(f"=== healthy, seed {seed}\n{verdict.text}", file=log, flush=True)
    if arguments.healthy:
        print(
            f"\n{accused} of {arguments.healthy} healthy noisy jobs accused; longest look "
            f"{max(took):.1f} s"
        )


if __name__ == "__main__":
    main()
