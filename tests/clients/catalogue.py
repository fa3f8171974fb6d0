"""Which clients are run, in which cases, and what is to be known about each."""

from __future__ import annotations

from dataclasses import dataclass

from case import GOES_ON, PASSES, PEER_LOST, REFUSED, RESTARTED, SAME, TORN_DOWN, Case
from notes import (
    ACCELERATE_NOTES,
    DEEPSPEED_NOTES,
    LIGHTNING_NOTES,
    RAY_NOTES,
    TORCHTITAN_NOTES,
)


@dataclass(frozen=True, slots=True)
class Client:
    """A package of PyPI, at a version, and notes for the page: paragraphs of Markdown."""

    name: str
    package: str
    requirements: tuple[str, ...]
    notes: tuple[str, ...]


ON_CPU = {"ACCELERATE_USE_CPU": "true"}
DEEPSPEED = {"DS_ACCELERATOR": "cpu", "DS_BUILD_OPS": "0"}
# Lightning's launcher looks every five seconds.
SLOWLY = {"CLIENT_PAUSE": "2"}
RAY = {"RAY_USAGE_STATS_ENABLED": "0"}

CLIENTS = (
    Client("accelerate", "accelerate", ("accelerate==1.15.0",), ACCELERATE_NOTES),
    Client("lightning", "lightning", ("lightning==2.6.6",), LIGHTNING_NOTES),
    Client("deepspeed", "deepspeed", ("deepspeed==0.19.8",), DEEPSPEED_NOTES),
    # It imports triton, which it does not name among its requirements, on a CPU as well.
    Client("torchtitan", "torchtitan", ("torchtitan==0.3.0", "triton==3.9.0"), TORCHTITAN_NOTES),
    Client("ray", "ray", ("ray[train]==2.60.0",), RAY_NOTES),
)


def accelerate() -> tuple[Case, ...]:
    train, option = ("accelerate_train.py",), ("accelerate_train.py", "option")
    own = tuple(
        Case("accelerate", f"accelerate-{name}", f"its own `{name}.py`",
             ("accelerate_test_script.py", name), "torchrun", 2, PASSES, env=ON_CPU)
        for name in ("test_script", "test_ops", "test_sync")
    )  # fmt: skip
    return (
        *own,
        Case("accelerate", "accelerate-option", "the name by `InitProcessGroupKwargs`", option,
             "torchrun", 2, REFUSED, env=ON_CPU),
        Case("accelerate", "accelerate-train", "a training loop (DDP)", train, "torchrun", 3, SAME,
             env=ON_CPU),
        Case("accelerate", "accelerate-kill", "the loop, rank 1 killed at step 5", train,
             "holdfast run", 3, GOES_ON, "1:5", env=ON_CPU),
        Case("accelerate", "accelerate-kill-torchrun", "the same", train, "torchrun", 3, TORN_DOWN,
             "1:5", env=ON_CPU | SLOWLY),
    )  # fmt: skip


def lightning() -> tuple[Case, ...]:
    ddp, fsdp, fsdp2 = (("lightning_train.py", name) for name in ("ddp", "fsdp", "fsdp2"))
    return (
        Case("lightning", "lightning-ddp", "`DDPStrategy`, validation, a checkpoint", ddp, "own",
             3, SAME),
        Case("lightning", "lightning-ddp-kill", "the same, rank 1 killed at step 5", ddp,
             "holdfast run", 3, GOES_ON, "1:5"),
        Case("lightning", "lightning-ddp-kill-own", "the same", ddp, "own", 3, TORN_DOWN, "1:5",
             env=SLOWLY),
        Case("lightning", "lightning-fsdp", "`FSDPStrategy`", fsdp, "own", 3, REFUSED),
        Case("lightning", "lightning-fsdp2", "`ModelParallelStrategy` (FSDP2), likewise",
             fsdp2, "own", 3, SAME),
        Case("lightning", "lightning-fsdp2-kill", "the same, rank 1 killed at step 5", fsdp2,
             "holdfast run", 3, PEER_LOST, "1:5"),
    )  # fmt: skip


def deepspeed() -> tuple[Case, ...]:
    cases = []
    for stage in (1, 2, 3):
        program = ("deepspeed_train.py", str(stage))
        cases += [
            Case("deepspeed", f"deepspeed-zero{stage}", f"ZeRO-{stage}, a checkpoint", program,
                 "torchrun", 3, SAME, env=DEEPSPEED),
            Case("deepspeed", f"deepspeed-zero{stage}-kill", "the same, rank 1 killed at step 5",
                 program, "holdfast run", 3, PEER_LOST, "1:5", env=DEEPSPEED),
        ]  # fmt: skip
    cases.append(
        Case("deepspeed", "deepspeed-zero2-kill-own", "ZeRO-2, rank 1 killed at step 5",
             ("deepspeed_train.py", "2"), "deepspeed", 3, PEER_LOST, "1:5", env=DEEPSPEED)
    )  # fmt: skip
    return tuple(cases)


def torchtitan() -> tuple[Case, ...]:
    program = ("torchtitan_train.py",)
    return (
        Case("torchtitan", "torchtitan", "debug model of Llama 3 (FSDP2), checkpoints", program,
             "torchrun", 2, SAME),
        Case("torchtitan", "torchtitan-kill", "the same, rank 1 killed at step 5", program,
             "holdfast run", 3, PEER_LOST, "1:5"),
        Case("torchtitan", "torchtitan-restart", "the same, rank 1 killed at step 5", program,
             "torchrun --max-restarts=1", 3, RESTARTED, "1:5", limit_s=90),
        Case("torchtitan", "torchtitan-respawn", "the same, rank 1 killed at step 5", program,
             "holdfast run --respawn", 3, RESTARTED, "1:5"),
    )  # fmt: skip


def ray() -> tuple[Case, ...]:
    program = ("ray_train.py",)
    return (
        Case("ray", "ray", "`TorchTrainer` (DDP)", program, "own", 3, SAME, limit_s=240, env=RAY),
        Case("ray", "ray-kill", "the same, a worker killed at step 5", program, "own", 3,
             RESTARTED, "1:5", limit_s=240, env=RAY),
    )  # fmt: skip


CASES = (*accelerate(), *lightning(), *deepspeed(), *torchtitan(), *ray())
