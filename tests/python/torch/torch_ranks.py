"""What ranks do in the torch tests: each function is one world's work."""

from __future__ import annotations

import os

import torch
import torch.distributed as dist
from torch import Tensor
from torch_world import check, expect, join

INTEGERS = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)
FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
COMPLEX = (torch.complex64, torch.complex128)


def value(rank: int, count: int, dtype: torch.dtype) -> Tensor:
    """Small whole numbers: their sums are exact in every dtype."""
    return ((torch.arange(count) + rank) % 3).to(dtype)


def everybody(size: int, count: int, dtype: torch.dtype) -> Tensor:
    return torch.stack([value(r, count, dtype) for r in range(size)])


def check_reductions(rank: int, size: int) -> None:
    for count in (0, 1, 7, 1000, 50_000):
        for dtype in (*INTEGERS, *FLOATS, *COMPLEX):
            t = value(rank, count, dtype)
            dist.all_reduce(t)
            check(t, everybody(size, count, dtype).sum(0).to(dtype), ("sum", count, dtype))
    for dtype in (*INTEGERS, *FLOATS):
        all_values = everybody(size, 100, dtype)
        for op, want in (
            (dist.ReduceOp.MAX, all_values.amax(0)),
            (dist.ReduceOp.MIN, all_values.amin(0)),
            (dist.ReduceOp.PRODUCT, all_values.prod(0).to(dtype)),
        ):
            t = value(rank, 100, dtype)
            dist.all_reduce(t, op=op)
            check(t, want, (op, dtype))
    for dtype in FLOATS:
        t = value(rank, 100, dtype)
        dist.all_reduce(t, op=dist.ReduceOp.AVG)
        check(t, (everybody(size, 100, dtype).sum(0) / size).to(dtype), ("avg", dtype))
    for dtype in INTEGERS:
        # As NCCL has it: the sum, which may wrap, divided and rounded towards zero.
        t = (-5 * value(rank, 100, torch.int64)).to(dtype)
        dist.all_reduce(t, op=dist.ReduceOp.AVG)
        total = (-5 * everybody(size, 100, torch.int64).sum(0)).to(dtype)
        check(t, total.div(size, rounding_mode="trunc"), ("avg", dtype))
    for op, fold in (
        (dist.ReduceOp.BAND, "and"),
        (dist.ReduceOp.BOR, "or"),
        (dist.ReduceOp.BXOR, "xor"),
    ):
        t = torch.tensor([rank + 1, 6], dtype=torch.int32)
        want = torch.tensor([1, 6], dtype=torch.int32)
        for r in range(1, size):
            other = torch.tensor([r + 1, 6], dtype=torch.int32)
            want = getattr(torch, f"bitwise_{fold}")(want, other)
        dist.all_reduce(t, op=op)
        check(t, want, op)
    flags = torch.tensor([rank == 0, False, True])
    dist.all_reduce(flags, op=dist.ReduceOp.SUM)
    check(flags, torch.tensor([True, False, True]), "bool")


def check_rooted(rank: int, size: int) -> None:
    for root in range(size):
        for count in (0, 5, 40_000):
            t = value(rank, count, torch.float32)
            dist.broadcast(t, src=root)
            check(t, value(root, count, torch.float32), ("broadcast", root))
            t = value(rank, count, torch.float64)
            dist.reduce(t, dst=root)
            want = everybody(size, count, torch.float64).sum(0)
            own = value(rank, count, torch.float64)
            check(t, want if rank == root else own, ("reduce", root))
            parts = [torch.full((count,), -1.0) for _ in range(size)] if rank == root else None
            dist.gather(value(rank, count, torch.float32), parts, dst=root)
            for r, part in enumerate(parts or []):
                check(part, value(r, count, torch.float32), ("gather", root, r))
            given = [value(r, count, torch.float32) for r in range(size)] if rank == root else None
            t = torch.full((count,), -1.0)
            dist.scatter(t, given, src=root)
            check(t, value(rank, count, torch.float32), ("scatter", root))


def check_exchanges(rank: int, size: int) -> None:
    for count in (0, 3, 30_000):
        for dtype in (torch.float32, torch.int16, torch.complex64, torch.float8_e5m2):
            own = value(rank, count, torch.float32).to(dtype)
            parts = [torch.zeros(count, dtype=dtype) for _ in range(size)]
            dist.all_gather(parts, own)
            flat = torch.zeros(size * count, dtype=dtype)
            dist.all_gather_into_tensor(flat, own)
            for r, part in enumerate(parts):
                want = value(r, count, torch.float32).to(dtype).view(torch.uint8)
                check(part.view(torch.uint8), want, ("all_gather", r, dtype))
            check(flat.view(torch.uint8), torch.cat(parts).view(torch.uint8), "into_tensor")
        source = everybody(size, count, torch.float32) + 10 * rank
        want = sum(everybody(size, count, torch.float32)[rank] + 10 * r for r in range(size))
        t = torch.zeros(count)
        dist.reduce_scatter_tensor(t, source.flatten())
        check(t, want, "reduce_scatter_tensor")
        t = torch.zeros(count)
        dist.reduce_scatter(t, list(source))
        check(t, want, "reduce_scatter")
    # Every rank's block has another size.
    uneven = [torch.zeros(r + 1) for r in range(size)]
    dist.all_gather(uneven, torch.full((rank + 1,), float(rank)))
    for r, part in enumerate(uneven):
        check(part, torch.full((r + 1,), float(r)), "uneven all_gather")


