"""PyTorch's parallel stack on two backends: each program returns numbers, which must be the same.

All programs of a test run in one set of processes, each on a process group of its own.
"""

from __future__ import annotations

import itertools
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from training_ranks import batch, model, train

Program = Callable[[int, int], list[float]]
MEETINGS = itertools.count()


def numbers(*tensors: Tensor) -> list[float]:
    return [x for t in tensors for x in t.detach().double().flatten().tolist()]


def parameters(module: nn.Module) -> list[float]:
    return numbers(*module.parameters())


def same_on_both(*programs: Program) -> None:
    """Run programs with gloo and with Holdfast, on one seed, and compare."""
    torch.set_num_threads(1)
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    for program in programs:
        results = {}
        for backend in ("gloo", "holdfast"):
            method = f"file://{os.environ['MEETING_FILE']}{next(MEETINGS)}"
            dist.init_process_group(backend, init_method=method, rank=rank, world_size=size)
            torch.manual_seed(7)
            results[backend] = program(rank, size)
            dist.barrier()
            dist.destroy_process_group()
        ours, theirs = results["holdfast"], results["gloo"]
        assert len(ours) == len(theirs) > 0, program.__name__
        torch.testing.assert_close(
            torch.tensor(ours), torch.tensor(theirs), rtol=1e-4, atol=1e-5, msg=program.__name__
        )
    # gloo's threads let go of tensors while the interpreter ends, which aborts one run in ten.
    sys.stdout.flush()
    os._exit(0)


class Branching(nn.Module):
    """Uses one of two layers, by the rank."""

    def __init__(self, rank: int) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.one, self.two, self.rank = nn.Linear(16, 4), nn.Linear(16, 4), rank

    def forward(self, x: Tensor) -> Tensor:
        return self.one(x) if self.rank % 2 == 0 else self.two(x)


def ddp_variants(rank: int, _: int) -> list[float]:
    found = train(DistributedDataParallel(model()), rank)
    found += train(DistributedDataParallel(model(), static_graph=True, bucket_cap_mb=0.01), rank)
    found += train(DistributedDataParallel(model(), gradient_as_bucket_view=True), rank)
    found += train(DistributedDataParallel(Branching(rank), find_unused_parameters=True), rank)
    accumulating = DistributedDataParallel(model())
    for step in range(4):
        x, y = batch(rank, step)
        if step % 2 == 0:
            with accumulating.no_sync():
                nn.functional.mse_loss(accumulating(x), y).backward()
        else:
            nn.functional.mse_loss(accumulating(x), y).backward()
    return found + numbers(*(p.grad for p in accumulating.parameters() if p.grad is not None))


def ddp_hooks(rank: int, size: int) -> list[float]:
    from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook

    # DDP refuses annotations that are strings, as they are here.
    def divided(_, bucket):
        future = dist.all_reduce(bucket.buffer().div_(size), async_op=True).get_future()
        return future.then(lambda f: f.value()[0])

    def bf16(state, bucket):
        # By its own name DDP keeps it for CUDA.
        return default_hooks.bf16_compress_hook(state, bucket)

    power = powerSGD_hook.PowerSGDState(None, 2, start_powerSGD_iter=2, min_compression_rate=0.5)
    found = []
    for state, hook in (
        (None, default_hooks.allreduce_hook),
        (None, default_hooks.fp16_compress_hook),
        (None, bf16),
        (power, powerSGD_hook.powerSGD_hook),
        (None, divided),
    ):
        torch.manual_seed(7)
        # One bucket: PowerSGD blocks in callbacks, and with several gloo runs out of threads.
        hooked = DistributedDataParallel(model())
        hooked.register_comm_hook(state, hook)
        found += train(hooked, rank)
    return found


def ddp_join(rank: int, _: int) -> list[float]:
    uneven = DistributedDataParallel(model())
    optimizer = torch.optim.SGD(uneven.parameters(), lr=0.1)
    with uneven.join():
        for step in range(2 + rank):
            x, y = batch(rank, step)
            optimizer.zero_grad()
            nn.functional.mse_loss(uneven(x), y).backward()
            optimizer.step()
    return parameters(uneven)


def local_sgd(rank: int, _: int) -> list[float]:
    from torch.distributed.algorithms.ddp_comm_hooks import post_localSGD_hook as local
    from torch.distributed.algorithms.model_averaging import averagers
    from torch.distributed.optim import PostLocalSGDOptimizer

    replica = DistributedDataParallel(model())
    half, _ = dist.new_subgroups(group_size=2)
    state = local.PostLocalSGDState(process_group=None, subgroup=half, start_localSGD_iter=2)
    replica.register_comm_hook(state, local.post_localSGD_hook)
    optimizer = PostLocalSGDOptimizer(
        torch.optim.SGD(replica.parameters(), lr=0.1),
        averagers.PeriodicModelAverager(period=2, warmup_steps=2),
    )
    for step in range(6):
        x, y = batch(rank, step)
        optimizer.zero_grad()
        nn.functional.mse_loss(replica(x), y).backward()
        optimizer.step()
    return parameters(replica)


