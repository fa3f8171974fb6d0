"""Ranks of test_torch_streams.py: CUDA tensors over the emulated device, and a fake CUDA."""

from __future__ import annotations

import ctypes
import os
from datetime import timedelta

import numpy as np
import pytest
import torch
import torch.distributed as dist
from gpu_array import GpuArray, staged

import holdfast

COUNT = 50_000
_LOG_BYTES = 1 << 16


class Fake:
    """The library of fake_cuda.cpp, with streams of the emulated device."""

    def __init__(self) -> None:
        self._lib = ctypes.PyDLL(os.environ["FAKE_CUDA"])
        self._lib.fake_tensor.restype = ctypes.py_object
        self._lib.fake_tensor.argtypes = [ctypes.c_void_p, ctypes.c_int64]
        self._lib.fake_current_stream.restype = ctypes.c_int64
        self._lib.fake_log.argtypes = [ctypes.c_char_p, ctypes.c_size_t]
        self.streams = [staged().make_stream() for _ in range(4)]
        self._lib.fake_streams((ctypes.c_void_p * 4)(*self.streams), 4)

    def tensor(self, array: GpuArray) -> torch.Tensor:
        """A CUDA tensor of an array's floats, which must outlive it."""
        address, _ = array.__cuda_array_interface__["data"]
        return self._lib.fake_tensor(address, COUNT)

    def current(self) -> int:
        """The number of the current stream: 0, or one of the pool."""
        return self._lib.fake_current_stream()

    def log(self) -> list[tuple[str, int, int]]:
        """What was asked of events since the last call: verb, event, stream."""
        text = ctypes.create_string_buffer(_LOG_BYTES)
        self._lib.fake_log(text, _LOG_BYTES)
        lines = [line.split() for line in text.value.decode().splitlines()]
        return [(verb, int(event), int(stream)) for verb, event, stream in lines]


def _start() -> tuple[int, int, Fake, dist.Store]:
    dist.init_process_group(
        "holdfast",
        init_method=f"file://{os.environ['MEETING_FILE']}",
        rank=int(os.environ["RANK"]),
        world_size=int(os.environ["WORLD_SIZE"]),
        timeout=timedelta(seconds=60),
    )
    store = dist.FileStore(f"{os.environ['MEETING_FILE']}.turns", dist.get_world_size())
    return dist.get_rank(), dist.get_world_size(), Fake(), store


def _values(rank: int, stream: int | None = None) -> GpuArray:
    return GpuArray(np.full(COUNT, rank + 1, np.float32), stream)


def callbacks_come_before_the_op_has_ended() -> None:
    """Rank 1 calls only when rank 0's Future has completed and has called back."""
    rank, size, fake, store = _start()
    total = size * (size + 1) / 2
    array = _values(rank)
    tensor = fake.tensor(array)
    if rank == 1:
        store.get("rank 0 was called back")
    work = dist.all_reduce(tensor, async_op=True)
    fake.log()
    called: list[int] = []

    def back(future: torch.futures.Future[list[torch.Tensor]]) -> list[torch.Tensor]:
        called.append(fake.current())
        return future.value()

    future = work.get_future()
    chained = future.then(back)
    if rank == 0:
        assert future.done()
        assert chained.done()
        assert not work.is_completed()
        # A stream of the pool waited for the op, the event came behind it, and the callback ran
        # with another stream of the pool, which waits for that event. The host waited for none.
        told = fake.log()
        assert [verb for verb, _, _ in told][:2] == ["record", "block"]
        (_, event, behind), (_, awaited, callback) = told[:2]
        assert event == awaited
        assert called == [callback]
        assert 0 not in (behind, callback)
        assert fake.current() == 0
        assert not [verb for verb, _, _ in told if verb == "host"]
        store.set("rank 0 was called back", "yes")
        # What is copied on that stream is the result.
        array._stream = fake.streams[behind]
        assert (array.get() == total).all()
    work.wait(timedelta(seconds=30))
    assert chained.wait()[0].data_ptr() == tensor.data_ptr()
    assert holdfast.outcome(work).contributors == tuple(range(size))
    # Asked for again, and once the op has ended.
    assert work.get_future().done()
    later = dist.all_reduce(tensor, async_op=True)
    later.wait(timedelta(seconds=30))
    assert later.get_future().done()
    array._stream = None
    assert (array.get() == total * size).all()
    dist.barrier()
    dist.destroy_process_group()


def futures_that_must_tell_of_failures_complete_late() -> None:
    """Of a rooted op, or where losses raise, a Future completes when the op has ended."""
    rank, size, fake, store = _start()
    array = _values(rank)
    tensor = fake.tensor(array)
    raises = os.environ["HOLDFAST_ON_PEER_LOSS"] == "raise"
    if rank == 1:
        store.get("rank 0 has called")
    if raises:
        work = dist.all_reduce(tensor, async_op=True)
    else:
        # dist.broadcast() asks torch's own CUDA about the device.
        work = dist.group.WORLD.broadcast(tensor, 1)
    future = work.get_future()
    if rank == 0:
        assert not future.done()
        store.set("rank 0 has called", "yes")
    future.wait()
    assert future.done()
    assert (array.get() == (size * (size + 1) / 2 if raises else 2)).all()
    dist.barrier()
    dist.destroy_process_group()


def a_gather_that_may_have_a_hole_is_waited_for() -> None:
    """A stream cannot raise: the host waits, unless zeros are asked for."""
    rank, size, fake, store = _start()
    own = _values(rank)
    arrays = [_values(90) for _ in range(size)]
    tensors = [fake.tensor(array) for array in arrays]

    def gather() -> dist.Work:
        return dist.group.WORLD.allgather([tensors], [fake.tensor(own)])  # type: ignore[union-attr]

    if rank == 1:
        store.get("rank 0 has called")
    work = gather()
    if rank == 0:
        assert not work.get_future().done()
        store.set("rank 0 has called", "yes")
    work.wait()
    assert work.is_completed()
    assert [array.get()[0] for array in arrays] == [1, 2]
    if rank == 1:
        store.get("rank 0 goes on")
    with holdfast.on_hole("zero"):
        work = gather()
    work.wait()
    if rank == 0:
        assert work.get_future().done()
        assert not work.is_completed()
        store.set("rank 0 goes on", "yes")
    work.wait(timedelta(seconds=30))
    dist.barrier()
    dist.destroy_process_group()


def a_failure_is_told_by_what_follows() -> None:
    """Rank 1 aborts the group; rank 0's Future has completed before."""
    rank, _, fake, store = _start()
    array = _values(rank)
    tensor = fake.tensor(array)
    if rank == 1:
        store.get("rank 0 has called")
        dist.distributed_c10d._get_default_group()._get_backend(torch.device("cpu")).abort()
        return
    work = dist.all_reduce(tensor, async_op=True)
    assert work.get_future().done()
    store.set("rank 0 has called", "yes")
    with pytest.raises(holdfast.HoldfastError):
        work.wait(timedelta(seconds=30))
    # Its stream is free, and nothing was written.
    assert (array.get() == 1).all()
    with pytest.raises(holdfast.HoldfastError):
        dist.all_reduce(torch.ones(3))
