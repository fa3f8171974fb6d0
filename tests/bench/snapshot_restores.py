"""How long a state takes to come back: from keepers, by the code, from files, beside torch's own.

``python snapshot_restores.py`` has ranks with ``--megabytes`` of FSDP2's state each, takes a
snapshot, lets go of the keepers as after a loss, overwrites the state, and brings it back, several
times: each rank from its own keeper; with one host's keeper killed, whose part is decoded; and from
the files of a flush. Beside them ``dcp.load`` of the same state from the page cache. Markdown:
median seconds until the last rank has its state, in all and without that of finding the keepers.
All ranks check every byte. Ranks are of different domains.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch import nn
from torch.distributed.checkpoint.state_dict import get_state_dict
from torch.distributed.fsdp import fully_shard

from holdfast import ft

LIMIT_S = 1200.0
WIDTH = 1024


class Lost(Exception):
    """Ends a run as a loss does: its keepers stay."""


def build(megabytes: float) -> dict[str, Any]:
    torch.manual_seed(1)
    # AdamW has two more of each parameter; the model is shared by all ranks.
    layers = max(1, round(megabytes * 1e6 * dist.get_world_size() / 12 / WIDTH / WIDTH))
    model = nn.Sequential(*(nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(layers)))
    for layer in model:
        fully_shard(layer)
    fully_shard(model)
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
    for parameter in model.parameters():
        parameter.grad = torch.ones_like(parameter)
    optimizer.step()
    return {"model": model, "optim": optimizer}


def tensors(state: dict[str, Any]) -> list[torch.Tensor]:
    of_optimizer = [
        value
        for slots in state["optim"].state.values()
        for value in slots.values()
        if value.dim() > 0
    ]
    every = [*state["model"].parameters(), *of_optimizer]
    return [one.to_local() for one in every]  # type: ignore[attr-defined]


@torch.no_grad()
def spoil(state: dict[str, Any]) -> None:
    for one in tensors(state):
        one.fill_(float("nan"))


def seconds(act: Callable[[], None]) -> float:
    """Return what the slowest rank took."""
    dist.barrier()
    begun = time.monotonic()
    act()
    took = torch.tensor([time.monotonic() - begun])
    dist.all_reduce(took, dist.ReduceOp.MAX)
    return float(took.item())


def take(state: dict[str, Any], named: dict[str, Any], step: int) -> int:
    """Have keepers with a snapshot, and no trainer's link to them; return the keeper."""
    keeper = 0
    with contextlib.suppress(Lost), ft.Snapshots(state, **named) as taken:
        keeper = taken.keeper
        taken.take(step)
        taken.fence()
        taken.take(step + 1)  # returns when the first is committed
        taken.fence()
        taken._settle()
        assert taken.committed == step + 1, taken.unprotected
        raise Lost
    return keeper


def bring_back(state: dict[str, Any], named: dict[str, Any], ends: bool) -> None:
    with contextlib.suppress(Lost), ft.Snapshots(state, **named) as taken:
        assert taken.step > 0
        if not ends:
            raise Lost


def restores(options: argparse.Namespace, folder: str) -> dict[str, list[float]]:
    state = build(options.megabytes)
    was = [one.clone() for one in tensors(state)]
    found: dict[str, list[float]] = {}

    def note(kind: str, act: Callable[[], None]) -> None:
        spoil(state)
        found.setdefault(kind, []).append(seconds(act))
        same = all(torch.equal(one, other) for one, other in zip(tensors(state), was, strict=True))
        assert same, kind

    size, rank = dist.get_world_size(), dist.get_rank()
    for number in range(options.times):
        named = {"code": (size - 1, 1), "job": f"restores-{options.job}-{number}"}
        keeper = take(state, named, 1)
        note("own keepers", lambda named=named: bring_back(state, named, False))
        dist.barrier()
        if rank == size - 1:
            os.kill(keeper, signal.SIGKILL)
        dist.barrier()
        note("one host lost", lambda named=named: bring_back(state, named, True))
        dist.barrier()
        files = {
            "flush": f"file://{folder}/{number}",
            "flush_every": 1,
            "job": f"files-{options.job}-{number}",
        }
        with ft.Snapshots(state, **files) as taken:
            keeper = taken.keeper
            taken.take(1)
        # It writes what is left, and ends; a new life would wait for that.
        while Path(f"/proc/{keeper}").exists():
            time.sleep(0.05)
        dist.barrier()
        note("files of a flush", lambda files=files: bring_back(state, files, True))
        dist.barrier()
    of_model, of_optimizer = get_state_dict(state["model"], state["optim"])
    saved = {"model": of_model, "optim": of_optimizer}
    dcp.save(saved, checkpoint_id=f"{folder}/dcp")
    for _ in range(options.times):
        note("dcp.load", lambda: dcp.load(saved, checkpoint_id=f"{folder}/dcp"))
    return found


def be_rank(options: argparse.Namespace) -> None:
    torch.set_num_threads(1)
    os.environ["HOLDFAST_DOMAIN"] = f"domain{os.environ['RANK']}"
    dist.init_process_group("holdfast")
    found = restores(options, options.folder)
    if dist.get_rank() == 0:
        own = median(found["dcp.load"])
        print(f"{options.ranks} ranks of {options.megabytes:g} MB, {options.times} times\n")
        print("| from | median s | longest s | dcp.load's, by it |\n|---|---|---|---|")
        for kind, took in found.items():
            print(f"| {kind} | {median(took):.3f} | {max(took):.3f} | {own / median(took):.1f} |")
    dist.barrier()
    dist.destroy_process_group()


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--megabytes", type=float, default=100.0, help="of state, a rank")
    parser.add_argument("--times", type=int, default=5)
    parser.add_argument("--folder", help="for files; default: one that goes away")
    parser.add_argument("--job", default=str(os.getpid()), help=argparse.SUPPRESS)
    parser.add_argument("--rank", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.rank:
        be_rank(options)
        return 0
    with tempfile.TemporaryDirectory(dir=options.folder) as here:
        run = [sys.executable, "-m", "holdfast.cli", "run", "-n", str(options.ranks), __file__]
        told = ["--rank", "--folder", here, "--job", options.job]
        command = [*run, *arguments, *told]
        return subprocess.run(command, timeout=LIMIT_S, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