def zero_redundancy(rank: int, _: int) -> list[float]:
    from torch.distributed.optim import ZeroRedundancyOptimizer

    sharded = DistributedDataParallel(model())
    optimizer = ZeroRedundancyOptimizer(sharded.parameters(), torch.optim.Adam, lr=0.01)
    for step in range(5):
        x, y = batch(rank, step)
        optimizer.zero_grad()
        nn.functional.mse_loss(sharded(x), y).backward()
        optimizer.step()
    optimizer.consolidate_state_dict(to=0)
    if rank == 0:
        assert len(optimizer.state_dict()["state"]) == len(list(sharded.parameters()))
    if dist.get_backend() != "gloo":  # which torch refuses here, for it may hang
        overlapped_zero(rank)
    return parameters(sharded)


def overlapped_zero(rank: int) -> None:
    from torch.distributed.algorithms.ddp_comm_hooks import ddp_zero_hook, default_hooks
    from torch.distributed.optim import ZeroRedundancyOptimizer

    sharded = DistributedDataParallel(model())
    before = parameters(sharded)
    optimizer = ZeroRedundancyOptimizer(
        sharded.parameters(), torch.optim.Adam, overlap_with_ddp=True, lr=0.01
    )
    hook = ddp_zero_hook.hook_with_zero_step(default_hooks.allreduce_hook, sharded, optimizer)
    sharded.register_comm_hook(None, hook)
    for step in range(6):
        x, y = batch(rank, step)
        optimizer.zero_grad()
        nn.functional.mse_loss(sharded(x), y).backward()
    mine = torch.tensor(parameters(sharded))
    assert mine.tolist() != before
    theirs = mine.clone()
    dist.broadcast(theirs, src=0)
    torch.testing.assert_close(mine, theirs)


