"""Programs of test_group.py: each function is one rank, started with RANK and WORLD_SIZE."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

import holdfast
from holdfast import Group

DTYPES = [
    *("uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64"),
    *("float16", "float32", "float64"),
]
COMPLEX = ["complex64", "complex128"]


def world(function: Callable[[Group], None]) -> Callable[[], None]:
    """Run the function in the group of all ranks."""

    def program() -> None:
        with holdfast.init() as group:
            function(group)

    return program


def equal(found: Any, wanted: Any) -> None:
    assert np.array_equal(np.asarray(found), np.asarray(wanted)), f"{found} is not {wanted}"


def refused(kind: type[Exception], call: Callable[[], object], *words: str) -> None:
    try:
        call()
    except kind as error:
        missing = [word for word in words if word not in str(error)]
        assert not missing, f"{error} does not say {missing}"
    else:
        raise AssertionError(f"no {kind.__name__}")


@world
def every_collective(group: Group) -> None:
    n, me = group.size, group.rank
    ranks = np.arange(n)
    total = n * (n + 1) // 2

    a = np.full((3, 5), me + 1.0, dtype=np.float32)
    assert group.all_reduce(a) is None
    equal(a, np.full((3, 5), total))

    out = np.zeros(4, dtype=np.int64)
    group.reduce_scatter(out, np.repeat(ranks, 4) + me)
    equal(out, np.full(4, n * me + ranks.sum()))
    group.reduce_scatter(out, [np.full(4, r + me) for r in range(n)], op="max")
    equal(out, np.full(4, me + n - 1))

    everybody = np.zeros((n, 2), dtype=np.int64)
    group.all_gather(everybody, np.full(2, me))
    equal(everybody, np.repeat(ranks, 2).reshape(n, 2))
    parts = [np.zeros(2, dtype=np.int64) for _ in range(n)]
    group.all_gather(parts, np.full(2, me))
    equal(np.concatenate(parts), np.repeat(ranks, 2))

    got = np.zeros(2 * n, dtype=np.int64)
    group.all_to_all(got, np.repeat(ranks, 2) + 100 * me)
    equal(got, np.repeat(100 * ranks, 2) + me)

    for root in range(n):
        b = np.full(7, float(me))
        group.broadcast(b, root=root)
        equal(b, np.full(7, float(root)))
        r = np.full(3, me + 1)
        group.reduce(r, root=root)
        equal(r, np.full(3, total if me == root else me + 1))
        gathered = np.zeros(2 * n, dtype=np.int64) if me == root else None
        group.gather(gathered, np.full(2, me), root=root)
        if me == root:
            equal(gathered, np.repeat(ranks, 2))
        own = np.zeros(2, dtype=np.int64)
        group.scatter(own, np.repeat(ranks, 2) if me == root else None, root=root)
        equal(own, np.full(2, me))
    group.barrier()


@world
def uneven_all_to_all(group: Group) -> None:
    n, me = group.size, group.rank
    # Rank s sends s + d elements to rank d.
    give = [me + d for d in range(n)]
    take = [s + me for s in range(n)]
    source = np.concatenate([np.full(give[d], 10 * me + d) for d in range(n)])
    target = np.zeros(sum(take), dtype=source.dtype)
    group.all_to_all(target, source, output_splits=take, input_splits=give)
    equal(target, np.concatenate([np.full(take[s], 10 * s + me) for s in range(n)]))


@world
def messages(group: Group) -> None:
    n, me = group.size, group.rank
    right, left = (me + 1) % n, (me - 1) % n
    sent = [group.send(np.full(5, 10 * me + t), right, tag=t, async_op=True) for t in range(3)]
    for t in (2, 0, 1):  # the tag matches, not the order
        a = np.zeros(5, dtype=np.int64)
        group.recv(a, left, tag=t)
        equal(a, np.full(5, 10 * left + t))
    for work in sent:
        assert work is not None
        work.wait()
    group.barrier()  # whoever leaves first is lost to those that still start an op
    if group.rank == 0:
        got = [group.recv(a, tag=100) for _ in range(n - 1)]
        assert sorted(got) == list(range(1, n)), got
        for _ in range(n - 1):
            work = group.recv(a, tag=101, async_op=True)
            work.wait()
            equal(a, np.full(5, work.source))
    else:
        group.send(np.full(5, group.rank), 0, tag=100)
        group.send(np.full(5, group.rank), 0, tag=101)


@world
def every_dtype(group: Group) -> None:
    n, me = group.size, group.rank
    for name in DTYPES + COMPLEX:
        a = np.full(9, me + 1).astype(name)
        group.all_reduce(a)
        equal(a, np.full(9, n * (n + 1) // 2).astype(name))
    for op, want in (("min", 1), ("max", n), ("product", np.prod(np.arange(1, n + 1)))):
        a = np.full(9, me + 1, dtype=np.int32)
        group.all_reduce(a, op=op)
        equal(a, np.full(9, want))
    for op, fold in (("band", np.bitwise_and), ("bor", np.bitwise_or), ("bxor", np.bitwise_xor)):
        a = np.full(9, 5 * me + 3, dtype=np.uint16)
        group.all_reduce(a, op=op)
        equal(a, np.full(9, fold.reduce([5 * r + 3 for r in range(n)])))
    a = np.full(9, float(me))
    group.all_reduce(a, op="avg")
    equal(a, np.full(9, (n - 1) / 2))
    a = np.full(9, -2 * me, dtype=np.int16)
    group.all_reduce(a, op="avg")
    equal(a, np.full(9, -(n - 1)))
    b = np.array([me == 0, False, True])
    group.all_reduce(b, op="max")
    equal(b, [True, False, True])


@world
def every_shape(group: Group) -> None:
    n = group.size
    for shape in ((), (0,), (1,), (0, 3), (3, 0, 2), (100_003,), (7, 11, 13)):
        a = np.ones(shape, dtype=np.float32)
        group.all_reduce(a)
        equal(a, np.full(shape, float(n)))
    # Views that are not contiguous: worked on in a copy, stored back, their neighbours untouched.
    base = np.ones((6, 8))
    group.all_reduce(base[::2, 1::3])
    want = np.ones((6, 8))
    want[::2, 1::3] = n
    equal(base, want)
    turned = np.asfortranarray(np.arange(6.0).reshape(2, 3))
    group.all_reduce(turned)
    equal(turned, n * np.arange(6.0).reshape(2, 3))
    work = group.all_reduce(base[1::2].T, async_op=True)
    assert work is not None
    work.wait()
    want[1::2] = n
    equal(base, want)
    spread = np.zeros((n, 4))
    group.all_gather(spread[:, ::2], np.full(2, group.rank + 1.0))
    equal(spread[:, ::2], np.repeat(np.arange(n) + 1.0, 2).reshape(n, 2))
    equal(spread[:, 1::2], np.zeros((n, 2)))


@world
def torch_tensors(group: Group) -> None:
    import torch

    n, me = group.size, group.rank
    total = n * (n + 1) // 2
    kinds = [
        torch.bfloat16,
        torch.float16,
        torch.float32,
        torch.int64,
        torch.uint8,
        torch.complex64,
    ]
    for dtype in kinds:
        t = torch.full((5, 3), me + 1).to(dtype)
        group.all_reduce(t)
        assert torch.equal(t, torch.full((5, 3), total).to(dtype)), (dtype, t)
    for dtype in (torch.float8_e4m3fn, torch.float8_e5m2):
        t = torch.full((4,), float(me)).to(dtype)
        group.broadcast(t, root=n - 1)
        assert torch.equal(t.float(), torch.full((4,), float(n - 1)))
    flags = torch.tensor([me == 0, False])
    group.all_reduce(flags, op="max")
    assert flags.tolist() == [True, False]

    wide = torch.ones(4, 6)
    group.all_reduce(wide[:, ::2])
    assert wide[:, ::2].eq(n).all()
    assert wide[:, 1::2].eq(1).all()
    parameter = torch.ones(3, 2, requires_grad=True)
    group.all_reduce(parameter.t())
    assert parameter.detach().eq(n).all()
    conjugated = torch.full((3,), 1 + 2j, dtype=torch.complex64).conj()
    group.all_reduce(conjugated)
    assert conjugated.eq(n * (1 - 2j)).all(), conjugated

    # Arrays of both kinds may meet in one op.
    mixed = [torch.zeros(2), *(np.zeros(2, dtype=np.float32) for _ in range(n - 1))]
    group.all_gather(mixed, np.full(2, me, dtype=np.float32))
    equal(np.concatenate([np.asarray(m) for m in mixed]), np.repeat(np.arange(n), 2))
    refused(
        holdfast.Unsupported,
        lambda: group.all_reduce(torch.ones(2, device="meta")),
        "on meta",
        "accepted: torch.strided on cpu",
    )
    refused(holdfast.Unsupported, lambda: group.all_reduce(torch.ones(2).to_sparse()), "sparse")
    group.barrier()


@world
def ml_dtypes_arrays(group: Group) -> None:
    import ml_dtypes

    n, me = group.size, group.rank
    a = np.full(9, me + 1).astype(ml_dtypes.bfloat16)
    group.all_reduce(a)
    equal(a.astype(np.float32), np.full(9, n * (n + 1) // 2))


@world
def many_in_flight(group: Group) -> None:
    n, me = group.size, group.rank
    arrays = [np.full(1000 * (i + 1), me + float(i)) for i in range(20)]
    works = [group.all_reduce(a, async_op=True) for a in arrays]
    for i, (array, work) in reversed(list(enumerate(zip(arrays, works, strict=True)))):
        assert work is not None
        work.wait(timeout=30)
        assert work.done()
        work.wait()  # again, at no cost
        equal(array, np.full(1000 * (i + 1), n * i + n * (n - 1) / 2))
    # A work that nobody keeps, over an array that nobody keeps.
    for _ in range(50):
        group.all_reduce(np.ones(10_000), async_op=True)
    group.barrier()


@world
def urgent_beside_bulk(group: Group) -> None:
    n, me = group.size, group.rank
    small = np.full(30_000, me + 1.0, dtype=np.float32)
    for name, call in {
        "all_reduce": lambda a, p: group.all_reduce(a, async_op=True, priority=p),
        "broadcast": lambda a, p: group.broadcast(a, async_op=True, priority=p),
    }.items():
        # A busy machine may take a rank away before it has begun: such a run shows nothing.
        tries = (urgent_passes(group, call, small, name) for _ in range(MOST_TRIES))
        assert any(tries), f"{name}: an urgent op never began beside the bulk"
        equal(small, np.full(30_000, n * (n + 1) / 2 if name == "all_reduce" else 1.0))
    # A blocking call with a priority, and one that is passed.
    group.all_reduce(small, priority=-5)
    works = [group.all_gather(np.empty(n << 20), np.ones(1 << 20), async_op=True, priority=9)]
    works.append(group.reduce_scatter(np.empty(1000), np.ones(1000 * n), async_op=True))
    for work in works:
        work.wait()


MOST_TRIES = 20


def urgent_passes(group: Group, call: Callable[..., Any], small: Any, name: str) -> bool:
    """Whether an urgent op began on all ranks before half of the bulk was done; then it passes it.

    The flight record says when ops ended: a look from here comes when this thread has its turn.
    The bulk is of many ops, as none of them begins without all ranks: while one rank has no turn,
    the others cannot end much of it.
    """
    bulk = [np.ones(1 << 20, dtype=np.float32) for _ in range(20)]
    small[:] = group.rank + 1
    works = [call(array, 0) for array in bulk]
    call(small, 1 + group.rank).wait()  # each rank orders its own work
    for work in works:
        work.wait()
    equal(bulk[-1][::1000], np.full(1049, float(group.size) if name == "all_reduce" else 1.0))
    *passed, urgent = group.flight()["entries"][-len(bulk) - 1 :]
    assert (passed[0]["bytes"], urgent["bytes"]) == (bulk[0].nbytes, small.nbytes)
    ends = sorted(entry["ended_ns"] for entry in passed)
    seen = np.zeros((group.size, 2), dtype=np.int64)
    group.all_gather(seen, np.array([urgent["started_ns"], ends[len(ends) // 2]]))
    if seen[:, 0].max() >= seen[:, 1].min():
        return False
    assert urgent["ended_ns"] < ends[-1], (name, urgent, passed)
    return True


@world
def awaited(group: Group) -> None:
    n = group.size

    async def main() -> None:
        arrays = [np.full(5000, float(i)) for i in range(8)]
        ticks = 0

        async def tick() -> None:
            nonlocal ticks
            while True:
                ticks += 1
                await asyncio.sleep(0.001)

        ticking = asyncio.create_task(tick())

        async def one(array: Any) -> None:
            work = group.all_reduce(array, async_op=True)
            assert work is not None
            await work
            await work

        await asyncio.gather(*(one(a) for a in arrays))
        for i, array in enumerate(arrays):
            equal(array, np.full(5000, float(n * i)))
        if n > 1:
            # The loop lives while an op waits; giving up the wait leaves the op running.
            peer = (group.rank + 1) % n
            a = np.zeros(3)
            work = group.recv(a, (group.rank - 1) % n, tag=9, async_op=True)
            assert work is not None
            before = ticks
            try:
                await asyncio.wait_for(_as_coroutine(work), 0.2)
            except asyncio.TimeoutError:
                assert ticks > before
            else:
                raise AssertionError("nothing was sent yet")
            assert not work.done()
            gave_up = group.barrier(async_op=True)
            assert gave_up is not None
            await gave_up
            group.send(np.ones(3), peer, tag=9)
            await work
            equal(a, np.ones(3))
        ticking.cancel()

    asyncio.run(main())
    group.barrier()


async def _as_coroutine(work: holdfast.Work) -> None:
    await work


@world
def waits_with_limits(group: Group) -> None:
    if group.rank == 0:
        a = np.zeros(3)
        work = group.recv(a, 1, async_op=True)
        assert work is not None
        refused(holdfast.Timeout, lambda: work.wait(timeout=0.25), "recv", "0.25 s")
        refused(TimeoutError, lambda: work.wait(timeout=0), "still running")
        group.send(np.zeros(0), 1)
        work.wait(timeout=30)
        equal(a, np.ones(3))
    else:
        group.recv(np.zeros(0), 0)
        group.send(np.ones(3), 0)


@world
def bad_arguments(group: Group) -> None:
    n, me = group.size, group.rank
    a = np.ones(4, dtype=np.float32)
    config, unsupported = holdfast.ConfigError, holdfast.Unsupported
    here = f"group default, rank {me} of {n}"
    frozen = np.ones(3)
    frozen.flags.writeable = False

    refused(config, lambda: group.all_reduce([1, 2]), "all_reduce", here, "list", "accepted")
    refused(config, lambda: group.all_reduce(a, op="mean"), here, "'mean'", "avg")
    refused(config, lambda: group.all_reduce(frozen), "read-only", here)
    refused(config, lambda: group.all_reduce(a, timeout=0), "timeout = 0", "more than 0")
    refused(config, lambda: group.all_reduce(a, timeout=-1), "timeout = -1")
    refused(unsupported, lambda: group.all_reduce(np.array(["x"])), "<U1", here, "float32")
    refused(unsupported, lambda: group.all_reduce(np.ones(2, dtype=">f4")), "byte order")
    undefined: Any = (config, unsupported)
    refused(undefined, lambda: group.all_reduce(a, op="band"), "band", "all_reduce")
    refused(undefined, lambda: group.all_reduce(np.ones(2, dtype=bool), op="avg"), "avg")
    refused(
        config, lambda: group.all_gather(np.ones(n + 1, dtype=np.float32), a[:1]),
        "all_gather", here, f"({n + 1},) float32", "(1,) float32", f"{n} blocks of 1",
    )  # fmt: skip
    refused(config, lambda: group.all_gather([a] * (n + 1), a), f"{n + 1} arrays", f"accepted: {n}")
    refused(config, lambda: group.all_gather(np.ones(4 * n), a), "float64", "float32", "one dtype")
    refused(config, lambda: group.broadcast(a, root=n), f"root = {n}", f"0 to {n - 1}")
    refused(config, lambda: group.broadcast(a, root=-1), "root = -1")
    refused(config, lambda: group.send(a, n), f"peer = {n}")
    refused(config, lambda: group.all_reduce(a, priority=2**31), "priority = 2147483648", here)
    wrong: Any = "high"
    refused(config, lambda: group.broadcast(a, priority=wrong), "'high'", "2147483647")
    refused(config, lambda: group.send(a, me), "send")
    refused(config, lambda: group.recv(a, (me + 1) % n, tag=-1), "tag = -1", "2147483646")
    refused(config, lambda: group.gather(None, a, root=me), "gather", "NoneType")
    if n > 1:
        odd = np.ones(2 * n + 1, dtype=np.float32)
        refused(config, lambda: group.all_to_all(odd, odd.copy()), "splits", f"({2 * n + 1},)")
        refused(
            config, lambda: group.all_to_all(odd, odd.copy(), [1] * n, [1] * n),
            "input_splits = [1, ", f"{n} numbers >= 0 that add up to {2 * n + 1}",
        )  # fmt: skip
    # Refused before anything was sent: the group is as it was.
    group.all_reduce(a)
    equal(a, np.full(4, float(n)))


@world
def mismatched_sizes(group: Group) -> None:
    size = 10 + group.rank
    refused(holdfast.ProtocolError, lambda: group.all_reduce(np.ones(size)), "all_reduce", "rank")


@world
def mismatched_calls(group: Group) -> None:
    a = np.ones(10)
    call = group.all_reduce if group.rank == 0 else group.broadcast
    # Each rank is told what all of them called.
    calls = ("all_reduce #0 (f64, 10 elements, sum)", "broadcast #0 (f64, 10 elements, root 0)")
    refused(holdfast.ProtocolError, lambda: call(a), "do not match", "rank 0 called", *calls)


@world
def one_rank_is_late(group: Group) -> None:
    """The op's own limit: all ranks hear of it, and who was waited for is named."""
    if group.rank == 0:
        refused(holdfast.Timeout, lambda: group.all_reduce(np.ones(3), timeout=0.5), "1", "timeout")
    else:
        refused(
            holdfast.HoldfastError,
            lambda: group.recv(np.ones(3), peer=0, timeout=20),
        )


