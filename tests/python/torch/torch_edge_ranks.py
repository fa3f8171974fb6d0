"""What ranks do at the edges of the torch API: odd tensors, coalescing, groups, time limits."""

from __future__ import annotations

import contextlib
import functools
import os
import threading
import time
from collections.abc import Callable
from datetime import timedelta

import torch
import torch.distributed as dist
from lingering import linger_while_threads_call
from torch import Tensor
from torch_world import check, expect, join

import holdfast

SMALL = torch.arange(12).remainder(5)
MOVED = (
    *(torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64),
    *(torch.uint16, torch.uint32, torch.uint64, torch.float16, torch.bfloat16, torch.float32),
    *(torch.float64, torch.complex32, torch.complex64, torch.complex128, torch.float8_e4m3fn),
    *(torch.float8_e5m2, torch.float8_e4m3fnuz, torch.float8_e5m2fnuz, torch.float8_e8m0fnu),
)
# Dtypes that torch stores but hardly computes with: expected values come from another one.
SUMMED_IN = {
    torch.uint16: torch.int64,
    torch.uint32: torch.int64,
    torch.uint64: torch.int64,
    torch.float8_e4m3fn: torch.float32,
    torch.float8_e5m2: torch.float32,
}


def cpu_backend(group: dist.ProcessGroup | None = None) -> dist.Backend:
    group = group or dist.group.WORLD
    assert group is not None
    return group._get_backend(torch.device("cpu"))


def raw(t: Tensor) -> Tensor:
    """Compare by bits: not every dtype has a comparison."""
    return t.contiguous().view(torch.uint8)


def of_rank(rank: int, dtype: torch.dtype) -> Tensor:
    return (SMALL + rank + 1).to(torch.float32).to(dtype)


def move_every_dtype(rank: int, size: int) -> None:
    right, left = (rank + 1) % size, (rank - 1) % size
    for dtype in MOVED:
        own = of_rank(rank, dtype)
        everyone = [of_rank(r, dtype) for r in range(size)]
        parts = [torch.empty_like(own) for _ in range(size)]
        dist.all_gather(parts, own)
        for part, want in zip(parts, everyone, strict=True):
            check(raw(part), raw(want), ("all_gather", dtype))
        t = own.clone()
        dist.broadcast(t, src=size - 1)
        check(raw(t), raw(everyone[-1]), ("broadcast", dtype))
        out = torch.empty_like(own)
        dist.scatter(out, everyone if rank == 0 else None, src=0)
        check(raw(out), raw(own), ("scatter", dtype))
        dist.gather(own, parts if rank == 0 else None, dst=0)
        outs = [torch.empty_like(own) for _ in range(size)]
        dist.all_to_all(outs, [own.clone() for _ in range(size)])
        for part, want in zip(outs, everyone, strict=True):
            check(raw(part), raw(want), ("all_to_all", dtype))
        if size > 1:
            work = dist.isend(own, right)
            dist.recv(out, left)
            work.wait()
            check(raw(out), raw(everyone[left]), ("recv", dtype))


def reduce_rare_dtypes(rank: int, size: int) -> None:
    def small(r: int) -> Tensor:  # sums are exact in every dtype
        return (SMALL + r).remainder(3).float()

    for dtype, wide in SUMMED_IN.items():
        want = torch.stack([small(r).to(wide) for r in range(size)])
        for op, fold in (
            (dist.ReduceOp.SUM, want.sum(0)),
            (dist.ReduceOp.MAX, want.amax(0)),
            (dist.ReduceOp.MIN, want.amin(0)),
        ):
            t = small(rank).to(dtype)
            dist.all_reduce(t, op=op)
            check(raw(t), raw(fold.to(dtype)), (op, dtype))


