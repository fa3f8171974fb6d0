"""Ranks of test_torch_streams.py: CUDA tensors over the emulated device, and a fake CUDA."""

from __future__ import annotations

import ctypes
import os
import time
from datetime import timedelta

import numpy as np
import pytest
import torch
import torch.distributed as dist
from gpu_array import GpuArray, staged

import holdfast

COUNT = 50_000


class Fake:
    """The library of fake_cuda.cpp, with streams of the emulated device."""

    def __init__(self) -> None:
        self._lib = ctypes.PyDLL(os.environ["FAKE_CUDA"])
        self._lib.fake_tensor.restype = ctypes.py_object
        self._lib.fake_tensor.argtypes = [ctypes.c_void_p, ctypes.c_int64]
        self.streams = [staged().make_stream() for _ in range(4)]
        self._lib.fake_streams((ctypes.c_void_p * 4)(*self.streams), 4)

    def tensor(self, array: GpuArray) -> torch.Tensor:
        """A CUDA tensor of an array's floats, which must outlive it."""
        address, _ = array.__cuda_array_interface__["data"]
        return self._lib.fake_tensor(address, COUNT)


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


def futures_complete_when_the_op_has_ended() -> None:
    """Rank 1 calls only when rank 0 has looked at its Future."""
    rank, size, fake, store = _start()
    total = size * (size + 1) / 2
    array = _values(rank)
    tensor = fake.tensor(array)
    if rank == 1:
        store.get("rank 0 has looked")
    work = dist.all_reduce(tensor, async_op=True)
    called: list[torch.Tensor] = []
    future = work.get_future().then(lambda ended: called.extend(ended.value()))
    if rank == 0:
        assert not future.done()
        store.set("rank 0 has looked", "yes")
    future.wait()
    assert [one.data_ptr() for one in called] == [tensor.data_ptr()]
    assert (array.get() == total).all()
    work.wait(timedelta(seconds=30))
    assert holdfast.outcome(work).contributors == tuple(range(size))
    assert work.get_future().done()
    dist.barrier()
    dist.destroy_process_group()


def the_host_waits_until_the_result_is_on_its_way() -> None:
    """Then the stream that was current needs no more of the host."""
    rank, size, fake, store = _start()
    array = _values(rank)
    tensor = fake.tensor(array)
    if rank == 1:
        store.get("rank 0 has called")
        time.sleep(0.2)  # so that a wait that does not last is over
        store.set("rank 1 calls", "yes")
    work = dist.all_reduce(tensor, async_op=True)
    if rank == 0:
        store.set("rank 0 has called", "yes")
    work.wait()
    if rank == 0:
        # It did not return before rank 1 had come.
        assert store.check(["rank 1 calls"])
    array._stream = fake.streams[0]
    assert (array.get() == size * (size + 1) / 2).all()
    dist.barrier()
    dist.destroy_process_group()


def a_gather_that_may_have_a_hole_is_waited_for() -> None:
    """A stream cannot raise: the host waits for the op's end, and so it does with zeros."""
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
    with holdfast.on_hole("zero"):
        work = gather()
    work.wait()
    work.wait(timedelta(seconds=30))
    assert [array.get()[0] for array in arrays] == [1, 2]
    dist.barrier()
    dist.destroy_process_group()


def a_failure_is_told_by_wait() -> None:
    """Rank 1 aborts the group while rank 0 waits, without a timeout."""
    rank, _, fake, store = _start()
    array = _values(rank)
    tensor = fake.tensor(array)
    if rank == 1:
        store.get("rank 0 has called")
        dist.distributed_c10d._get_default_group()._get_backend(torch.device("cpu")).abort()
        return
    work = dist.all_reduce(tensor, async_op=True)
    future = work.get_future()
    store.set("rank 0 has called", "yes")
    with pytest.raises(holdfast.HoldfastError):
        work.wait()
    with pytest.raises(holdfast.HoldfastError):
        future.wait()
    # Its stream is free, and nothing was written.
    assert (array.get() == 1).all()
    with pytest.raises(holdfast.HoldfastError):
        dist.all_reduce(torch.ones(3))
