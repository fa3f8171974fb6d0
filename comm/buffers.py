"""Buffers: arrays of any kind as runs of elements in memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

# NumPy's and torch's names (those of ml_dtypes among them), and the runtime's.
DTYPES = {
    "bool": "bool",
    "uint8": "u8",
    "int8": "i8",
    "uint16": "u16",
    "int16": "i16",
    "uint32": "u32",
    "int32": "i32",
    "uint64": "u64",
    "int64": "i64",
    "float16": "f16",
    "bfloat16": "bf16",
    "float8_e4m3fn": "f8_e4m3",
    "float8_e5m2": "f8_e5m2",
    "float32": "f32",
    "float64": "f64",
    "complex64": "c64",
    "complex128": "c128",
}


# As a buffer's device: some GPU's.
ASK_THE_DRIVER = -1


class Site(NamedTuple):
    """Where an argument stands: the beginning of every error about it."""

    op: str
    argument: str
    group: str

    def __str__(self) -> str:
        """Op, group, rank and argument."""
        return f"{self.op} of {self.group}: {self.argument}"


@dataclass(frozen=True, slots=True)
class Buffer:
    """One array as the runtime sees it.

    Parameters
    ----------
    array : array
        What the caller passed.
    flat : array
        The same elements in one run: the array itself, or a contiguous copy.
    dtype : str
        The runtime's name of the element type.
    address : int
        Address of the first element.
    count : int
        Number of elements.
    item : int
        Bytes of an element.
    device : int or None
        The GPU whose memory it is; `ASK_THE_DRIVER`: one that its driver knows; None: the host's.
    streams : tuple of int
        What an op must wait for before it reads the array: CUDA streams.
    text : str
        Shape and dtype, for errors; default: the array's own.
    shape : tuple of int
        The array's.
    strides : tuple of int or None
        Bytes from element to element, of an array in a GPU's memory that has gaps; `address` is
        that of its first element. None: one run.
    """

    array: Any
    flat: Any
    dtype: str
    address: int
    count: int
    item: int
    device: int | None = None
    streams: tuple[int, ...] = ()
    text: str = ""
    shape: tuple[int, ...] = ()
    strides: tuple[int, ...] | None = None

    @property
    def block(self) -> tuple[int, int]:
        """Address and number of elements."""
        return (self.address, self.count)

    def store(self) -> None:
        """Copy the result back when the op worked on a copy."""
        if self.flat is self.array:
            return
        if isinstance(self.array, np.ndarray):
            self.array[...] = self.flat
        else:
            self.array.detach().copy_(self.flat)

    def split(self, counts: list[int]) -> list[tuple[int, int]]:
        """Cut the run into consecutive blocks.

        Parameters
        ----------
        counts : list of int
            Elements of each block; their sum is the buffer's.

        Returns
        -------
        list of (int, int)
            Address and number of elements of each.
        """
        blocks = []
        address = self.address
        for count in counts:
            blocks.append((address, count))
            address += count * self.item
        return blocks

    def __str__(self) -> str:
        """Shape and dtype, for errors."""
        return self.text or f"shape {tuple(self.array.shape)} {self.array.dtype}"