def take_odd_tensors(rank: int, size: int) -> None:
    total = size * (size + 1) / 2
    scalar = torch.tensor(rank + 1.0)
    dist.all_reduce(scalar)
    check(scalar, torch.tensor(total), "no dimension")
    complex_values = torch.complex(torch.full((5,), rank + 1.0), torch.full((5,), 1.0))
    conjugate = complex_values.conj()
    assert conjugate.is_conj()
    cpu_backend().allreduce([conjugate]).wait()
    want = torch.complex(torch.full((5,), total), torch.full((5,), -float(size)))
    check(conjugate.resolve_conj(), want, "a conjugate view")
    check(complex_values, want.conj().resolve_conj(), "what a conjugate view looks at")
    negative = torch.complex(torch.zeros(4), torch.full((4,), rank + 1.0)).conj().imag
    assert negative.is_neg()
    parts = [torch.zeros(4) for _ in range(size)]
    dist.all_gather(parts, negative)
    for r, part in enumerate(parts):
        check(part, torch.full((4,), -(r + 1.0)), "a negative view")
    image = torch.full((2, 3, 4, 5), rank + 1.0).to(memory_format=torch.channels_last)
    dist.all_reduce(image)
    check(image, torch.full((2, 3, 4, 5), total), "channels last")
    leaf = torch.full((4, 3), rank + 1.0, requires_grad=True)
    dist.all_reduce(leaf.detach().t())
    check(leaf.detach(), torch.full((4, 3), total), "a view of a leaf")
    with torch.inference_mode():
        grid = torch.full((3, 4), rank + 1.0)
        dist.all_reduce(grid.t()[1:])
        check(grid[:, 1:], torch.full((3, 3), total), "a view in inference mode")
    part_of = torch.zeros(size, 6)
    part_of[rank] = rank
    dist.all_gather_into_tensor(part_of, part_of[rank])
    check(part_of, torch.arange(float(size)).repeat(6, 1).t().contiguous(), "in place")


