"""What snapshots cost training: waiting, and the keepers' processor time, beside torch's own.

``python snapshot_costs.py`` starts ranks that train a model of ``--megabytes`` of state each, with
steps of ``--step-seconds``, without snapshots, with them, and with a code; Markdown: seconds that a
step waited, the run's time by that without, and processor seconds of a keeper for a GB of state.
Beside them the call of ``dcp.async_save`` on the same state. Ranks are of different domains. Before
what is measured there are two snapshots, so that all memory has been used once; what keepers do
while nothing is asked of them is measured for itself, and is not in their time for a GB.
``--frozen 0.9`` adds a run in which so much of the model is not trained: what keepers send each
other for the code then, by what they send where all is trained.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch import nn
from torch.distributed.checkpoint.state_dict_saver import AsyncCheckpointerType

from holdfast import _job, ft
from holdfast.ft.state.keeper import wire
from holdfast.ft.state.keeper.address import Address

LIMIT_S = 900.0
WARM = 3
IDLE_S = 2.0
# Parameters of the model; of so many parts one can be frozen.
PARTS = 20


def build(megabytes: float) -> tuple[nn.Module, torch.optim.Optimizer]:
    # AdamW has two more of each parameter.
    rows = max(1, round(megabytes * 1e6 / 12 / PARTS / 1024))
    model = nn.ParameterList([nn.Parameter(torch.randn(rows, 1024)) for _ in range(PARTS)])
    return model, torch.optim.AdamW(model.parameters(), 1e-3)


def processor_seconds(process: int) -> float:
    """Of all threads that are there; keepers' stay."""
    found = 0
    for thread in Path(f"/proc/{process}/task").iterdir():
        found += int((thread / "schedstat").read_text().split()[0])
    return found / 1e9


def sent_bytes(rank: int) -> int:
    """What a rank's keeper has sent to others."""
    connection = Address(_job.job_name(), _job.host_name(), rank).connect(30.0)
    assert connection is not None
    with connection:
        wire.send(connection, wire.Message("status"))
        found = wire.receive(connection)
    assert found is not None
    return int(found.fields["counts"]["sent"])


def step(
    model: Any,
    optimizer: torch.optim.Optimizer,
    seconds: float,
    threads: Any,
    frozen: float = 0.0,
) -> None:
    """Gradients come from a pause; the optimiser's step is real."""
    for number, parameter in enumerate(model):
        is_frozen = number < round(frozen * PARTS)
        parameter.grad = None if is_frozen else torch.full_like(parameter, 0.01)
    threads.wait(seconds)
    optimizer.step()


def train(
    options: argparse.Namespace,
    code: tuple[int, int] | None,
    snapshots: bool,
    frozen: float = 0.0,
    flush: str = "",
) -> dict:
    import threading

    pause = threading.Event()
    torch.manual_seed(dist.get_rank())
    model, optimizer = build(options.megabytes)
    state = {"rank": {str(dist.get_rank()): {"model": model, "optim": optimizer}}}
    told: dict[str, Any] = {"code": code, "snapshots": snapshots, "frozen": frozen}
    flushes = {"flush": flush, "flush_every": options.flush_every} if flush else {}
    told |= flushes
    if not snapshots:
        for _ in range(WARM):
            step(model, optimizer, 0.0, pause)
        dist.barrier()
        begun = time.monotonic()
        for _ in range(options.steps):
            step(model, optimizer, options.step_seconds, pause)
        return {**told, "seconds": time.monotonic() - begun}
    every = options.every
    # The first steps make the optimiser's state; two snapshots use each of the keeper's slots.
    warm = max(WARM, 2 * every)
    with ft.Snapshots(state, code=code, every=every, **flushes) as taken:

        def go(first: int, count: int, seconds: float) -> list[float]:
            """Do steps; return how long each snapshot was waited for."""
            waits, before = [], taken.waited_s
            for number in range(first, first + count):
                step(model, optimizer, seconds, pause, frozen * (number > 0))
                if (number + 1) % every == 0:
                    # Before that step, for the one before; and now for this one.
                    taken.take(number + 1)
                    waits.append(taken.waited_s - before)
                    before = taken.waited_s
            return waits

        go(0, warm, 0.0)
        told["idle_processor_s"] = idle(taken.keeper, pause)
        dist.barrier()
        begun = time.monotonic()
        busy, sent = processor_seconds(taken.keeper), sent_bytes(dist.get_rank())
        waits = go(warm, options.steps, options.step_seconds)
        told["seconds"], times = time.monotonic() - begun, len(waits)
        told["waited_s"] = statistics.mean(waits)
        told["waited_median_s"] = statistics.median(waits)
        # What the last one has keepers do is theirs, too.
        pause.wait(IDLE_S)
        passed = time.monotonic() - begun
        busy = processor_seconds(taken.keeper) - busy - passed * told["idle_processor_s"]
        told["processor_s_per_gb"] = busy / (times * options.megabytes / 1e3)
        told["sent_mb"] = (sent_bytes(dist.get_rank()) - sent) / times / 1e6
        told["unprotected"] = taken.unprotected
        dist.barrier()
    return told