def closed_group() -> None:
    group = holdfast.init()
    group.barrier()
    group.close()
    group.close()
    refused(holdfast.NotMember, lambda: group.all_reduce(np.ones(3)), "closed", "default")
    assert group.size == int(repr(group).split(" of ")[1].rstrip(">"))


def aborted_group() -> None:
    group = holdfast.init()
    if group.rank == 0:
        work = group.recv(np.ones(3), 1, async_op=True)
        assert work is not None
        group.abort("enough")
        refused(holdfast.Aborted, work.wait, "enough")
        refused(holdfast.Aborted, group.barrier, "enough")
    else:
        refused(holdfast.PeerLost, lambda: group.recv(np.ones(3), 0), "enough", "rank 0")


def an_exception_inside_reaches_the_others() -> None:
    try:
        with holdfast.init() as group:
            if group.rank == 0:
                raise ValueError("on purpose")
            refused(holdfast.PeerLost, lambda: group.recv(np.ones(3), 0), "on purpose")
    except ValueError:
        assert group.rank == 0


def two_groups_at_once() -> None:
    first, second = holdfast.init(name="first"), holdfast.init(name="second")
    a, b = np.ones(1000), np.ones(1000)
    works = [first.all_reduce(a, async_op=True), second.all_reduce(b, op="max", async_op=True)]
    for work in works:
        assert work is not None
        work.wait()
    assert (a[0], b[0]) == (first.size, 1)
    first.close()
    second.barrier()
    assert (first.name, second.name, second.epoch) == ("first", "second", 1)
    assert second.transports[second.rank] == "self"
    second.close()


@world
def interrupted(group: Group) -> None:
    """Ctrl-C in a blocking op ends it, here and on the others."""
    import os
    import signal
    import threading

    if group.rank == 0:
        # Jobs in the background of a shell inherit Ctrl-C ignored.
        signal.signal(signal.SIGINT, signal.default_int_handler)
        threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
        try:
            group.recv(np.ones(3), 1)
        except KeyboardInterrupt:
            return
        sys.exit("no KeyboardInterrupt")
    refused(holdfast.PeerLost, lambda: group.recv(np.ones(3), 0), "interrupted")