def coalesce(rank: int, size: int) -> None:
    total = size * (size + 1) / 2
    mixed = [torch.full((n,), rank + 1).to(d) for n, d in ((3, torch.int32), (9000, torch.float32))]
    cpu_backend().allreduce_coalesced(mixed).wait()
    for t in mixed:
        check(t, torch.full_like(t, total), "allreduce_coalesced")
    outs = [torch.zeros(size * n) for n in (2, 7000)]
    with dist._coalescing_manager():
        for out in outs:
            dist.all_gather_into_tensor(out, torch.full((out.numel() // size,), float(rank)))
    for out in outs:
        check(out, torch.arange(float(size)).repeat_interleave(out.numel() // size), "gathered")
    results = [torch.zeros(2), torch.zeros(7000)]
    with dist._coalescing_manager(async_ops=True) as cm:
        for out in results:
            dist.reduce_scatter_tensor(out, torch.full((out.numel() * size,), rank + 1.0))
    cm.wait()
    for out in results:
        check(out, torch.full_like(out, total), "scattered")
    lists = [[torch.zeros(2), torch.zeros(3)] for _ in range(size)]
    own = [torch.full((2,), float(rank)), torch.full((3,), -float(rank))]
    cpu_backend().allgather_coalesced(lists, own).wait()
    for r, (a, b) in enumerate(lists):
        check(torch.cat([a, b]), torch.tensor([r, r, -r, -r, -r]).float(), "allgather_coalesced")


def refuse_the_second_of_two(rank: int, size: int) -> None:
    """The first op runs when the second is refused: it ends in memory that is still there."""
    import holdfast

    options = dist.AllreduceCoalescedOptions()
    options.reduceOp = dist.ReduceOp.AVG
    grid = torch.full((3, 60_000), rank + 1.0)
    pair = [grid.t(), torch.ones(3, dtype=torch.bool)]
    expect(
        holdfast.Unsupported,
        "avg is not defined on bool",
        lambda: cpu_backend().allreduce_coalesced(pair, options),
    )
    t = torch.ones(3)
    dist.all_reduce(t)
    check(t, torch.full((3,), float(size)), "after a refusal")


def use_functional_collectives(rank: int, size: int) -> None:
    import torch.distributed._functional_collectives as functional

    group = dist.group.WORLD
    x = torch.full((size, 2), rank + 1.0)
    total = size * (size + 1) / 2
    check(functional.all_reduce(x, "sum", group) + 0, torch.full((size, 2), total), "all_reduce")
    gathered = functional.all_gather_tensor(x, 0, group) + 0
    want = torch.arange(1.0, size + 1).repeat_interleave(size)
    check(gathered, torch.stack([want, want], 1), "all_gather_tensor")
    scattered = functional.reduce_scatter_tensor(x, "avg", 0, group) + 0
    check(scattered, torch.full((1, 2), total / size), "reduce_scatter_tensor")
    swapped = functional.all_to_all_single(x, None, None, group) + 0
    want = torch.arange(1.0, size + 1)
    check(swapped, torch.stack([want, want], 1), "all_to_all_single")


def count_in_step(rank: int, size: int) -> None:
    """Messages pass between some ranks only: they must not disturb the group's count."""
    before = cpu_backend()._get_sequence_number_for_group()
    if size > 1 and rank < 2:
        t = torch.zeros(1)
        (dist.send if rank == 0 else dist.recv)(t, 1 - rank)
    dist.barrier()
    counts: list[object] = [None] * size
    dist.all_gather_object(counts, cpu_backend()._get_sequence_number_for_group())
    assert len(set(counts)) == 1, counts
    assert counts[0] == before + 1, (before, counts)  # type: ignore[operator]
    # Large enough to go as messages that carry the collective's number.
    t = torch.ones(50_000)
    dist.all_reduce(t)
    check(t, torch.full((50_000,), float(size)), "after a message between two")


def profile(rank: int, size: int) -> None:
    with torch.profiler.profile(record_shapes=True) as profiler:
        dist.all_reduce(torch.ones(7))
        dist.all_reduce(torch.ones(50_000), async_op=True).wait()
    names = [event.name for event in profiler.events()]
    assert names.count("holdfast:all_reduce") == 2, names


def edges() -> None:
    rank, size = join()
    for part in (
        move_every_dtype,
        reduce_rare_dtypes,
        take_odd_tensors,
        coalesce,
        refuse_the_second_of_two,
        use_functional_collectives,
        count_in_step,
        profile,
    ):
        part(rank, size)
        dist.barrier()
    dist.destroy_process_group()


def groups() -> None:
    """Overlapping groups, several at once, and one after another by one name."""
    rank, size = join()
    pairs = {(a, b): dist.new_group([a, b]) for a in range(size) for b in range(a + 1, size)}
    alone = [dist.new_group([r]) for r in range(size)]
    limit = timedelta(seconds=40)
    everybody = dist.new_group(timeout=limit)
    assert cpu_backend(everybody).options._timeout == limit
    dist.all_reduce(torch.ones(2), group=alone[rank])
    for (a, b), group in pairs.items():
        if rank in (a, b):
            t = torch.tensor([rank + 1.0])
            dist.all_reduce(t, group=group)
            check(t, torch.tensor([a + b + 2.0]), ("pair", a, b))
            dist.broadcast(t.fill_(rank), src=b, group=group)
            check(t, torch.tensor([float(b)]), ("pair's broadcast", a, b))

    def work(group: dist.ProcessGroup | None) -> None:
        for n in (1, 5000, 100_000):
            t = torch.ones(n)
            dist.all_reduce(t, group=group)
            check(t, torch.full((n,), float(size)), "two threads")

    threads = [threading.Thread(target=work, args=(g,)) for g in (None, everybody)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    dist.destroy_process_group(everybody)
    dist.destroy_process_group()


def hooks() -> None:
    """DDP's communication hooks, which hang callbacks on Futures, and uneven inputs."""
    from torch import nn
    from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook

    rank, size = join()
    power = powerSGD_hook.PowerSGDState(None, 1, start_powerSGD_iter=2)
    for state, hook in (
        (None, default_hooks.allreduce_hook),
        (None, default_hooks.fp16_compress_hook),
        # Its callback waits for the Future of an op that it starts.
        (power, powerSGD_hook.powerSGD_hook),
    ):
        torch.manual_seed(0)
        layers = nn.Sequential(nn.Linear(10, 300), nn.ReLU(), nn.Linear(300, 4))
        model = nn.parallel.DistributedDataParallel(layers)
        model.register_comm_hook(state, hook)
        for step in range(5):
            chance = torch.Generator().manual_seed(10 * step + rank)
            model(torch.randn(4, 10, generator=chance)).sum().backward()
        own = layers[0].weight.grad
        gradients = [torch.zeros_like(own) for _ in range(size)]
        dist.all_gather(gradients, own)
        assert own.abs().sum() > 0
        for gradient in gradients:
            check(gradient, own, hook)
    plain = nn.parallel.DistributedDataParallel(nn.Linear(4, 4))
    with plain.join():
        for _ in range(2 + rank):
            plain(torch.ones(3, 4)).sum().backward()
    dist.destroy_process_group()


def callbacks() -> None:
    """A callback may start an op and wait for it; who waited for an op may look at its Future."""
    _, size = join()
    for n in (3, 100_000):

        def twice(future: torch.futures.Future[list[Tensor]]) -> float:
            t = future.value()[0]
            return dist.all_reduce(t, async_op=True).get_future().wait()[0].sum().item()

        first = dist.all_reduce(torch.ones(n), async_op=True)
        assert first.get_future().then(twice).wait() == n * size * size
        work = dist.all_reduce(torch.ones(n), async_op=True)
        future = work.get_future()
        work.wait()
        assert future.done()
        assert future.value()[0].sum().item() == n * size
    dist.destroy_process_group()


def join_again() -> None:
    """A store outlives a group: under torchrun the next group of the same name finds it."""
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    store = dist.TCPStore(
        "127.0.0.1", int(os.environ["PORT"]), size, rank == 0, timeout=timedelta(seconds=30)
    )
    for _ in range(3):
        dist.init_process_group("holdfast", store=store, rank=rank, world_size=size)
        t = torch.ones(3)
        dist.all_reduce(t)
        check(t, torch.full((3,), float(size)), "joined again")
        dist.destroy_process_group()
    store.add("left", 1)
    while rank == 0 and store.add("left", 0) < size:
        time.sleep(0.01)


def join_by(method: str, options: object = None) -> None:
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    dist.init_process_group(
        "holdfast", init_method=method, rank=rank, world_size=size, pg_options=options
    )
    t = torch.tensor([float(rank)])
    dist.all_reduce(t)
    check(t, torch.tensor([sum(range(size)) + 0.0]), method)


def join_by_environment() -> None:
    join_by("env://")
    dist.destroy_process_group()


def join_by_address() -> None:
    import holdfast

    join_by(f"tcp://127.0.0.1:{os.environ['PORT']}", holdfast.Options(timeout=77.0))
    assert cpu_backend().options._timeout == timedelta(seconds=77)
    cpu_backend()._set_default_timeout(timedelta(seconds=11))
    assert cpu_backend().options._timeout == timedelta(seconds=11)
    dist.destroy_process_group()


def other_options() -> None:
    import holdfast

    method = f"file://{os.environ['MEETING_FILE']}"
    for options in (dist.ProcessGroupGloo._Options(), {"timeout": 3}):
        call = functools.partial(join_by, method, options)
        expect(holdfast.ConfigError, "accepted: holdfast.Options(", call)


def wrong_shapes(rank: int, size: int) -> None:
    import holdfast

    backend, zeros = cpu_backend(), torch.zeros
    gathering, scattering = dist.GatherOptions(), dist.ScatterOptions()
    gathering.rootRank = scattering.rootRank = rank
    calls: tuple[Callable[[], object], ...] = (
        lambda: backend._allgather_base(zeros(size * 3), zeros(2)),
        lambda: backend._allgather_base(zeros(size * 20_000), zeros(30_000)),
        lambda: backend.allgather([[zeros(3)] * size], [zeros(2)]),
        lambda: backend._reduce_scatter_base(zeros(3), zeros(size * 2)),
        lambda: backend._reduce_scatter_base(zeros(90_000), zeros(size * 20_000)),
        lambda: backend.reduce_scatter([zeros(3)], [[zeros(2)] * size]),
        lambda: backend.alltoall([zeros(3)] * size, [zeros(2) for _ in range(size)]),
        lambda: backend.alltoall_base(zeros(size * 3), zeros(size * 2), [], []),
        lambda: backend.gather([[zeros(3)] * size], [zeros(2)], gathering),
        lambda: backend.scatter([zeros(3)], [[zeros(2)] * size], scattering),
    )
    for i, call in enumerate(calls):
        try:
            call()
        except holdfast.ConfigError as error:
            assert "elements" in str(error), (i, error)
        else:
            raise AssertionError(f"call {i} was not refused")


def wrong_tensors(rank: int, size: int) -> None:
    import holdfast

    backend = cpu_backend()
    sparse = torch.eye(3).to_sparse()
    overlapping = torch.ones(1).expand(4)
    cases: tuple[tuple[type[Exception], str, Callable[[], object]], ...] = (
        (holdfast.Unsupported, "meta", lambda: backend.broadcast([torch.ones(2, device="meta")])),
        (holdfast.Unsupported, "Sparse", lambda: backend.broadcast([sparse])),
        (holdfast.ConfigError, "one memory", lambda: dist.all_reduce(overlapping)),
        (
            holdfast.Unsupported,
            "avg is not defined on bool",
            lambda: dist.all_reduce(torch.ones(2, dtype=torch.bool), op=dist.ReduceOp.AVG),
        ),
        (
            holdfast.Unsupported,
            "max is not defined on c64",
            lambda: backend.allreduce([torch.ones(2) * 1j], dist.ReduceOp.MAX),
        ),
        (
            holdfast.Unsupported,
            "band is not defined on f32",
            lambda: dist.all_reduce(torch.ones(2), op=dist.ReduceOp.BAND),
        ),
        (
            holdfast.ConfigError,
            "Float and Double",
            lambda: backend.allgather([[torch.ones(2).double()] * size], [torch.ones(2)]),
        ),
        (
            holdfast.ConfigError,
            "one per process",
            lambda: backend.allreduce([torch.ones(1), torch.ones(1)]),
        ),
    )
    for kind, text, call in cases:
        expect(kind, text, call)
    t = torch.ones(2)
    dist.all_reduce(t)
    check(t, torch.full((2,), float(size)), "refused calls leave the group as it was")


def refusals() -> None:
    rank, size = join()
    wrong_shapes(rank, size)
    dist.barrier()
    wrong_tensors(rank, size)
    dist.barrier()
    dist.destroy_process_group()


def time_limits() -> None:
    """A wait that ends early leaves the op running; an op that ends late ends the group."""
    import holdfast

    rank, size = join()
    slow = dist.new_group(timeout=timedelta(seconds=1))
    if rank == 0:
        t = torch.ones(3)
        work = dist.all_reduce(t, async_op=True)
        expect(holdfast.Timeout, "still running", lambda: work.wait(timedelta(milliseconds=50)))
        assert not work.is_completed()
        dist.distributed_c10d._get_default_store().set("waited", "yes")
        work.wait()
        assert work.is_completed()
        assert work.is_success()
        check(t, torch.full((3,), float(size)), "after an early end of waiting")
        begin = time.monotonic()
        try:
            dist.recv(t, 1, group=slow)
        except holdfast.Timeout as error:
            assert error.ranks == (1,), error
            assert "option timeout" in str(error), error
        else:
            raise AssertionError("no Timeout")
        assert 0.5 < time.monotonic() - begin < 10
        errors = torch._C._distributed_c10d.ErrorType
        assert cpu_backend(slow).get_error() == errors.TIMEOUT
        assert cpu_backend().get_error() == errors.SUCCESS
        work = dist.all_reduce(t, group=slow, async_op=True)
        future = work.get_future()
        expect(RuntimeError, "gave up", future.wait)
        assert not work.is_success()
    else:
        dist.distributed_c10d._get_default_store().wait(["waited"])
        dist.all_reduce(torch.ones(3))
    dist.barrier()
    dist.destroy_process_group()


def abort() -> None:
    """abort() ends what runs here at once, and on the others as the loss of this rank."""
    import holdfast

    rank, _ = join()
    works = [dist.all_reduce(torch.ones(n), async_op=True) for n in (3, 100_000) if rank == 0]
    if rank == 0:
        cpu_backend().abort()
        for work in works:
            expect(holdfast.Aborted, "abort() was called", work.wait)
    else:
        try:
            dist.recv(torch.ones(1), 0)
        except holdfast.PeerLost as error:
            assert error.ranks == (0,), error
        else:
            raise AssertionError("no PeerLost")
    dist.destroy_process_group()


def drop_in_flight() -> None:
    """Nobody keeps the group, the work or the tensor: the op still ends, and nothing hangs."""
    rank, _ = join()
    dist.barrier()
    group = dist.new_group()
    dist.all_reduce(torch.ones(300_000), group=group, async_op=True)
    dist.destroy_process_group(group)
    del group
    if rank == 0:
        dist.irecv(torch.ones(3), 1)
    dist.destroy_process_group()


def fork() -> None:
    """A forked child is told what is wrong, and its exit leaves the parent's group alone."""
    import holdfast

    _, size = join()
    dist.all_reduce(torch.ones(1))
    child = os.fork()
    if child == 0:
        status = 1
        try:
            expect(holdfast.HoldfastError, "fork", lambda: dist.all_reduce(torch.ones(1)))
            dist.destroy_process_group()
            status = 0
        finally:
            os._exit(status)
    assert os.waitpid(child, 0)[1] == 0
    t = torch.ones(1)
    dist.all_reduce(t)
    check(t, torch.tensor([float(size)]), "the parent goes on")
    dist.destroy_process_group()


def exit_while_callbacks_run() -> None:
    """The program ends while a Future's callback runs, which has the last of its tensors."""
    _, size = join()
    begun = threading.Event()

    def slow(done: torch.futures.Future) -> None:
        begun.set()
        time.sleep(0.5)
        print(done.value()[0].sum().item() == 5 * size, flush=True)

    dist.all_reduce(torch.ones(5), async_op=True).get_future().then(slow)
    assert begun.wait(30)


def exit_while_threads_call() -> None:
    rank, _ = join()
    linger_while_threads_call(lambda tag: dist.recv(torch.ones(4), src=1 - rank, tag=tag))
    with contextlib.suppress(holdfast.PeerLost):
        dist.barrier()
