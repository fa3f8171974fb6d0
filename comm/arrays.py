"""Arrays: NumPy arrays and CPU torch tensors as runs of elements in memory."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from holdfast.errors import ConfigError, Unsupported

# NumPy's and torch's names (those of ml_dtypes among them), and the runtime's.
_DTYPES = {
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
    """

    array: Any
    flat: Any
    dtype: str
    address: int
    count: int
    item: int

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
        return f"shape {tuple(self.array.shape)} {self.array.dtype}"


def buffer(array: Any, site: Site, *, written: bool = False) -> Buffer:
    """Look at an array as a run of elements.

    Parameters
    ----------
    array : numpy.ndarray or torch.Tensor
        Any shape; CPU. Arrays that are not contiguous are copied.
    site : Site
        Names op and argument in errors.
    written : bool
        Whether the op writes it.

    Returns
    -------
    Buffer
        The run.

    Raises
    ------
    ConfigError
        For an object that is no array, or a read-only array that would be written.
    Unsupported
        For a device or dtype that is not provided.
    """
    if isinstance(array, np.ndarray):
        return _of_numpy(array, site, written)
    # No import of torch: whoever passes a tensor has imported it.
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(array, torch.Tensor):
        return _of_torch(array, site, torch)
    raise ConfigError(
        f"{site} is a {type(array).__name__}; accepted: a NumPy array or a torch tensor"
    )


def _dtype(name: str, array: Any, site: Site) -> str:
    dtype = _DTYPES.get(name)
    if dtype is None:
        raise Unsupported(f"{site} has dtype {array.dtype}; accepted: {', '.join(_DTYPES)}")
    return dtype


def _of_numpy(array: np.ndarray[Any, Any], site: Site, written: bool) -> Buffer:
    dtype = _dtype(array.dtype.name, array, site)
    if not array.dtype.isnative:
        raise Unsupported(
            f"{site} has dtype {array.dtype}, of the other byte order; accepted: this machine's"
        )
    if written and not array.flags.writeable:
        raise ConfigError(f"{site} is read-only; accepted: an array that can be written")
    flat = array if array.flags.c_contiguous else np.ascontiguousarray(array)
    return Buffer(array, flat, dtype, flat.ctypes.data, flat.size, flat.itemsize)


def _of_torch(tensor: Any, site: Site, torch: Any) -> Buffer:
    dtype = _dtype(str(tensor.dtype).removeprefix("torch."), tensor, site)
    if tensor.device.type != "cpu" or tensor.layout != torch.strided:
        raise Unsupported(
            f"{site} is a {tensor.layout} tensor on {tensor.device}; accepted: torch.strided on cpu"
        )
    flat = tensor
    if not tensor.is_contiguous() or tensor.is_conj() or tensor.is_neg():
        flat = tensor.detach().resolve_conj().resolve_neg().contiguous()
    return Buffer(tensor, flat, dtype, flat.data_ptr(), flat.numel(), flat.element_size())
