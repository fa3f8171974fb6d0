"""Ranks of test_gpu_levels.py: collectives in two levels, over hosts that are played."""

from __future__ import annotations

import os
import re
import signal
import time
import zlib

import numpy as np
from gpu_array import GappedArray, GpuArray, staged
from gpu_direct_ranks import TRIAL_CALLS, ops_by, pass_trial, shared
from gpu_ranks import DTYPES

import holdfast
from holdfast._process import node

COUNTS = (1, 1000, 50_001)


def _sent_across() -> int:
    """Bytes that this process has sent over sockets."""
    found = re.findall(
        r'^holdfast_link_bytes_total\{[^}]*direction="sent",transport="tcp"\} (\d+)',
        node().metrics_text(),
        re.M,
    )
    assert found
    return sum(int(count) for count in found)


def _ops_of(dtype: type) -> tuple[str, ...]:
    if dtype is np.bool_:
        return ("bor", "min")
    if np.issubdtype(dtype, np.complexfloating):
        return ("sum", "product", "avg")
    if np.issubdtype(dtype, np.floating):
        return ("sum", "product", "min", "max", "avg")
    return ("sum", "product", "min", "max", "avg", "band", "bor", "bxor")


def _moved(group: holdfast.Group, values: np.ndarray, make: object) -> list[np.ndarray]:
    """Results of what goes in levels besides all_reduce; blocks in turns of all ranks' sizes."""
    assert callable(make)
    n, rank = group.size, group.rank
    many = np.concatenate([np.roll(values, i) for i in range(n)])
    part, spread = make(values), [make(values) for _ in range(n)]
    group.reduce_scatter(part, make(many), op="max")
    for root, array in enumerate(spread):
        group.broadcast(array, root=root)
    gathered = make(np.zeros_like(many))
    group.all_gather(gathered, make(values))
    lists = [make(np.zeros(len(values) + i, values.dtype)) for i in range(n)]
    group.all_gather(lists, make(np.resize(values, len(values) + rank)))
    results = [part, *spread, gathered, *lists]
    return [result if isinstance(result, np.ndarray) else result.get() for result in results]


def _reduced(group: holdfast.Group, values: np.ndarray, op: str, make: object) -> np.ndarray:
    assert callable(make)
    array = make(values)
    group.all_reduce(array, op=op)
    return array if isinstance(array, np.ndarray) else array.get()


def same_as_on_the_host() -> None:
    """Of small whole numbers every order of a sum has the same bits."""
    with holdfast.init() as group:
        pass_trial(group)
        before, calls = ops_by("levels"), 0
        for dtype in DTYPES:
            for count in COUNTS:
                rng = np.random.default_rng([group.rank, count])
                values = rng.integers(0, 5, count).astype(dtype)
                for op in _ops_of(dtype):
                    host = _reduced(group, values, op, np.copy)
                    for make in (shared, *((GpuArray, GappedArray) if count == 1000 else ())):
                        device = _reduced(group, values, op, make)
                        assert host.tobytes() == device.tobytes(), (op, dtype, count)
                        calls += 1
                if np.issubdtype(dtype, np.complexfloating):
                    continue
                expected = _moved(group, values, np.copy)
                for make in (shared, GpuArray):
                    for a, b in zip(expected, _moved(group, values, make), strict=True):
                        assert a.tobytes() == b.tobytes(), (dtype, count)
                    calls += 3 + group.size
        assert ops_by("levels") == before + calls
        assert ops_by("direct") == 0


def same_bits_on_all_ranks() -> None:
    """Of any numbers the sum is the host's but for rounding, and no rank has another one."""
    with holdfast.init() as group:
        pass_trial(group)
        for dtype, rounding in ((np.float32, 1e-5), (np.float64, 1e-13), (np.float16, 1e-2)):
            values = np.random.default_rng(group.rank).normal(size=30_011).astype(dtype)
            host = _reduced(group, values, "sum", np.copy)
            device = _reduced(group, values, "sum", shared)
            assert np.abs(host - device).max() <= rounding * np.abs(host).max()
            print("HAS", dtype.__name__, zlib.crc32(device.tobytes()))


