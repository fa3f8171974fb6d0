"""Processes of test_host_tensor.py: tables whose rows the emulated device reads."""

from __future__ import annotations

import gc

import numpy as np
import pytest
from gpu_array import GpuArray, staged

import holdfast
from holdfast.comm import HostTensor


def _table(rows: int, columns: int, dtype: type) -> np.ndarray:
    rng = np.random.default_rng(rows)
    return rng.integers(0, 100, (rows, columns)).astype(dtype)


def gather_on_the_device() -> None:
    """Rows of odd and even sizes, by numbers from either end, are those that NumPy takes."""
    rng = np.random.default_rng(3)
    for dtype in (np.uint8, np.float16, np.float32, np.complex128):
        for columns in (1, 3, 32, 1027):
            values = _table(500, columns, dtype)
            table = HostTensor(values)
            assert table.device == 0
            assert table.shape == (500, columns)
            assert len(table) == 500
            for count in (0, 1, 777):
                index = rng.integers(-500, 500, count)
                out = GpuArray(np.zeros((count, columns), dtype), 1)
                assert table.gather(GpuArray(index, 1), out) is out
                np.testing.assert_array_equal(out.get(), values[index])


def gather_beside_the_current_stream() -> None:
    """A prefetch is there for whoever waits for it, and a dropped one does no harm."""
    values = _table(1000, 64, np.float32)
    table = HostTensor(values)
    stream = staged().make_stream()
    index = np.arange(999, -1, -2)
    numbers = GpuArray(index, stream)
    for _ in range(5):
        out = GpuArray(np.zeros((500, 64), np.float32), stream)
        ahead = table.prefetch(numbers, out)
        assert ahead.wait() is out
        np.testing.assert_array_equal(out.get(), values[index])
    dropped = GpuArray(np.zeros((500, 64), np.float32), stream)
    table.prefetch(numbers, dropped)
    gc.collect()
    np.testing.assert_array_equal(dropped.get(), values[index])


def see_the_table_as_it_is() -> None:
    """What is written to the array later is what the device reads."""
    values = _table(10, 8, np.int32)
    table = HostTensor(values)
    values[7] = -1
    out = GpuArray(np.zeros((1, 8), np.int32), 1)
    table.gather(GpuArray(np.array([7]), 1), out)
    assert (out.get() == -1).all()


def tell_of_numbers_out_of_range() -> None:
    """Such a row is zeros, and the next call, or check(), says so, once."""
    values = _table(10, 8, np.int32) + 1
    table = HostTensor(values)
    out = GpuArray(np.zeros((3, 8), np.int32), 1)
    table.gather(GpuArray(np.array([9, 10, -10]), 1), out)
    np.testing.assert_array_equal(out.get(), [values[9], np.zeros(8), values[0]])
    with pytest.raises(IndexError, match="out of range; the table has 10 rows"):
        table.check()
    table.check()


def refuse_what_does_not_fit() -> None:
    """Errors name what came and what is accepted; nothing is written."""
    table = HostTensor(_table(10, 8, np.int32))
    index = GpuArray(np.arange(4), 1)
    with pytest.raises(holdfast.ConfigError, match="needs out="):
        table[index]
    with pytest.raises(holdfast.ConfigError, match=r"accepted: int64"):
        table.gather(GpuArray(np.arange(4, dtype=np.int32), 1), index)
    for wrong in (
        GpuArray(np.zeros((4, 7), np.int32), 1),
        GpuArray(np.zeros((4, 8), np.float32), 1),
        np.zeros((4, 8), np.int32),
    ):
        with pytest.raises(holdfast.ConfigError, match=r"accepted: shape \(4, 8\) i32"):
            table.gather(index, wrong)
    with pytest.raises(holdfast.ConfigError, match="device"):
        HostTensor(_table(10, 8, np.int32), device=7)
    with pytest.raises(holdfast.ConfigError, match="the table is on a GPU"):
        HostTensor(index)


def give_back_what_was_pinned() -> None:
    """Tables that go unpin their memory, so that it can be pinned again."""
    values = _table(100, 8, np.int32)
    for _ in range(20):
        table = HostTensor(values)
        out = GpuArray(np.zeros((100, 8), np.int32), 1)
        table.gather(GpuArray(np.arange(100), 1), out)
        del table
        np.testing.assert_array_equal(out.get(), values)
    assert staged().pinned_bytes < 1 << 20


def gather_without_a_driver() -> None:
    """The host gathers the same rows; an index on a GPU is told what is missing."""
    values = _table(10, 8, np.int32)
    table = HostTensor(values)
    assert table.device is None
    np.testing.assert_array_equal(table[[3, -1]], values[[3, -1]])
    with pytest.raises(holdfast.Unsupported):
        HostTensor(values, device=0)