def check_all_to_all(rank: int, size: int) -> None:
    source = torch.arange(size * 4.0).view(size * 2, 2) + 100 * rank
    target = torch.zeros(size * 2, 2)
    dist.all_to_all_single(target, source)
    want = [
        torch.arange(size * 4.0).view(size * 2, 2)[2 * rank : 2 * rank + 2] + 100 * r
        for r in range(size)
    ]
    check(target, torch.cat(want), "all_to_all_single")
    # Rank s sends (s + d) % 3 rows to rank d: some blocks are empty.
    give = [(rank + d) % 3 for d in range(size)]
    take = [(s + rank) % 3 for s in range(size)]
    source = torch.full((sum(give), 3), float(rank))
    target = torch.full((sum(take), 3), -1.0)
    dist.all_to_all_single(target, source, take, give)
    check(target, torch.cat([torch.full((n, 3), float(s)) for s, n in enumerate(take)]), "splits")
    outs = [torch.zeros(n + 1) for n in take]
    dist.all_to_all(outs, [torch.full((n + 1,), float(rank)) for n in give])
    for s, out in enumerate(outs):
        check(out, torch.full_like(out, float(s)), "all_to_all")


def check_messages(rank: int, size: int) -> None:
    if size < 2:
        return
    ahead, behind = (rank + 1) % size, (rank - 1) % size
    for count in (0, 10, 100_000):
        got = torch.zeros(count)
        requests = dist.batch_isend_irecv(
            [
                dist.P2POp(dist.isend, torch.full((count,), float(rank)), ahead),
                dist.P2POp(dist.irecv, got, behind),
            ]
        )
        for request in requests:
            request.wait()
        check(got, torch.full((count,), float(behind)), "batch")
    # Tags match, whatever the order of posting.
    first, second = torch.zeros(1), torch.zeros(1)
    b = dist.irecv(second, behind, tag=2)
    a = dist.irecv(first, behind, tag=1)
    sends = [dist.isend(torch.tensor([float(tag)]), ahead, tag=tag) for tag in (1, 2)]
    for work in (a, b, *sends):
        work.wait()
    check(torch.cat([first, second]), torch.tensor([1.0, 2.0]), "tags")


def check_shapes_and_async(rank: int, size: int) -> None:
    grid = torch.zeros(6, 8)
    view = grid.t()[::2]
    assert not view.is_contiguous()
    view.fill_(rank + 1.0)
    dist.all_reduce(view)
    check(view, torch.full((4, 6), size * (size + 1) / 2), "non-contiguous")
    check(grid[:, 1], torch.zeros(6), "untouched neighbours")
    if rank == 0:
        view.copy_(torch.arange(24.0).view(4, 6))
    dist.broadcast(view, src=0)
    check(view, torch.arange(24.0).view(4, 6), "non-contiguous broadcast")
    works = [
        (t, dist.all_reduce(t, async_op=True))
        for t in (torch.full((n,), float(rank)) for n in (3, 70_000, 3, 0, 9000))
    ]
    for t, work in reversed(works):
        future = work.get_future()
        work.wait()
        assert work.is_completed()
        check(future.wait()[0], torch.full_like(t, size * (size - 1) / 2), "async")
    called = []
    t = torch.ones(5)
    work = dist.all_reduce(t, async_op=True)
    chained = work.get_future().then(lambda f: called.append(f.value()[0].sum().item()))
    chained.wait()
    assert called == [5.0 * size]
    with dist._coalescing_manager():
        many = [torch.full((n,), 1.0) for n in (1, 10, 50_000)]
        for t in many:
            dist.all_reduce(t)
    for t in many:
        check(t, torch.full_like(t, float(size)), "coalesced")


def check_priorities(rank: int, size: int) -> None:
    import holdfast

    bulk = torch.ones(4 << 20)
    small = torch.full((20_000,), rank + 1.0)
    work = dist.all_reduce(bulk, async_op=True)
    backend = dist.group.WORLD._get_backend(torch.device("cpu"))  # type: ignore[union-attr]
    with holdfast.priority(3):
        assert backend.priority == 3
        urgent = dist.all_reduce(small, async_op=True)
    assert backend.priority == 0
    urgent.wait()
    work.wait()
    check(small, torch.full((20_000,), size * (size + 1) / 2), "urgent")
    check(bulk[:: 1 << 20], torch.full((4,), float(size)), "bulk")
    for wrong in (2**31, "high"):
        try:
            with holdfast.priority(wrong):  # type: ignore[arg-type]
                raise AssertionError("a priority that is none")
        except holdfast.ConfigError as error:
            assert f"value = {wrong!r}" in str(error), error