def count_what_crosses() -> None:
    """Two hosts of two ranks: of S bytes an owner sends half a column twice, S/2."""
    with holdfast.init() as group:
        pass_trial(group)
        size = 1 << 22
        array = shared(np.full(size // 4, group.rank + 1, np.int32))
        before = _sent_across()
        group.all_reduce(array)
        sent = _sent_across() - before
        assert (array.get() == 10).all()
        assert size // 2 <= sent <= size // 2 + (64 << 10), sent
        assert ops_by("levels") == 2


def keep_order() -> None:
    """Buckets in flight, of growing and of falling sizes, and memory that is used again."""
    with holdfast.init() as group:
        pass_trial(group)
        counts = [1000, 70_000, 3, 200_000, 5000, 1]
        arrays = [shared(np.zeros(count, np.int64)) for count in counts]
        held = []
        for step in range(6):
            for array, count in zip(arrays, counts, strict=True):
                array.write(np.full(count, step + group.rank, np.int64))
            works = [group.all_reduce(array, async_op=True) for array in arrays]
            for work in reversed(works):
                assert work is not None
                work.wait()
            expected = group.size * step + sum(range(group.size))
            for array in arrays:
                assert (array.get() == expected).all()
            held.append((staged().peer_mappings, staged().scratch_bytes, staged().pinned_bytes))
        assert held[-1] == held[2], held
        assert ops_by("levels") == 1 + 6 * len(counts)


def _sent_by(call: object) -> int:
    assert callable(call)
    before = _sent_across()
    call()
    return _sent_across() - before


def count_what_moves() -> None:
    """Two hosts of two ranks: each block, and the root's array, cross once."""
    with holdfast.init() as group:
        pass_trial(group)
        size = 1 << 21
        array, many = shared(np.ones(size, np.uint8)), shared(np.ones(4 * size, np.uint8))
        root = 1
        sends = {
            "all_gather": (_sent_by(lambda: group.all_gather(many, array)), size),
            "reduce_scatter": (_sent_by(lambda: group.reduce_scatter(array, many)), size),
            "broadcast": (
                _sent_by(lambda: group.broadcast(array, root=root)),
                size // 2 if group.rank < 2 else 0,
            ),
        }
        for name, (sent, least) in sends.items():
            assert least <= sent <= least + (64 << 10), (name, sent, least)
        assert ops_by("levels") == 1 + 3


def go_through_the_host() -> None:
    with holdfast.init() as group:
        pass_trial(group)
        array = shared(np.full(1000, group.rank, np.int64))
        group.all_reduce(array)
        assert (array.get() == sum(range(group.size))).all()
        assert ops_by("levels") + ops_by("direct") == 0


def _values(group: holdfast.Group) -> np.ndarray:
    return np.full(400_000, 1 << group.rank, np.int32)


def lose_some() -> None:
    """The ranks of LOST die in the middle; the others print what they have, then go on."""
    group = holdfast.init()
    lost = [int(rank) for rank in os.environ["LOST"].split(",")]
    array = shared(_values(group))
    pass_trial(group)
    group.all_reduce(array)
    everybody = (1 << group.size) - 1
    assert (array.get() == everybody).all()
    assert ops_by("levels") == 2
    array.write(_values(group))
    work = group.all_reduce(array, async_op=True)
    assert work is not None
    if group.rank in lost:
        time.sleep(float(os.environ["DIES_AFTER"]))
        os.kill(os.getpid(), signal.SIGKILL)
    work.wait()
    result = array.get()
    left = everybody - sum(1 << rank for rank in lost)
    assert (result & left == left).all(), np.unique(result)
    for rank in work.outcome.contributors:
        assert (result & (1 << rank) != 0).all(), (rank, work.outcome)
    print("HAS", zlib.crc32(result.tobytes()), work.outcome.contributors)
    for _ in range(TRIAL_CALLS + 2):
        array.write(_values(group))
        group.all_reduce(array)
        assert (array.get() == left).all(), (left, np.unique(array.get()))
    _after_a_boundary(group, array, left)
    group.close()


def lose_some_of_a_gather() -> None:
    """The ranks of LOST die in the middle: each block is whole everywhere, or a hole everywhere."""
    group = holdfast.init()
    lost = [int(rank) for rank in os.environ["LOST"].split(",")]
    pass_trial(group)
    array = shared(np.full(300_000, group.rank + 1, np.int32))
    gathered = shared(np.full(group.size * 300_000, -1, np.int32))
    mode = os.environ["ON_HOLE"]
    work = group.all_gather(gathered, array, async_op=True, on_hole=mode)
    assert work is not None
    if group.rank in lost:
        time.sleep(float(os.environ["DIES_AFTER"]))
        os.kill(os.getpid(), signal.SIGKILL)
    try:
        work.wait()
    except holdfast.PeerLost as error:
        assert mode == "raise"
        assert set(error.ranks) <= set(lost)
        print("HAS", str(error).partition(" (epoch")[0], error.ranks)
    else:
        assert mode == "zero" or not work.outcome.missing
        result = gathered.get().reshape(group.size, -1)
        for rank, block in enumerate(result):
            assert rank in lost or rank not in work.outcome.missing
            assert (block == (0 if rank in work.outcome.missing else rank + 1)).all(), work.outcome
        print("HAS", zlib.crc32(result.tobytes()), work.outcome.contributors)
    left = sum(1 << rank for rank in range(group.size) if rank not in lost)
    _after_a_boundary(group, shared(_values(group)), left)
    group.close()


def lose_the_root() -> None:
    """Rank 0, the root, dies; all others get its data, or all of them the error."""
    group = holdfast.init()
    pass_trial(group)
    array = shared(np.full(300_000, group.rank, np.int32))
    work = group.broadcast(array, root=0, async_op=True)
    assert work is not None
    if group.rank == 0:
        time.sleep(float(os.environ["DIES_AFTER"]))
        os.kill(os.getpid(), signal.SIGKILL)
    try:
        work.wait()
        assert (array.get() == 0).all()
        print("HAS all of it")
    except holdfast.PeerLost:
        print("HAS nothing")
    _after_a_boundary(group, shared(_values(group)), (1 << group.size) - 2)
    group.close()


def _after_a_boundary(group: holdfast.Group, array: GpuArray, left: int) -> None:
    """A group that has one host left goes from device to device altogether."""
    group.advance()
    path = os.environ["PATH_AFTER"]
    before = ops_by(path)
    for _ in range(TRIAL_CALLS + 2):
        array.write(_values(group))
        group.all_reduce(array)
        assert (array.get() == left).all(), (left, np.unique(array.get()))
    assert ops_by(path) == before + TRIAL_CALLS + 2


def grow() -> None:
    """Two ranks of one host, and from a step boundary on a third one on another host."""
    with holdfast.join(os.environ["URL"], min_peers=2) as group:
        array = shared(np.zeros(5000, np.float32))
        together = 0
        while together < 6:
            group.advance()
            print("ready", flush=True)
            for _ in range(3):
                array.write(np.full(5000, 1 << group.rank, np.float32))
                group.all_reduce(array)
                assert (array.get() == (1 << group.size) - 1).all(), (group.size, array.get()[0])
            together += group.size == 3
        # The trial, and all calls but those that did not wait for it.
        assert ops_by("levels") == 1 + 6 * 3 - TRIAL_CALLS
        print("END", flush=True)
