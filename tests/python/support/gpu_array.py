"""An array in a GPU's memory, as far as a collective can tell: no framework, and no GPU needed."""

from __future__ import annotations

from typing import Any

import numpy as np

from holdfast import _core, _process


def staged(device: int = 0) -> _core.Staged:
    """The process's device, of the driver that HOLDFAST_CUDA_DRIVER names."""
    return _process.node().staged(device)


class GpuArray:
    """Elements on device 0, with version 3 of the CUDA array interface.

    `stream`: what the interface says of it. `shared`: other processes can map the memory; else it
    is of a pool. Nothing but the interface reaches it.
    """

    def __init__(
        self, values: Any, stream: int | None = None, *, shared: bool = False, **said: Any
    ) -> None:
        self._host = np.ascontiguousarray(values)
        self._stream = stream
        self._said = said
        self._memory = _core.DeviceMemory(staged(0), self._host.nbytes, shared)
        self._memory.write(self._host.tobytes(), stream or 0)

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {
            "shape": self._host.shape,
            "typestr": self._host.dtype.str,
            "data": (self._memory.address, False),
            "version": 3,
            "strides": None,
            "stream": self._stream,
            **self._said,
        }

    def get(self) -> np.ndarray[Any, Any]:
        """The elements, copied to the host."""
        raw = self._memory.read(self._stream or 0)
        return np.frombuffer(raw, self._host.dtype).reshape(self._host.shape)

    def write(self, values: np.ndarray[Any, Any]) -> None:
        """Copy elements in."""
        self._memory.write(np.ascontiguousarray(values, self._host.dtype).tobytes())

    def copy_from(self, other: GpuArray) -> None:
        """Copy another array's elements in, on the device, and wait until they are there."""
        self._memory.copy_from(other._memory, self._stream or 0)


class GappedArray(GpuArray):
    """Every third element of a memory, from its end to its beginning."""

    _STEP = 3

    def __init__(self, values: Any, stream: int | None = None) -> None:
        wanted = np.ascontiguousarray(values)
        memory = np.zeros(wanted.size * self._STEP, wanted.dtype)
        memory.view(np.uint8)[:] = 0x5A
        memory[:: -self._STEP] = wanted
        super().__init__(memory, stream)
        self._shape = wanted.shape
        last = max(wanted.size * self._STEP - 1, 0) * wanted.itemsize
        self._said = {
            "shape": wanted.shape,
            "strides": (-self._STEP * wanted.itemsize,),
            "data": (self._memory.address + last, False),
        }

    def get(self) -> np.ndarray[Any, Any]:
        """The elements, copied to the host; nothing else has been written to."""
        memory = super().get().reshape(-1).copy()
        wanted = memory[:: -self._STEP].copy()
        memory.view(np.uint8)[:] = np.where(
            _others(memory, self._STEP), memory.view(np.uint8), 0x5A
        )
        assert (memory.view(np.uint8) == 0x5A).all()
        return wanted.reshape(self._shape)


def _others(memory: np.ndarray[Any, Any], step: int) -> np.ndarray[Any, Any]:
    """Which bytes are not of every `step`-th element from the end."""
    others = np.ones((memory.size, memory.itemsize), bool)
    others[::-step] = False
    return others.reshape(-1)
