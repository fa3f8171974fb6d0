"""Ranks of test_gpu_paths.py: collectives on arrays in a GPU's memory, over the emulated device."""

from __future__ import annotations

import asyncio
import os
import signal
import time
import zlib

import numpy as np
import pytest
from gpu_array import GappedArray, GpuArray, staged

import holdfast
from holdfast import _core

DTYPES = (
    *(np.bool_, np.uint8, np.int8, np.uint16, np.int16, np.uint32, np.int32, np.uint64, np.int64),
    *(np.float16, np.float32, np.float64, np.complex64, np.complex128),
)
# Below a slice of 64 KiB, and above it with an odd end.
COUNTS = (0, 1, 1000, 50_001)


def _values(count: int, dtype: type, seed: int) -> np.ndarray:
    rng = np.random.default_rng([seed, count])
    return rng.integers(0, 5, count).astype(dtype)


def _collect(group: holdfast.Group, count: int, dtype: type, make: object) -> list[np.ndarray]:
    """The results of every collective on arrays that `make` makes."""
    assert callable(make)
    n, rank = group.size, group.rank
    op = "max" if dtype is np.bool_ else "sum"
    if dtype is np.bool_:
        op = "bor"
    own, many = _values(count, dtype, rank), _values(count * n, dtype, 10 + rank)
    whole, rooted, spread = make(own), make(own), make(own)
    group.all_reduce(whole, op=op)
    group.reduce(rooted, root=n - 1, op=op)
    group.broadcast(spread, root=n - 1)
    part, blocks = make(own), make(many)
    group.reduce_scatter(part, blocks, op=op)
    gathered, exchanged = make(many), make(np.zeros_like(many))
    group.all_gather(gathered, make(own))
    group.all_to_all(exchanged, blocks)
    collected = make(many)
    group.gather(collected if rank == 0 else None, make(own), root=0)
    scattered = make(own)
    group.scatter(scattered, blocks if rank == 0 else None, root=0)
    received = make(own)
    send = group.send(make(own), peer=(rank + 1) % n, async_op=True)
    source = group.recv(received, peer=(rank - 1) % n)
    assert source == (rank - 1) % n
    assert send is not None
    send.wait()
    results = (whole, rooted, spread, part, gathered, exchanged, collected, scattered, received)
    return [result if isinstance(result, np.ndarray) else result.get() for result in results]


def same_bits_as_on_the_host() -> None:
    with holdfast.init() as group:
        for dtype in DTYPES:
            for count in COUNTS:
                host = _collect(group, count, dtype, np.copy)
                device = _collect(group, count, dtype, GpuArray)
                for number, (a, b) in enumerate(zip(host, device, strict=True)):
                    assert a.dtype == b.dtype
                    assert a.tobytes() == b.tobytes(), (number, dtype, count)


def same_bits_with_gaps() -> None:
    with holdfast.init() as group:
        for dtype in (np.uint8, np.float16, np.float32, np.complex128):
            for count in COUNTS:
                host = _collect(group, count, dtype, np.copy)
                device = _collect(group, count, dtype, GappedArray)
                for number, (a, b) in enumerate(zip(host, device, strict=True)):
                    assert a.tobytes() == b.tobytes(), (number, dtype, count)


def pack_any_shape_and_wait_on_streams() -> None:
    with holdfast.init() as group:
        n, rank = group.size, group.rank
        stream = staged().make_stream()
        total = sum(range(n))
        # Six dimensions, none of which follows another one; a matrix's transpose; halves.
        grid = np.arange(1 << 14, dtype=np.int64).reshape(2, 4, 4, 8, 4, 16) + rank
        views = [grid[:, ::2, ::2, ::2, ::2, ::2], grid.reshape(128, 128).T, grid[..., 3:9]]
        for view in views:
            array = GpuArray(grid, stream)
            offset = view.__array_interface__["data"][0] - grid.__array_interface__["data"][0]
            array._said = {
                "shape": view.shape,
                "strides": view.strides,
                "data": (array._memory.address + offset, False),
            }
            before = staged().pinned_bytes
            work = group.all_reduce(array, async_op=True)
            assert work is not None
            # The stream waits, not the host; get() copies the whole memory on that stream.
            work.wait_on(stream)
            got = array.get()
            right = grid.copy()
            own = np.ndarray(view.shape, view.dtype, right, offset, view.strides)
            own *= n
            own += total - n * rank
            assert (got == right).all()
            work.wait()
            assert staged().pinned_bytes <= before + (1 << 20)
        # A codec's residual may have gaps as well.
        values = np.full(3000, 1 + rank, np.float32)
        gradient, owed = GappedArray(values), GappedArray(np.zeros_like(values))
        group.all_reduce(gradient, codec="int8", residual=owed)
        assert np.abs(gradient.get() - sum(range(1, n + 1))).max() < 0.1
        wide = GpuArray(np.zeros(4), None, shape=(3, 4), strides=(0, 8))
        with pytest.raises(holdfast.ConfigError, match="several elements may be one memory"):
            group.all_reduce(wide)
        # It may be read.
        gathered = GpuArray(np.zeros(12 * n))
        group.all_gather(gathered, wide)
        # What was packed has gone, also where a later array was refused.
        large = GpuArray(np.zeros((2, 1 << 21)), None, shape=(2, 1 << 20), strides=(1 << 24, 16))
        for _ in range(16):
            with pytest.raises(holdfast.ConfigError, match="several elements"):
                group.all_to_all(wide, wide, [6] * n, [6] * n)
            group.all_reduce(large)
        assert _core.DeviceMemory(staged(), 200 << 20).address > 0
        group.barrier()


