"""What ranks do with the rest of the backend: groups made from groups, odd reductions, hooks."""

from __future__ import annotations

import os
import signal
import threading
import time
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch_edge_ranks import cpu_backend
from torch_world import check, expect, join


def premultiplied_sums(rank: int, size: int) -> None:
    total = sum(range(1, size + 1))
    for dtype in (
        *(torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.complex64),
        *(torch.int16, torch.int64, torch.float8_e4m3fn, torch.float8_e5m2),
    ):
        t = torch.full((5,), float(rank + 1)).to(dtype)
        dist.all_reduce(t, op=dist._make_nccl_premul_sum(2.0))
        check(t.to(torch.float64), torch.full((5,), 2.0 * total).double(), dtype)
    # Every rank has its own factor.
    factor = torch.tensor([float(rank + 1)])
    t = torch.ones(3, 2).t()
    dist.all_reduce(t, op=dist._make_nccl_premul_sum(factor))
    check(t, torch.full((2, 3), float(total)), "factor of a tensor, strided")
    out = torch.empty(4)
    own = torch.ones(4 * size)
    dist.reduce_scatter_tensor(out, own, op=dist._make_nccl_premul_sum(0.5))
    check(out, torch.full((4,), 0.5 * size), "reduce_scatter_tensor")
    check(own, torch.ones(4 * size), "the input stays")
    parts = [torch.full((2,), float(r)) for r in range(size)]
    out = torch.empty(2)
    dist.reduce_scatter(out, parts, op=dist._make_nccl_premul_sum(3.0))
    check(out, torch.full((2,), 3.0 * rank * size), "reduce_scatter")
    t = torch.ones(3)
    dist.reduce(t, dst=size - 1, op=dist._make_nccl_premul_sum(4.0))
    check(t, torch.full((3,), 4.0 * size if rank == size - 1 else 1.0), "reduce")


def sparse_sums(rank: int, size: int) -> None:
    def of(r: int) -> torch.Tensor:
        # Row r twice (to be added), one row in common, none at all on the last rank.
        if r == size - 1:
            return torch.sparse_coo_tensor(torch.empty(1, 0, dtype=torch.long), torch.empty(0, 3))
        rows = torch.tensor([[r, r, size]])
        values = torch.arange(9.0).reshape(3, 3) + r
        return torch.sparse_coo_tensor(rows, values, (size + 1, 3))

    def sized(t: torch.Tensor) -> torch.Tensor:
        return torch.sparse_coo_tensor(t._indices(), t._values(), (size + 1, 3))

    want = sum((sized(of(r)).to_dense() for r in range(size)), torch.zeros(size + 1, 3))
    t = sized(of(rank))
    dist.all_reduce(t)
    assert t.is_sparse
    check(t.to_dense(), want, "sparse")
    t = sized(of(rank))
    work = dist.all_reduce(t, async_op=True)
    work.wait()
    check(t.to_dense(), want, "sparse, asynchronous")
    expect(NotImplementedError, "accepted: SUM", lambda: dist.all_reduce(t, op=dist.ReduceOp.MAX))


def odd_reductions() -> None:
    rank, size = join()
    premultiplied_sums(rank, size)
    sparse_sums(rank, size)
    dist.destroy_process_group()


def receive_from_anybody() -> None:
    rank, size = join()
    if rank == 0:
        seen = []
        for _ in range(2 * (size - 1)):
            t = torch.empty(3)
            source = dist.recv(t, tag=7)
            check(t, torch.full((3,), float(source)), "whose message")
            seen.append(source)
        assert sorted(seen) == sorted(2 * list(range(1, size))), seen
        large = torch.empty(1_000_000)
        work = dist.irecv(large, tag=8)
        work.wait()
        check(large[-1:], torch.tensor([float(work._source_rank())]), "a large one")
        # Nobody waits: asking for it, or for its Future, must be enough.
        dist.distributed_c10d._get_default_store().wait(["sent"])
        t = torch.zeros(3)
        work = dist.irecv(t, src=1, tag=9)
        deadline = time.monotonic() + 20
        while not work.is_completed():
            assert time.monotonic() < deadline, "polled in vain"
        check(t, torch.ones(3), "polled")
        assert dist.irecv(t, src=1, tag=9).get_future().wait()[0] is not None
        check(t, torch.ones(3) * 2, "by its Future")
    else:
        for _ in range(2):
            dist.send(torch.full((3,), float(rank)), dst=0, tag=7)
        if rank == 1:
            dist.send(torch.full((1_000_000,), 1.0), dst=0, tag=8)
            dist.distributed_c10d._get_default_store().set("sent", "yes")
            for i in (1, 2):
                dist.isend(torch.ones(3) * i, dst=0, tag=9)
    dist.barrier()
    dist.destroy_process_group()


def sum_over(group: Any, size: int) -> None:
    t = torch.ones(1000)
    group.allreduce([t]).wait()
    check(t, torch.full((1000,), float(size)), "in a derived group")


