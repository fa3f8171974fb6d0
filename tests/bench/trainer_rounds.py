"""What ``holdfast plan --trainer`` predicts, beside rounds that were measured over a long path.

    python tests/bench/trainer_rounds.py --mbit 4,20

Two members at the ends of a path of the given rate and delay; a local step is a pause and an inner
step. One JSON line for each plan: its rounds, predicted with the step that was measured without a
trainer, and measured. Needs root, `ip`, a C++ compiler and TUN devices.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "python/support"))

from emulated_path import LongPath, Unavailable
from ranks import all_end_well, start_rank

from holdfast.comm.codec_speed import measure
from holdfast.compress.codec import codec_text
from holdfast.ft.outer import trainer_plan
from holdfast.ft.outer.round_time import Rates
from holdfast.ft.outer.trainer_plan import Task, TrainerPlan
from holdfast.topology.link_fit import LinkModel

LIMIT_S = 300.0


def plans(task: Task) -> Iterator[tuple[Task, TrainerPlan]]:
    """What is advised, and rounds of 20 steps by each method with each codec."""
    yield task, trainer_plan.plan(task)
    for method in ("DiLoCo", "StreamingDiLoCo", "AsyncDiLoCo"):
        for codec in (task.codecs[0], task.codecs[-1]):
            one = replace(task, methods=(method,), inner_steps=(20,), codecs=(codec,))
            yield one, trainer_plan.plan(one)


def measured(made: TrainerPlan, path: LongPath, parameters: int, step_s: float) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as here:
        ranks = [
            start_rank(
                *("planned_ranks", "rounds", rank, 2, Path(here)),
                {
                    "PLAN": json.dumps({**asdict(made), "parameters": parameters}),
                    "STEP_S": str(step_s),
                    "HOLDFAST_TRANSPORTS": "tcp",
                    "HOLDFAST_HOST_ID": f"host{rank}",
                    "HOLDFAST_ADDRESS": path.address(rank),
                    "HOLDFAST_TIMEOUT": "120",
                },
                path.inside(rank),
            )
            for rank in range(2)
        ]
        outcomes = all_end_well(ranks, LIMIT_S)
    lines = [line for one in outcomes for line in one.output.splitlines()]
    rows = [json.loads(line[6:]) for line in lines if line.startswith("FOUND ")]
    return {name: max(row[name] for row in rows) for name in rows[0]}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mbit", default="4,20")
    parser.add_argument("--rtt", type=float, default=20.0, help="milliseconds (20)")
    parser.add_argument("--parameters", type=int, default=500_000)
    parser.add_argument("--step-seconds", type=float, default=0.1)
    given = parser.parse_args()
    codecs = [codec_text(name) for name in ("bf16", "int8", "int4")]
    costs = tuple((codec, measure(codec)) for codec in codecs)
    try:
        with LongPath() as path:
            for mbit in map(float, given.mbit.split(",")):
                path.set("both", delay_ms=given.rtt / 2, mbit=mbit, queue_ms=100)
                link = LinkModel(given.rtt / 2e3, 8e-6 / mbit, 0.0)
                task = Task(given.parameters, Rates(2, given.step_seconds, link), costs)
                for one, made in plans(task):
                    found = measured(made, path, given.parameters, given.step_seconds)
                    # The same plan, by the step that was measured.
                    rates = replace(one.rates, step_s=found["step_s"])
                    again = trainer_plan.predicted(one, made, rates)
                    row = {
                        "mbit": mbit,
                        **{k: getattr(made, k) for k in ("method", "inner_steps", "fragments")},
                        **{k: getattr(made, k) for k in ("delay", "codec", "is_enough")},
                        "compute_s": again.compute_s,
                        "predicted_s": again.round_s,
                        "measured_s": found["round_s"],
                        "ratio": found["round_s"] / again.round_s,
                    }
                    print(json.dumps({k: _short(v) for k, v in row.items()}), flush=True)
    except Unavailable as why:
        print(f"trainer_rounds: {why}", file=sys.stderr)
        return 2
    return 0


def _short(value: object) -> object:
    return round(value, 3) if isinstance(value, float) else value


if __name__ == "__main__":
    sys.exit(main())