def keep_inputs_and_use_blocks_of_many_arrays() -> None:
    with holdfast.init() as group:
        n, rank = group.size, group.rank
        inputs = [GpuArray(np.full(3 + r, rank, np.float32)) for r in range(n)]
        outputs = [GpuArray(np.zeros(3 + r, np.float32)) for r in range(n)]
        group.all_gather(outputs, inputs[rank])
        for r in range(n):
            assert outputs[r].get().tolist() == [r] * (3 + r)
            assert inputs[r].get().tolist() == [rank] * (3 + r)
        # Blocks that differ.
        give = GpuArray(np.arange(n * (n + 1) // 2, dtype=np.int64) + 100 * rank)
        take = GpuArray(np.zeros(n * (rank + 1), np.int64))
        group.all_to_all(take, give, [rank + 1] * n, [r + 1 for r in range(n)])
        first = rank * (rank + 1) // 2
        expected = [100 * r + first + i for r in range(n) for i in range(rank + 1)]
        assert take.get().tolist() == expected


def go_on_while_ops_run() -> None:
    with holdfast.init() as group:
        n, rank = group.size, group.rank
        stream = staged().make_stream()
        arrays = [GpuArray(np.full(40_000, rank + i, np.float64), stream) for i in range(6)]
        works = [group.all_reduce(array, async_op=True) for array in arrays]
        for i, (array, work) in enumerate(zip(arrays, works, strict=True)):
            assert work is not None
            # The stream waits, not the host: get() copies on that stream.
            work.wait_on(stream)
            assert (array.get() == sum(r + i for r in range(n))).all()
            work.wait(20)
            assert work.done()
            assert work.outcome.contributors == tuple(range(n))
        work = group.all_reduce(arrays[0], op="avg", async_op=True)

        async def waited() -> None:
            await work

        asyncio.run(waited())
        assert (arrays[0].get() == sum(range(n))).all()
        host = group.all_reduce(np.ones(3), async_op=True)
        assert host is not None
        with pytest.raises(holdfast.ConfigError, match="host memory"):
            host.wait_on(stream)
        host.wait()


def code_with_error_feedback() -> None:
    with holdfast.init() as group:
        values = np.random.default_rng(group.rank).standard_normal(30_000).astype(np.float32)
        host, left = values.copy(), np.zeros_like(values)
        group.all_reduce(host, codec="int8", residual=left)
        device, remains = GpuArray(values), GpuArray(np.zeros_like(values))
        group.all_reduce(device, codec="int8", residual=remains)
        # Rounding may be random, by the op's number; both are within the codec's error.
        exact = sum(
            np.random.default_rng(r).standard_normal(30_000).astype(np.float32)
            for r in range(group.size)
        )
        assert np.abs(device.get() - exact).max() < 0.2
        assert np.abs(remains.get()).max() > 0
        assert np.abs(remains.get()).max() < 0.1


def refuse_what_cannot_be() -> None:
    with holdfast.init() as group:
        good = GpuArray(np.ones(6, np.float32))

        def refused(error: type[Exception], text: str, array: object, *more: object) -> None:
            with pytest.raises(error, match=text):
                group.all_gather(more[0], array) if more else group.all_reduce(array)

        refused(
            holdfast.ConfigError,
            "host's memory, another array in a GPU's",
            good,
            np.ones(12, np.float32),
        )
        refused(holdfast.ConfigError, "stream 0", GpuArray(np.ones(1), stream=0))
        refused(holdfast.ConfigError, "read-only", GpuArray(np.ones(1), None, data=(1, True)))
        far = GpuArray(np.ones((2, 2)), None, strides=(8, 1 << 40))
        refused(holdfast.ConfigError, "an array with gaps: memory of the host, or of nobody", far)
        refused(holdfast.Unsupported, "mask", GpuArray(np.ones(1), None, mask=good))
        refused(holdfast.Unsupported, "dtype <M8", GpuArray(np.ones(1), None, typestr="<M8[s]"))
        refused(holdfast.ConfigError, "cannot be read", GpuArray(np.ones(1), None, data=7))
        nowhere = GpuArray(np.ones(4), None, data=(np.ones(4).ctypes.data, False))
        refused(holdfast.ConfigError, "no memory that the CUDA driver knows", nowhere)
        too_long = GpuArray(np.ones(2), None, shape=(2**40,))
        refused(holdfast.ConfigError, "of the host, or of nobody", too_long)
        with pytest.raises(holdfast.HoldfastError, match="of device memory, of which"):
            _core.DeviceMemory(staged(), 1 << 50)
        # No call of these has begun: the group is whole, and nothing is lost.
        before = staged().pinned_bytes
        for _ in range(20):
            group.all_reduce(good)
        assert (good.get() == float(group.size) ** 20).all()
        assert staged().pinned_bytes <= before + (1 << 20)


def disagree_about_the_device() -> None:
    group = holdfast.init()
    values = np.ones(1000, np.float32)
    with pytest.raises(holdfast.ProtocolError, match="in device memory"):
        group.all_reduce(GpuArray(values) if group.rank == 1 else values)


def use_no_driver() -> None:
    with holdfast.init() as group:

        class Array:
            __cuda_array_interface__ = {  # noqa: RUF012
                "shape": (2,),
                "typestr": "<f4",
                "data": (4096, False),
                "version": 3,
            }

        with pytest.raises(holdfast.Unsupported, match="no CUDA driver"):
            group.all_reduce(Array())


def lose_one() -> None:
    """Rank 2 dies in the middle; the others print what they have, then go on."""
    group = holdfast.init()
    array = GpuArray(np.zeros(1_000_000, np.int32))
    for _ in range(2):
        array.write(np.full(1_000_000, 1 << group.rank, np.int32))
        group.all_reduce(array)
        assert (array.get() == 15).all()
    array.write(np.full(1_000_000, 1 << group.rank, np.int32))
    work = group.all_reduce(array, async_op=True)
    assert work is not None
    if group.rank == 2:
        # Somewhere between its first copy up and its last copy down.
        time.sleep(float(os.environ["DIES_AFTER"]))
        os.kill(os.getpid(), signal.SIGKILL)
    work.wait()
    result = array.get()
    # Chunk by chunk with the lost rank's part, or without it: never half of one.
    assert set(np.unique(result)) <= {11, 15}, np.unique(result)
    told = zlib.crc32(result.tobytes())
    # The device is as it was.
    array.write(np.full(1_000_000, 1 << group.rank, np.int32))
    group.all_reduce(array)
    assert (array.get() == 11).all()
    print(told)
    group.close()


def lose_one_in_slices() -> None:
    """Rank 2 dies in a gather or an exchange; the others print what they have, then go on."""
    group = holdfast.init()
    n, rank, lost = group.size, group.rank, 2
    collective = os.environ["COLLECTIVE"]
    count = 100_000
    many = GpuArray(np.repeat(np.arange(n, dtype=np.int32) + 1, count) << 8 * rank)
    own = GpuArray(np.full(count, 1 << rank, np.int32))

    def begin(target: GpuArray, mode: str = "zero") -> holdfast.Work:
        if collective == "all_gather":
            work = group.all_gather(target, own, async_op=True, on_hole=mode)
        elif collective == "all_to_all":
            work = group.all_to_all(target, many, async_op=True, on_hole=mode)
        else:
            work = group.reduce_scatter(target, many, async_op=True)
        assert work is not None
        return work

    size = count if collective == "reduce_scatter" else n * count
    taken = GpuArray(np.full(size, -1, np.int32))
    for _ in range(2):
        begin(taken).wait()
    whole = taken.get().reshape(-1, count)
    taken.write(np.full(size, -1, np.int32))
    work = begin(taken)
    if rank == lost:
        time.sleep(float(os.environ["DIES_AFTER"]))
        os.kill(os.getpid(), signal.SIGKILL)
    work.wait()
    got = taken.get().reshape(-1, count)
    if collective == "reduce_scatter":
        # Slice by slice with the lost rank's part, or without it.
        assert set(np.unique(got)) <= {whole[0, 0], whole[0, 0] - ((rank + 1) << 8 * lost)}
    else:
        for block in range(n):
            values = set(np.unique(got[block]))
            assert values <= ({0, whole[block, 0]} if block == lost else {whole[block, 0]})
    outcome = work.outcome
    assert set(outcome.contributors) | set(outcome.missing) == set(range(n))
    if lost in outcome.contributors:
        assert (got == whole).all()
    # What all ranks have alike.
    told = zlib.crc32(got.tobytes()) if collective == "all_gather" else 0
    after = begin(taken)
    after.wait()
    assert after.outcome.missing == (lost,)
    if collective != "reduce_scatter":
        with pytest.raises(holdfast.PeerLost, match=f"{collective} #.*lost rank 2"):
            begin(taken, "raise").wait()
    print(told, outcome.contributors, outcome.missing)
    group.close()