def derive_groups() -> None:
    rank, size = join()
    backend: Any = cpu_backend()
    assert backend.supports_splitting
    assert backend.supports_shrinking
    world = dist.group.WORLD
    assert world is not None
    half = [r for r in range(size) if r % 2 == rank % 2]
    part = world.split_group(half, timedelta(seconds=60), group_name=f"half {rank % 2}")
    assert part is not None
    assert (part.rank(), part.size()) == (half.index(rank), len(half))
    sum_over(part, len(half))
    only = world.split_group([0, 2], group_name="without the others")
    assert (only is None) == (rank not in (0, 2))
    # The backend's own calls; the halves meet again, in reverse.
    options = backend.options
    options.group_name = "merged"
    store = dist.PrefixStore("merged", dist.distributed_c10d._get_default_store())
    merged = backend.merge(store, options, size - 1 - rank, size)
    assert (merged.rank(), merged.size()) == (size - 1 - rank, size)
    sum_over(merged, size)
    sum_over(world, size)
    part.shutdown()
    merged.shutdown()
    dist.barrier()
    dist.destroy_process_group()


def shrink_in_peace() -> None:
    rank, size = join()
    if rank == 1:
        dist.barrier()
        dist.destroy_process_group()
        return
    dist.barrier()
    survivors = dist.shrink_group([1])
    assert dist.get_world_size(survivors) == size - 1
    assert dist.get_rank() == (rank if rank < 1 else rank - 1)
    t = torch.ones(10)
    dist.all_reduce(t)
    check(t, torch.full((10,), float(size - 1)), "after the shrink")
    dist.destroy_process_group()


def shrink_after_a_death() -> None:
    """Rank 2 dies in an all-reduce; the others go on without it in the same process group."""
    rank, size = join()
    t = torch.ones(1_000_000)
    dist.all_reduce(t)
    if rank == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    try:
        while True:
            dist.all_reduce(t)
    except RuntimeError as error:
        assert "lost" in str(error), error
    began = time.monotonic()
    dist.shrink_group([2], shrink_flags=dist.distributed_c10d.SHRINK_ABORT)
    assert time.monotonic() - began < 10
    t = torch.ones(1000)
    dist.all_reduce(t)
    check(t, torch.full((1000,), float(size - 1)), "without the dead")
    dist.destroy_process_group()


def watch_completions() -> None:
    join()
    group = dist.group.WORLD
    assert group is not None
    group._enable_collectives_timing()
    work = dist.all_reduce(torch.ones(1000), async_op=True)
    work.wait()
    assert 0 < work._get_duration() < 60_000
    assert work.get_future_result().wait() == 0
    seen: list[tuple[str, int, float]] = []
    main = threading.get_ident()

    def hook(info: Any) -> None:
        assert threading.get_ident() != main
        seen.append((str(info.op_type), info.seq, info.active_duration.total_seconds()))

    group._register_on_completion_hook(hook)
    first = cpu_backend()._get_sequence_number_for_group() + 1
    works = [dist.all_reduce(torch.ones(10), async_op=True) for _ in range(5)]
    dist.broadcast(torch.ones(3), src=0)
    for work in works:
        work.wait()
    group._wait_for_pending_works()
    assert sorted(s for _, s, _ in seen) == list(range(first, first + 6)), seen
    assert sum("ALLREDUCE" in kind for kind, _, _ in seen) == 5, seen
    assert all(0 <= seconds < 60 for _, _, seconds in seen), seen
    dist.barrier()
    dist.destroy_process_group()


def options_and_timeouts() -> None:
    import holdfast

    rank, size = join()
    backend: Any = cpu_backend()
    assert backend.options._timeout.total_seconds() > 0
    backend._set_default_timeout(timedelta(seconds=77))
    assert backend.options._timeout == timedelta(seconds=77)
    assert backend.name() == "holdfast"
    assert str(backend.get_error()).endswith("SUCCESS")
    group = dist.new_group(list(range(size)), timeout=timedelta(milliseconds=300))
    if rank == 0:
        began = time.monotonic()
        expect(TimeoutError, "rank 1", lambda: dist.barrier(group=group))
        assert time.monotonic() - began < 10
    dist.barrier()
    mixed = dist.new_group(backend="cpu:holdfast")
    t = torch.ones(4)
    dist.all_reduce(t, group=mixed)
    check(t, torch.full((4,), float(size)), "a group named by device")
    options = holdfast.Options(timeout=5)
    with_options = dist.new_group(backend="holdfast", pg_options=options)
    dist.all_reduce(t, group=with_options)
    dist.destroy_process_group()


def tell_mismatches() -> None:
    """Rank 1 has another program; both learn what each of them called."""
    rank, _ = join()
    t = torch.ones(2000)
    report = (
        "rank 0 called all_reduce #0 (f32, 2000 elements, sum); "
        "rank 1 called broadcast #0 (f32, 2000 elements, root 0)"
    )
    began = time.monotonic()
    expect(
        RuntimeError,
        report,
        (lambda: dist.all_reduce(t)) if rank == 0 else (lambda: dist.broadcast(t, src=0)),
    )
    assert time.monotonic() - began < 10
    dist.destroy_process_group()


def all_are(t: torch.Tensor, value: int) -> bool:
    """Whether all elements are; in blocks, for a mask of all of them is as large again."""
    return all(bool((block == value).all()) for block in t.split(2**24))


def move_more_than_two_gibibytes() -> None:
    rank, size = join()
    count = 2**31 + 1000
    t = torch.full((count,), rank + 1, dtype=torch.uint8)
    dist.all_reduce(t)
    total = sum(range(1, size + 1))
    assert int(t[0]) == total
    assert int(t[-1]) == total
    assert all_are(t, total)
    t.fill_(rank)
    dist.broadcast(t, src=1)
    assert all_are(t, 1)
    if rank == 0:
        dist.send(t, dst=1)
    else:
        t.zero_()
        dist.recv(t, src=0)
        assert all_are(t, 1)
    dist.destroy_process_group()
