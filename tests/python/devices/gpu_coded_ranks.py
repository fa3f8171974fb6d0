"""Ranks of test_gpu_coded.py: codecs whose frames are made and read by emulated devices."""

from __future__ import annotations

import os
import re
import signal
import time
import zlib

import numpy as np
import pytest
from gpu_array import GappedArray, GpuArray, staged

import holdfast
from holdfast._process import node

# The first call tries, and those behind it do not wait for what it finds.
TRIAL_CALLS = 4
# What goes with float16, too; and the rest of what differs in its frames.
CODECS = (("int8", True), ("onebit", True), ("topk(ratio=0.05)", False), ("fp8_e4m3", False))
LOSS_COUNT = 60_001


def pass_trial(group: holdfast.Group) -> None:
    for _ in range(TRIAL_CALLS):
        group.all_reduce(GpuArray(np.ones(16, np.float32)), codec="int8")


def _total(name: str, label: str) -> int:
    found = re.findall(rf"^{name}\{{[^}}]*{label}[^}}]*\}} (\d+)", node().metrics_text(), re.M)
    return sum(int(count) for count in found)


def coded_ops() -> int:
    """Ops of this process that its device has encoded."""
    return _total("holdfast_ops_total", 'path="coded"')


def _values(count: int, dtype: type, seed: int) -> np.ndarray:
    rng = np.random.default_rng([seed, count])
    return rng.standard_normal(count).astype(dtype)


def _steps(
    group: holdfast.Group, codec: str, count: int, dtype: type, feeds_back: bool, make: object
) -> list[np.ndarray]:
    """Two steps of every collective; all results, and what each one owes."""
    assert callable(make)
    n, rank = group.size, group.rank
    kept: list[object] = []
    owed = [make(np.zeros(c, np.float32)) for c in (count, count, n * count, count, n * count)]
    more = [{"codec": codec, "residual": r} if feeds_back else {"codec": codec} for r in owed]
    for step in range(2):
        own = _values(count, dtype, 100 * step + rank)
        many = _values(count * n, dtype, 100 * step + 10 + rank)
        whole, average, part = make(own), make(own), make(own)
        group.all_reduce(whole, **more[0])
        group.all_reduce(average, op="avg", **more[1])
        group.reduce_scatter(part, make(many), op="avg" if step else "sum", **more[2])
        spread, gathered, exchanged = make(own), make(many), make(np.zeros_like(many))
        group.broadcast(spread, root=n - 1, **more[3])
        group.all_gather(gathered, make(own), codec=codec)
        group.all_to_all(exchanged, make(many), **more[4])
        kept += [whole, average, part, spread, gathered, exchanged]
    kept += owed
    return [k if isinstance(k, np.ndarray) else k.get() for k in kept]  # type: ignore[attr-defined]


