"""Ranks of test_gpu_direct.py: collectives that go past the host, over emulated devices."""

from __future__ import annotations

import os
import re
import signal
import time
import zlib

import numpy as np
import pytest
from gpu_array import GappedArray, GpuArray, staged
from gpu_ranks import DTYPES

import holdfast
from holdfast._process import node

# The first call tries, and those behind it do not wait for what it finds.
TRIAL_CALLS = 4
COUNTS = (1, 1000, 50_001)


def shared(values: np.ndarray) -> GpuArray:
    """An array that other processes can map."""
    return GpuArray(values, shared=True)


def pass_trial(group: holdfast.Group) -> None:
    for _ in range(TRIAL_CALLS):
        group.all_reduce(shared(np.ones(16, np.float32)))


def ops_by(path: str) -> int:
    """Ops of this process that went by a path."""
    found = re.findall(
        rf'^holdfast_ops_total\{{[^}}]*path="{path}"[^}}]*\}} (\d+)', node().metrics_text(), re.M
    )
    return sum(int(count) for count in found)


def direct_ops() -> int:
    return ops_by("direct")


def _values(count: int, dtype: type, seed: int) -> np.ndarray:
    rng = np.random.default_rng([seed, count])
    # An average of integers has a sign, where they have one.
    low = -4 if np.issubdtype(dtype, np.signedinteger) else 0
    return rng.integers(low, 5, count).astype(dtype)


def _ops_of(dtype: type) -> tuple[str, ...]:
    if dtype is np.bool_:
        return ("bor", "sum", "min")
    if np.issubdtype(dtype, np.complexfloating):
        return ("sum", "product", "avg")
    if np.issubdtype(dtype, np.floating):
        return ("sum", "product", "min", "max", "avg")
    return ("sum", "product", "min", "max", "avg", "band", "bor", "bxor")


def _collect(group: holdfast.Group, count: int, dtype: type, make: object) -> list[np.ndarray]:
    assert callable(make)
    n, rank = group.size, group.rank
    own, many = _values(count, dtype, rank), _values(count * n, dtype, 10 + rank)
    results = []
    for op in _ops_of(dtype):
        whole, part = make(own), make(own)
        group.all_reduce(whole, op=op)
        group.reduce_scatter(part, make(many), op=op)
        results += [whole, part]
    for root in (0, n - 1):
        summed = make(own)
        group.reduce(summed, root=root)
        results.append(summed)
    spread, gathered, exchanged = make(own), make(many), make(np.zeros_like(many))
    group.broadcast(spread, root=n - 1)
    group.all_gather(gathered, make(own))
    group.all_to_all(exchanged, make(many))
    results += [spread, gathered, exchanged]
    return [result if isinstance(result, np.ndarray) else result.get() for result in results]


def same_bits_as_on_the_host() -> None:
    with holdfast.init() as group:
        pass_trial(group)
        before = direct_ops()
        for dtype in DTYPES:
            for count in COUNTS:
                host = _collect(group, count, dtype, np.copy)
                # A framework's memory, which is often of a pool; memory with a handle; and elements
                # that are packed first.
                for make in (GpuArray, shared, *([GappedArray] if count == 1000 else [])):
                    device = _collect(group, count, dtype, make)
                    for number, (a, b) in enumerate(zip(host, device, strict=True)):
                        assert a.dtype == b.dtype
                        assert a.tobytes() == b.tobytes(), (number, dtype, count)
        assert direct_ops() > before
        assert staged().peer_mappings > 0


def use_memory_again_and_again() -> None:
    with holdfast.init() as group:
        pass_trial(group)
        array, out = shared(np.ones(30_000, np.float64)), shared(np.ones(30_000, np.float64))
        group.all_gather([out, *(shared(np.ones(30_000)) for _ in range(group.size - 1))], array)
        counts = []
        for _ in range(30):
            array.write(np.full(30_000, group.rank + 1.0))
            group.all_reduce(array)
            assert (array.get() == group.size * (group.size + 1) / 2).all()
            counts.append((staged().peer_mappings, staged().scratch_bytes, staged().pinned_bytes))
        assert counts[-1] == counts[5], counts


def go_through_the_host() -> None:
    """With the option off, or where a rank is on another host."""
    with holdfast.init() as group:
        pass_trial(group)
        array = shared(np.full(1000, group.rank, np.int64))
        group.all_reduce(array)
        assert (array.get() == sum(range(group.size))).all()
        assert direct_ops() == 0
        assert staged().peer_mappings == 0