def idle(keeper: int, pause: Any) -> float:
    """A keeper's processor seconds for a second in which nothing is asked of it."""
    pause.wait(IDLE_S)  # what was asked before is done
    begun, busy = time.monotonic(), processor_seconds(keeper)
    pause.wait(2 * IDLE_S)
    return (processor_seconds(keeper) - busy) / (time.monotonic() - begun)


def torchs_own(options: argparse.Namespace) -> dict:
    """The call of dcp.async_save, by a thread and by a process; the median of four each."""
    model, optimizer = build(options.megabytes)
    for parameter in model:
        parameter.grad = torch.full_like(parameter, 0.01)
    optimizer.step()
    state = {"model": model.state_dict(), "optim": optimizer.state_dict()["state"]}
    gloo = dist.new_group(backend="gloo")
    told = {}
    for kind in AsyncCheckpointerType:
        calls = []
        with tempfile.TemporaryDirectory() as here:
            for number in range(5):
                begun = time.monotonic()
                saved: Any = dcp.async_save(
                    state,
                    checkpoint_id=f"{here}/{number}",
                    process_group=gloo,
                    async_checkpointer_type=kind,
                )
                calls.append(time.monotonic() - begun)
                saved.result()
        told[f"async_save_{kind.value}_s"] = statistics.median(calls[1:])
    return told


def be_rank(options: argparse.Namespace) -> None:
    torch.set_num_threads(1)
    os.environ["HOLDFAST_DOMAIN"] = f"domain{os.environ['RANK']}"
    dist.init_process_group("holdfast")
    kinds: list[tuple[tuple[int, int] | None, bool]] = [(None, False), (None, True)]
    if options.ranks > 1:
        kinds.append(((options.ranks - 1, 1), True))
    rows = [train(options, code, snapshots) for code, snapshots in kinds]
    if options.frozen:
        rows.append(train(options, *kinds[-1], options.frozen))
        rows[-1]["sent_by_all"] = rows[-1]["sent_mb"] / max(rows[-2]["sent_mb"], 1e-9)
    if options.flush_every:
        rows.append(train(options, *kinds[-1], flush=f"file://{options.folder}"))
    rows.append(torchs_own(options))
    if dist.get_rank() == 0:
        print(json.dumps({"ranks": options.ranks, "megabytes": options.megabytes, "rows": rows}))
    dist.barrier()
    dist.destroy_process_group()


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--ranks", type=int, default=1)
    parser.add_argument("--megabytes", type=float, default=100.0, help="of state, a rank")
    parser.add_argument("--step-seconds", type=float, default=0.3)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--frozen", type=float, default=0.0, help="part of the model, 0 to 1")
    parser.add_argument("--flush-every", type=int, default=0, help="steps, in a last row")
    parser.add_argument("--folder", help=argparse.SUPPRESS)
    parser.add_argument("--rank", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.rank:
        be_rank(options)
        return 0
    run = [sys.executable, "-m", "holdfast.cli", "run", "-n", str(options.ranks)]
    with tempfile.TemporaryDirectory() as here:
        command = [*run, __file__, *arguments, "--folder", here, "--rank"]
        return subprocess.run(command, timeout=LIMIT_S, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
