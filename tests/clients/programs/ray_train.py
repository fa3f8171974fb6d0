"""Ray Train: a TorchTrainer whose TorchConfig is told the backend's name; checkpoints and restarts.

The workers share a folder, so the file of a rank has the lines of all that were it.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import ray
import ray.train
import ray.train.torch
import record
import torch
from ray.train import Checkpoint, FailureConfig, RunConfig, ScalingConfig
from torch import nn

SHARED = ("CLIENT_BACKEND", "CLIENT_OUT", "CLIENT_STEPS", "CLIENT_KILL", "PYTHONPATH")


def loop() -> None:
    """Train; where there is a checkpoint, from the step after it."""
    rank = ray.train.get_context().get_world_rank()
    model = ray.train.torch.prepare_model(record.model())
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    first = 0
    came = ray.train.get_checkpoint()
    if came is not None:
        with came.as_directory() as folder:
            state = torch.load(Path(folder) / "state.pt")
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        first = state["step"] + 1
    record.tell(rank, begins=first, pid=os.getpid())
    for step in range(first, record.STEPS):
        if first == 0:
            record.die_if_due(rank, step)
        x, y = record.batch(rank, step)
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        record.tell_step(rank, step, loss.detach())
        with tempfile.TemporaryDirectory() as folder:
            # Every third step: what was done since is done again after a loss.
            kept = None
            if rank == 0 and step % 3 == 2:
                state = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
                torch.save({**state, "step": step}, Path(folder) / "state.pt")
                kept = Checkpoint.from_directory(folder)
            ray.train.report({"loss": float(loss)}, checkpoint=kept)
    record.tell_end(rank, model.parameters())


def guarded() -> None:
    try:
        loop()
    except BaseException as error:
        record.tell_error(ray.train.get_context().get_world_rank(), error)
        raise


def main() -> None:
    shared = {name: os.environ[name] for name in SHARED if name in os.environ}
    ray.init(
        num_cpus=int(os.environ["CLIENT_RANKS"]),
        include_dashboard=False,
        log_to_driver=True,
        object_store_memory=100_000_000,
        runtime_env={"env_vars": {**shared, "OMP_NUM_THREADS": "1"}},
    )
    trainer = ray.train.torch.TorchTrainer(
        guarded,
        torch_config=ray.train.torch.TorchConfig(backend=record.BACKEND),
        scaling_config=ScalingConfig(num_workers=int(os.environ["CLIENT_RANKS"])),
        run_config=RunConfig(
            storage_path=str(Path(os.environ["CLIENT_OUT"]) / "storage"),
            failure_config=FailureConfig(max_failures=1),
        ),
    )
    trainer.fit()


if __name__ == "__main__":
    main()
