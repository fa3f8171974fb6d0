"""What a user of each client should know, for the page: it was met when the cases were written."""

from __future__ import annotations

ACCELERATE_NOTES = (
    "**The name.** On a CPU accelerate 1.15 takes gloo whatever it is told: "
    '`InitProcessGroupKwargs(backend="holdfast")`, its documented way, ends in a `ValueError`, '
    "*Your assigned backend holdfast is not available, please use gloo*. It does leave a process "
    "group alone that is there already, so that one line before `Accelerator()` is enough: "
    '`dist.init_process_group("holdfast")`. `accelerator.state.backend` says gloo all the same. '
    "Where there is a GPU, its source takes the name as it is given; that was not run.",
    "**Its test scripts** are run unchanged. `accelerate launch --cpu` starts one process, or an "
    "`mpirun`; so torchrun starts them, with `ACCELERATE_USE_CPU=true`.",
    "**A kill.** The survivors' loop goes on, and they keep the same parameters. accelerate and "
    "DDP divide by the number of ranks that they began with: with one of three lost, gradients and "
    "`accelerator.reduce(loss, 'mean')` are two thirds of the survivors' mean. An optimiser like "
    "Adam hides that for gradients; `holdfast.average_gradients` as DDP's communication hook "
    "divides by those who are there. torchrun ends the survivors, as it does with any backend: "
    "start the ranks by `holdfast run`.",
)

LIGHTNING_NOTES = (
    '**The name**: `DDPStrategy(process_group_backend="holdfast")`, and the same argument of '
    "`ModelParallelStrategy`.",
    "**Found here**: whatever is logged with `sync_dist=True` is averaged by `ReduceOp.AVG`, and "
    "so is the batch size, an int64, unless the backend's name is gloo, for which Lightning has a "
    "way of its own. Holdfast refused averages of integers; now it has them, as NCCL does.",
    "**FSDPStrategy** wants a GPU, whatever the backend. `ModelParallelStrategy` is FSDP2, and "
    "runs on a CPU; its default is tensor parallel over all ranks of a host, so "
    "`data_parallel_size` is given.",
    "**A kill.** Lightning takes the ranks that `holdfast run` starts as torchrun's. With DDP the "
    "survivors finish the epoch, validate, save the checkpoint (rank 0 lives) and end. Started by "
    "Lightning itself, rank 0 looks at its children every five seconds and ends all when one has "
    "ended. With FSDP2 the lost shard ends the survivors' step: *PeerLost*; load a checkpoint.",
)

DEEPSPEED_NOTES = (
    '**The name**: `deepspeed.init_distributed(dist_backend="holdfast")`. `DS_ACCELERATOR=cpu` '
    "and `DS_BUILD_OPS=0`; the optimiser is torch's (`torch_adam`), so that nothing is compiled.",
    "**A kill.** ZeRO-1 and 2 reduce the gradients without the lost rank and raise *PeerLost* on "
    "all survivors at the `all_gather` of parameters in the same `engine.step()`: the part that "
    "the lost rank kept is gone. The survivors' own parts have made that step by then, so load a "
    "checkpoint. ZeRO-3 raises it where parameters are gathered for the forward. DeepSpeed's own "
    "launcher then ends what is left; gloo's survivors get a `RuntimeError` at the same place.",
)

TORCHTITAN_NOTES = (
    "**Not made for a CPU, nor for torch 2.13**, so the program tells it some things from outside, "
    "alike for both backends: the device's name and number; no statistics of memory; "
    "`ScaledDotProductAttention` (FlexAttention has no backward on a CPU); "
    "`spmd_backend=partial_dtensor` and `dist.set_timeout`, whose counterparts want a newer torch. "
    "triton must be installed. The model, FSDP2, the loop, checkpoints and `torchtitan.train.main` "
    "are its own.",
    "**The name.** torchtitan has no option for the backend: it looks it up in "
    "`torch.distributed.Backend.default_device_backend_map`, where the program writes it.",
    "**gloo needs help**: torchtitan's FSDP asks for a premultiplied sum, which gloo does not have "
    "(*Cannot use ReduceOp.PREMUL_SUM with Gloo*) and Holdfast has. To have something to compare "
    "with, the program tells FSDP to sum and divide with gloo.",
    "**A kill**: *PeerLost* at the next `all_gather` of parameters. With `torchrun "
    "--max-restarts=1` all ranks start again in the same store, find each other, and go on from "
    "torchtitan's last checkpoint. With gloo the second life hung, each time that it was tried: "
    "two ranks in `init_process_group`, and one past it. `holdfast run --respawn` starts the "
    "killed rank again, finds that the others have ended, and starts all of them in a new store.",
)

RAY_NOTES = (
    '**The name**: `TorchTrainer(..., torch_config=TorchConfig(backend="holdfast"))`.',
    "**A kill**, with `FailureConfig(max_failures=1)`. The survivors' step goes on and ends. Ray's "
    "controller sees the worker's death, takes the whole group of workers down, starts a new one "
    "and goes on from the last checkpoint: what was done since then is done again, with the same "
    "losses. That is Ray's policy and the same with gloo, whose survivors fail at once instead. "
    "Ray logs *Graceful shutdown of backend failed. This is expected if one of the workers has "
    "crashed*.",
)