def check_groups(rank: int, size: int) -> None:
    if size < 3:
        return
    evens = dist.new_group(list(range(0, size, 2)))
    if rank % 2 == 0:
        t = torch.ones(3)
        dist.all_reduce(t, group=evens)
        check(t, torch.full((3,), float(len(range(0, size, 2)))), "subgroup")
    objects: list[object] = [None] * size
    dist.all_gather_object(objects, {"rank": rank, "text": "x" * rank * 1000})
    assert [o["rank"] for o in objects] == list(range(size))  # type: ignore[index]


def all_collectives() -> None:
    rank, size = join()
    assert dist.get_backend() == "holdfast"
    check_reductions(rank, size)
    check_rooted(rank, size)
    check_exchanges(rank, size)
    check_all_to_all(rank, size)
    check_messages(rank, size)
    check_shapes_and_async(rank, size)
    check_priorities(rank, size)
    check_groups(rank, size)
    dist.barrier()
    backend = dist.group.WORLD._get_backend(torch.device("cpu"))  # type: ignore[union-attr]
    assert backend._get_sequence_number_for_group() > 0
    dist.destroy_process_group()


def errors() -> None:
    import holdfast

    rank, _ = join()
    backend = dist.group.WORLD._get_backend(torch.device("cpu"))  # type: ignore[union-attr]
    expect(
        holdfast.Unsupported,
        "avg is not defined on bool",
        lambda: dist.all_reduce(torch.ones(2, dtype=torch.bool), op=dist.ReduceOp.AVG),
    )
    expect(
        holdfast.Unsupported,
        "accepted: dense (strided) tensors on cpu",
        lambda: backend.allreduce([torch.ones(2, device="meta")]),
    )
    expect(
        holdfast.Unsupported,
        "can be moved but not reduced",
        lambda: dist.all_reduce(torch.ones(2).to(torch.float8_e8m0fnu)),
    )
    expect(
        holdfast.ConfigError,
        "add up to the first dimension, 4",
        lambda: dist.all_to_all_single(torch.zeros(4), torch.zeros(4), [9, 1], [2, 2]),
    )
    expect(
        holdfast.ConfigError,
        "share memory",
        lambda: (lambda t: dist.all_to_all_single(t, t))(torch.zeros(4)),
    )
    # Calls that do not match fail on both ranks, at once.
    group = dist.new_group([0, 1])
    expect(
        holdfast.ProtocolError,
        "do not match",
        lambda: dist.all_reduce(torch.zeros(10 + rank), group=group),
    )
    # The group has ended; another one goes on.
    expect(holdfast.ProtocolError, "", lambda: dist.all_reduce(torch.zeros(1), group=group))
    t = torch.ones(1)
    dist.all_reduce(t)
    check(t, torch.tensor([2.0]), "the other group")
    dist.destroy_process_group()


def forget_to_destroy() -> None:
    join()
    t = torch.ones(3)
    dist.all_reduce(t)
    work = dist.all_reduce(t, async_op=True)
    if os.environ["RANK"] == "0":
        work.wait()


def go_on_without_a_peer() -> None:
    """Rank 1 ends in mid-loop; the others' sums go on, and say what they are made of."""
    import signal

    import holdfast

    rank, size = join()
    dist.all_reduce(torch.ones(1))
    assert holdfast.live_ranks() == tuple(range(size))
    for step in range(40):
        if rank == 1 and step == 20:
            os.kill(os.getpid(), signal.SIGKILL)
        data = torch.full((200_000,), float(rank + 1))
        work = dist.all_reduce(data, async_op=True)
        work.wait()
        made_of = holdfast.outcome(work)
        sure = float(sum(r + 1 for r in made_of.contributors))
        perhaps = {sure, sure + sum(r + 1 for r in made_of.missing)}
        assert set(data.unique().tolist()) <= perhaps, (step, data.unique(), made_of)
    assert holdfast.live_ranks() == (0, 2, 3)
    view = holdfast.advance()
    assert view.ranks == (0, 2, 3)
    assert view.epoch == 2, view
    dist.destroy_process_group()


def wait_for_lost_peer() -> None:
    """Rank 1 is killed by the test; the others must learn it at once."""
    import time

    import holdfast

    rank, size = join()
    dist.all_reduce(torch.ones(1))
    if rank == 1:
        print("ready", flush=True)
        time.sleep(60)
    count = int(os.environ["COUNT"])
    try:
        while True:
            dist.all_reduce(torch.ones(count))
    except holdfast.PeerLost as error:
        print(f"LOST {time.time()} {error.ranks} {size}", flush=True)
        assert error.ranks == (1,), error
        assert "rank 1" in str(error), error
