"""Arrays: NumPy arrays and CPU torch tensors as runs of elements in memory."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any

import numpy as np

from holdfast.errors import ConfigError, Unsupported

_NUMPY = {
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
        Holdfast's name of the element type.
    address : int
        Address of the first element; 0 when there is none.
    count : int
        Number of elements.
    """

    array: Any
    flat: Any
    dtype: str
    address: int
    count: int

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
            self.array.copy_(self.flat)


def _is_tensor(array: object) -> bool:
    # No import of torch: whoever passes a tensor has imported it.
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(array, torch.Tensor)


def buffer(array: Any, what: str, *, written: bool = False) -> Buffer:
    """Look at an array as a run of elements.

    Parameters
    ----------
    array : numpy.ndarray or torch.Tensor
        Any shape; CPU. Arrays that are not contiguous are copied.
    what : str
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
        return _numpy_buffer(array, what, written)
    if _is_tensor(array):
        return _torch_buffer(array, what)
    raise ConfigError(
        f"{what}: got {type(array).__name__}; accepted: a NumPy array or a torch tensor"
    )


def _numpy_buffer(array: np.ndarray[Any, Any], what: str, written: bool) -> Buffer:
    dtype = _NUMPY.get(array.dtype.name)
    if dtype is None or not array.dtype.isnative:
        raise Unsupported(f"{what}: dtype {array.dtype} ; accepted: {', '.join(_NUMPY)}")
    if written and not array.flags.writeable:
        raise ConfigError(f"{what}: the array is read-only; pass a copy")
    flat = array if array.flags.c_contiguous else np.ascontiguousarray(array)
    return Buffer(array, flat, dtype, flat.ctypes.data if flat.size else 0, flat.size)


def _torch_buffer(tensor: Any, what: str) -> Buffer:
    name = str(tensor.dtype).removeprefix("torch.")
    dtype = _NUMPY.get(name)
    if dtype is None:
        raise Unsupported(f"{what}: dtype {tensor.dtype}; accepted: {', '.join(_NUMPY)}")
    if tensor.device.type != "cpu" or tensor.layout != sys.modules["torch"].strided:
        raise Unsupported(
            f"{what}: a {tensor.layout} tensor on {tensor.device}; accepted: dense tensors on cpu"
        )
    flat = tensor if tensor.is_contiguous() else tensor.contiguous()
    return Buffer(tensor, flat, dtype, flat.data_ptr(), flat.numel())


def split_blocks(whole: Buffer, counts: list[int]) -> list[tuple[int, int]]:
    """Cut one buffer into consecutive blocks.

    Parameters
    ----------
    whole : Buffer
        The buffer.
    counts : list of int
        Elements of each block; their sum is the buffer's.

    Returns
    -------
    list of (int, int)
        Address and number of elements of each.
    """
    item = whole.flat.itemsize if isinstance(whole.flat, np.ndarray) else whole.flat.element_size()
    blocks = []
    address = whole.address
    for count in counts:
        blocks.append((address, count))
        address += count * item
    return blocks