def _tell(has: str) -> None:
    # At once: what the runtime says of the loss may come at the same time.
    print(f"\nHAS {has}\n", end="")


def _die_in_a_moment() -> None:
    time.sleep(float(os.environ["DIES_AFTER"]))
    os.kill(os.getpid(), signal.SIGKILL)


def _go_on(group: holdfast.Group, array: GpuArray, lost: int) -> None:
    """The device is as it was, and the dead rank's memory is given back."""
    for _ in range(TRIAL_CALLS + 2):
        array.write(np.full(400_000, 1 << group.rank, np.int32))
        group.all_reduce(array)
        assert (array.get() == 15 - (1 << lost)).all()
    # Of each survivor its array, and the scratch for results and for the trial's.
    assert staged().peer_mappings <= 3 * 2, staged().peer_mappings
    group.close()


def lose_one() -> None:
    """Rank 2 of 4 dies in the middle; the others print what they have, then go on."""
    group = holdfast.init()
    array = shared(np.zeros(400_000, np.int32))
    pass_trial(group)
    for _ in range(2):
        array.write(np.full(400_000, 1 << group.rank, np.int32))
        group.all_reduce(array)
        assert (array.get() == 15).all()
    assert direct_ops() == 3
    array.write(np.full(400_000, 1 << group.rank, np.int32))
    work = group.all_reduce(array, async_op=True)
    assert work is not None
    if group.rank == 2:
        _die_in_a_moment()
    work.wait()
    result = array.get()
    # Without a second try all of it is of all ranks; with one, of those that were left by then.
    assert set(np.unique(result)) <= {11, 15}, np.unique(result)
    _tell(f"{zlib.crc32(result.tobytes())} {work.outcome.contributors}")
    _go_on(group, array, 2)


def lose_one_of_a_gather() -> None:
    """Rank 2 of 4 dies in the middle: its block is whole everywhere, or a hole everywhere."""
    group = holdfast.init()
    pass_trial(group)
    array = shared(np.full(400_000, group.rank + 1, np.int32))
    gathered = shared(np.full(4 * 400_000, -1, np.int32))
    work = group.all_gather(gathered, array, async_op=True, on_hole=os.environ["ON_HOLE"])
    assert work is not None
    if group.rank == 2:
        _die_in_a_moment()
    try:
        work.wait()
    except holdfast.PeerLost as error:
        assert (os.environ["ON_HOLE"], error.ranks) == ("raise", (2,))
        _tell(str(error).partition("(epoch")[0])
        _go_on(group, array, 2)
        return
    result = gathered.get().reshape(4, -1)
    third = 0 if 2 in work.outcome.missing else 3
    assert third == 3 or os.environ["ON_HOLE"] == "zero"
    for block, value in zip(result, (1, 2, third, 4), strict=True):
        assert (block == value).all(), (block, work.outcome)
    _tell(f"{zlib.crc32(result.tobytes())} {work.outcome.contributors}")
    with pytest.raises(holdfast.PeerLost, match="lost rank 2"):
        group.all_gather(gathered, array)
    _go_on(group, array, 2)


def lose_the_root() -> None:
    """Rank 0, the root, dies; all others get its data, or all of them the error."""
    group = holdfast.init()
    pass_trial(group)
    array = shared(np.full(400_000, group.rank, np.int32))
    work = group.broadcast(array, root=0, async_op=True)
    assert work is not None
    if group.rank == 0:
        _die_in_a_moment()
    try:
        work.wait()
        assert (array.get() == 0).all()
        _tell("all of it")
    except holdfast.PeerLost:
        _tell("nothing")
    _go_on(group, array, 0)


def disagree() -> None:
    group = holdfast.init()
    pass_trial(group)
    values = np.ones(1000, np.float32)
    with pytest.raises(holdfast.ProtocolError, match="in device memory"):
        group.all_reduce(shared(values) if group.rank == 1 else values)


def grow() -> None:
    """Ops between step boundaries at which others come in, at any count of calls."""
    with holdfast.join(os.environ["URL"], min_peers=2) as group:
        array = shared(np.zeros(5000, np.float32))
        together = 0
        while together < 8:
            group.advance()
            print("ready", flush=True)
            for _ in range(3):
                array.write(np.full(5000, 1 << group.rank, np.float32))
                group.all_reduce(array)
                assert (array.get() == (1 << group.size) - 1).all(), (group.size, array.get()[0])
            together += group.size == 3
        assert direct_ops() > 5
        print("END", flush=True)