def same_bits_as_on_the_host() -> None:
    with holdfast.init() as group:
        pass_trial(group)
        before = coded_ops()
        calls = 0
        for codec, halves in CODECS:
            for dtype in (np.float32, np.float16) if halves else (np.float32,):
                for count, feeds_back in ((1, False), (501, True), (3001, True)):
                    host = _steps(group, codec, count, dtype, feeds_back, np.copy)
                    make = GappedArray if count == 501 else GpuArray
                    device = _steps(group, codec, count, dtype, feeds_back, make)
                    calls += 12
                    for number, (a, b) in enumerate(zip(host, device, strict=True)):
                        assert a.dtype == b.dtype
                        assert a.tobytes() == b.tobytes(), (codec, number, dtype, count)
        # Nothing has gone through the host but the calls right behind a trial.
        staged_calls = (TRIAL_CALLS - 1) * (calls // 256 + 1)
        assert calls - staged_calls <= coded_ops() - before <= calls
        assert staged().scratch_bytes > 0
        wire = _total("holdfast_codec_wire_bytes_total", 'codec="int8"')
        raw = _total("holdfast_codec_raw_bytes_total", 'codec="int8"')
        assert 1.9 < raw / wire < 4


def learn_with_feedback() -> None:
    """What one bit leaves out comes later: the mean of many steps is the mean of the inputs."""
    with holdfast.init() as group:
        pass_trial(group)
        values = _values(5000, np.float32, group.rank)
        exact = sum(_values(5000, np.float32, r) for r in range(group.size)) / group.size
        owed, total = GpuArray(np.zeros_like(values)), np.zeros(5000)
        errors = []
        for step in range(1, 41):
            array = GpuArray(values)
            group.all_reduce(array, op="avg", codec="onebit", residual=owed)
            total += array.get()
            errors.append(np.abs(total / step - exact).mean())
        assert errors[-1] < errors[0] / 8, errors
        # Nothing is lost: what was sent and what is owed are what was put in.
        everything = owed.get().astype(np.float64)
        group.all_reduce(everything)
        assert np.abs(total + everything / group.size - 40 * exact).max() < 1e-2
        assert coded_ops() >= 40


def round_by_chance() -> None:
    with holdfast.init() as group:
        pass_trial(group)
        values = np.full(50_000, 0.3 / 127, np.float32)
        values[::128] = 1
        arrays = [GpuArray(values) for _ in range(3)]
        for array in arrays:
            group.all_reduce(array, op="avg", codec="int8(stochastic)")
        results = [array.get() for array in arrays]
        assert len({zlib.crc32(r.tobytes()) for r in results}) == 3
        small = np.delete(results[0], np.s_[::128])
        assert abs(small.mean() * 127 - 0.3) < 0.02
        # The same bits on all ranks.
        sums = np.array([zlib.crc32(r.tobytes()) for r in results], np.uint64)
        least, most = sums.copy(), sums.copy()
        group.all_reduce(least, op="min")
        group.all_reduce(most, op="max")
        assert (least == most).all()


def go_through_the_host() -> None:
    """With the option off, or too small, or by a codec that has no frames of one size."""
    with holdfast.init() as group:
        pass_trial(group)
        for codec in ("int8", "zstd"):
            array = GpuArray(np.full(1000, group.rank + 1, np.float32))
            group.all_reduce(array, codec=codec)
            assert np.abs(array.get() - sum(range(1, group.size + 1))).max() < 0.1
        if "CUDA_CODEC" in os.environ["WHY"]:
            assert coded_ops() == 0
            assert staged().scratch_bytes == 0


def use_the_option() -> None:
    """HOLDFAST_CODEC: what a job sums."""
    with holdfast.init() as group:
        for _ in range(TRIAL_CALLS + 3):
            array = GpuArray(np.full(5000, group.rank + 1, np.float32))
            group.all_reduce(array)
            assert np.abs(array.get() - sum(range(1, group.size + 1))).max() < 0.1
        moved = GpuArray(np.full(5000, group.rank + 0.1234567, np.float32))
        group.broadcast(moved)
        assert (moved.get() == np.float32(0.1234567)).all()
        assert coded_ops() == 4


def _tell(has: str) -> None:
    # At once: what the runtime says of the loss may come at the same time.
    print(f"\nHAS {has}\n", end="")


def _die_in_a_moment() -> None:
    time.sleep(float(os.environ["DIES_AFTER"]))
    os.kill(os.getpid(), signal.SIGKILL)


def _go_on(group: holdfast.Group) -> None:
    """The device is as it was."""
    array = GpuArray(np.zeros(2000, np.float32))
    for _ in range(3):
        array.write(np.full(2000, 1 << group.rank, np.float32))
        group.all_reduce(array, codec="int8")
        assert np.abs(array.get() - 11).max() < 0.2
    group.close()


def lose_one() -> None:
    """Rank 2 of 4 dies in the middle; the others have one result, and owe what it leaves out."""
    group = holdfast.init()
    pass_trial(group)
    inputs = [_values(LOSS_COUNT, np.float32, r) for r in range(4)]
    array, owed = GpuArray(inputs[group.rank]), GpuArray(np.zeros(LOSS_COUNT, np.float32))
    group.barrier()
    work = group.all_reduce(array, codec="int8", residual=owed, async_op=True)
    assert work is not None
    if group.rank == 2:
        _die_in_a_moment()
    work.wait()
    result, left = array.get(), owed.get().astype(np.float64)
    contributors = work.outcome.contributors
    assert set(contributors) in ({0, 1, 3}, {0, 1, 2, 3}), contributors
    _tell(f"{zlib.crc32(result.tobytes())} {contributors}")
    group.all_reduce(left)
    wrong = result + left - sum(inputs[r].astype(np.float64) for r in contributors)
    # The dead rank took along what it owed: for its own frame, and as the owner of a part.
    most = 1e-4 if 2 not in contributors else 0.2
    assert np.abs(wrong).max() < most, (np.abs(wrong).max(), contributors)
    _go_on(group)


def lose_one_of_a_gather() -> None:
    """Rank 2 of 4 dies in the middle: its block is whole everywhere, or told as missing."""
    group = holdfast.init()
    pass_trial(group)
    array = GpuArray(np.full(50_000, group.rank + 1, np.float32))
    gathered = GpuArray(np.full(4 * 50_000, -1, np.float32))
    group.barrier()
    mode = os.environ["ON_HOLE"]
    work = group.all_gather(gathered, array, codec="fp16", async_op=True, on_hole=mode)
    assert work is not None
    if group.rank == 2:
        _die_in_a_moment()
    try:
        work.wait()
    except holdfast.PeerLost as error:
        assert (mode, error.ranks) == ("raise", (2,))
        _tell(str(error).partition("(epoch")[0])
        _go_on(group)
        return
    assert mode == "zero" or not work.outcome.missing
    result = gathered.get().reshape(4, -1)
    for rank, block in enumerate(result):
        if rank not in work.outcome.missing:
            assert (block == rank + 1).all(), (rank, work.outcome)
    _tell(f"{zlib.crc32(result.tobytes())} {work.outcome.contributors}")
    with pytest.raises(holdfast.PeerLost, match="lost rank 2"):
        group.all_gather(gathered, array, codec="fp16")
    _go_on(group)


def disagree() -> None:
    group = holdfast.init()
    pass_trial(group)
    values = np.ones(1000, np.float32)
    with pytest.raises(holdfast.ProtocolError, match="in device memory"):
        group.all_reduce(GpuArray(values) if group.rank == 1 else values, codec="int8")