def fsdp_generations(rank: int, size: int) -> list[float]:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import FullyShardedDataParallel, ShardingStrategy, fully_shard

    cpu = torch.device("cpu")
    found = train(FullyShardedDataParallel(model(), device_id=cpu, use_orig_params=True), rank)
    grads = ShardingStrategy.SHARD_GRAD_OP
    found += train(FullyShardedDataParallel(model(), device_id=cpu, sharding_strategy=grads), rank)
    meshes = (
        init_device_mesh("cpu", (size,)),
        init_device_mesh("cpu", (2, size // 2), mesh_dim_names=("replicate", "shard")),
    )
    for mesh in meshes:
        sharded = model()
        for layer in sharded:
            if isinstance(layer, nn.Linear):
                fully_shard(layer, mesh=mesh)
        fully_shard(sharded, mesh=mesh)
        found += train(sharded, rank)
    return found


def tensor_parallel(_: int, size: int) -> list[float]:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import DTensor
    from torch.distributed.tensor import parallel as tp

    mesh = init_device_mesh("cpu", (size,))
    plan = {"0": tp.ColwiseParallel(), "2": tp.RowwiseParallel(), "4": tp.ColwiseParallel()}
    plan["4"] = tp.ColwiseParallel(output_layouts=tp.style.Replicate())
    split = tp.parallelize_module(model(), mesh, plan)
    # Every rank has the same data: the group computes one model.
    found = train(split, 0)
    for p in split.parameters():
        found += numbers(p.full_tensor() if isinstance(p, DTensor) else p)
    torch.manual_seed(0)
    norm = tp.parallelize_module(nn.LayerNorm(8), mesh, tp.SequenceParallel(sequence_dim=0))
    x = torch.randn(4 * size, 8)
    whole = norm(DTensor.from_local(x.chunk(size)[dist.get_rank()], mesh, [tp.style.Shard(0)]))
    return found + numbers(whole.full_tensor())


def pipelines(rank: int, size: int) -> list[float]:
    from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleGPipe

    found: list[float] = []
    for kind in (ScheduleGPipe, Schedule1F1B):
        torch.manual_seed(rank)
        part = nn.Sequential(nn.Linear(16, 16), nn.Tanh())
        stage = PipelineStage(part, rank, size, torch.device("cpu"))
        schedule = kind(stage, n_microbatches=4, loss_fn=nn.functional.mse_loss)
        x = torch.randn(16, 16, generator=torch.Generator().manual_seed(3))
        losses: list[Tensor] = []
        if rank == 0:
            schedule.step(x)
        elif rank == size - 1:
            schedule.step(target=x.sin(), losses=losses)
        else:
            schedule.step()
        found += numbers(*losses, *(p.grad for p in part.parameters() if p.grad is not None))
    return found


def checkpoints(rank: int, size: int) -> list[float]:
    from torch.distributed import checkpoint as dcp
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    folder = [tempfile.mkdtemp(dir=Path.cwd())] if rank == 0 else [None]
    dist.broadcast_object_list(folder, src=0)
    mesh = init_device_mesh("cpu", (size,))
    saved = fully_shard(model(), mesh=mesh)
    train(saved, rank)
    state = saved.state_dict()
    dcp.save(state, checkpoint_id=f"{folder[0]}/now")
    dcp.async_save(state, checkpoint_id=f"{folder[0]}/soon").result()
    found = []
    for name in ("now", "soon"):
        loaded = fully_shard(model(), mesh=mesh)
        target = loaded.state_dict()
        dcp.load(target, checkpoint_id=f"{folder[0]}/{name}")
        loaded.load_state_dict(target)
        for mine, other in zip(loaded.parameters(), saved.parameters(), strict=True):
            assert torch.equal(mine.full_tensor(), other.full_tensor())
            found += numbers(mine.full_tensor())
    return found


def meshes(rank: int, size: int) -> list[float]:
    from torch.distributed.device_mesh import init_device_mesh

    mesh = init_device_mesh("cpu", (2, size // 2), mesh_dim_names=("row", "column"))
    found = []
    for name in ("row", "column"):
        group = mesh.get_group(name)
        t = torch.full((3,), float(rank))
        dist.all_reduce(t, group=group)
        parts = [torch.empty(3) for _ in range(group.size())]
        dist.all_gather(parts, t + rank, group=group)
        out = torch.empty(1)
        dist.reduce_scatter_tensor(out, torch.arange(float(group.size())) + rank, group=group)
        found += numbers(t, *parts, out)
    flat = mesh["row", "column"]._flatten("all")
    t = torch.full((2,), float(rank))
    dist.all_reduce(t, group=flat.get_group())
    return found + numbers(t)


def objects(rank: int, size: int) -> list[float]:
    own = {"rank": rank, "text": "x" * rank, "tensor": torch.full((rank,), 1.0)}
    everyone: list[object] = [None] * size
    dist.all_gather_object(everyone, own)
    sent: list[object] = [own, rank] if rank == 1 else [None, None]
    dist.broadcast_object_list(sent, src=1)
    gathered: list[object] | None = [None] * size if rank == 0 else None
    dist.gather_object(own, gathered, dst=0)
    mine: list[object] = [None]
    dist.scatter_object_list(mine, [f"for {r}" for r in range(size)] if rank == 0 else None, src=0)
    assert mine == [f"for {rank}"]
    if rank == 0:
        dist.send_object_list([own, "hello"], dst=1)
    elif rank == 1:
        got: list[object] = [None, None]
        dist.recv_object_list(got, src=0)
        assert got[1] == "hello"
    lengths = [len(o["text"]) for o in everyone]  # type: ignore[index]
    return [float(x) for x in [*lengths, sent[1], len(gathered or [])]]  # type: ignore[arg-type]


def compiled(rank: int, size: int) -> list[float]:
    import torch.distributed._functional_collectives as funcol

    group = dist.group.WORLD
    assert group is not None

    def step(x: Tensor) -> Tensor:
        total = funcol.all_reduce(x * 2, "sum", group)
        parts = funcol.all_gather_tensor(x, 0, group)
        own = funcol.reduce_scatter_tensor(parts, "sum", 0, group)
        swapped = funcol.all_to_all_single(parts, None, None, group)
        spread = funcol.broadcast(x + 1, 1, group)
        return total + own.sum() + swapped.sum() + spread

    x = torch.arange(6.0).reshape(2, 3) + rank
    plain = step(x)
    # inductor needs a C++ compiler at run time; who has none still traces and lowers.
    for name in ("aot_eager", "inductor"):
        torch._dynamo.reset()
        fast = torch.compile(step, backend=name, fullgraph=True)(x)
        torch.testing.assert_close(fast, plain)
    return numbers(plain)


def exchanges(rank: int, size: int) -> list[float]:
    right, left = (rank + 1) % size, (rank - 1) % size
    out, into = torch.full((300_000,), float(rank)), torch.empty(300_000)
    ops = [dist.P2POp(dist.isend, out, right), dist.P2POp(dist.irecv, into, left)]
    for work in dist.batch_isend_irecv(ops):
        work.wait()
    return numbers(into[:2], into[-2:])


def data_parallel() -> None:
    same_on_both(ddp_variants, ddp_hooks, ddp_join, local_sgd, zero_redundancy)


def model_parallel() -> None:
    same_on_both(fsdp_generations, tensor_parallel, pipelines)


def around() -> None:
    same_on_both(checkpoints, meshes, objects, exchanges)


def compilation() -> None:
    same_on_both(compiled)
