"""Arrays: NumPy arrays, torch tensors and arrays on a GPU as runs of elements in memory."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from holdfast.comm.buffers import DTYPES, Buffer, Site
from holdfast.comm.device_arrays import of_cuda_tensor, of_interface
from holdfast.errors import ConfigError, Unsupported

__all__ = ["Buffer", "Site", "buffer"]


def buffer(array: Any, site: Site, *, written: bool = False) -> Buffer:
    """Look at an array as a run of elements.

    Parameters
    ----------
    array : numpy.ndarray, torch.Tensor, or an object with ``__cuda_array_interface__``
        Any shape; torch tensors on the CPU or a CUDA device. NumPy arrays and tensors that are not
        contiguous are copied.
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
        For an object that is no array, a tensor without memory of its own, or a read-only array
        that would be written.
    Unsupported
        For a device or dtype that is not provided.
    """
    if isinstance(array, np.ndarray):
        return _of_numpy(array, site, written)
    # No import of torch: whoever passes a tensor has imported it.
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(array, torch.Tensor):
        return _of_torch(array, site, torch)
    interface = getattr(array, "__cuda_array_interface__", None)
    if interface is not None:
        return of_interface(array, interface, site, written=written)
    raise ConfigError(
        f"{site} is a {type(array).__name__}; accepted: a NumPy array, a torch tensor, or an array "
        "with __cuda_array_interface__"
    )


def _dtype(name: str, array: Any, site: Site) -> str:
    dtype = DTYPES.get(name)
    if dtype is None:
        raise Unsupported(f"{site} has dtype {array.dtype}; accepted: {', '.join(DTYPES)}")
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
    return Buffer(array, flat, dtype, flat.ctypes.data, flat.size, flat.itemsize, shape=array.shape)


def _has_no_memory(tensor: Any) -> bool:
    """Whether there are elements, and no address that they lie at."""
    try:
        # What has no storage says so by an address of 0, to which torch adds the offset.
        address = tensor.data_ptr() - tensor.storage_offset() * tensor.element_size()
        return bool(address == 0 and tensor.numel() > 0)
    except RuntimeError:  # as some versions of torch say it
        return True


def _of_torch(tensor: Any, site: Site, torch: Any) -> Buffer:
    dtype = _dtype(str(tensor.dtype).removeprefix("torch."), tensor, site)
    if tensor.device.type not in ("cpu", "cuda") or tensor.layout != torch.strided:
        raise Unsupported(
            f"{site} is a {tensor.layout} tensor on {tensor.device}; accepted: torch.strided on "
            "cpu or cuda"
        )
    if _has_no_memory(tensor):
        raise ConfigError(
            f"{site} is a {type(tensor).__name__} that has no memory of its own: it stands for "
            "other tensors, or its storage was freed; accepted: plain tensors; of a DTensor its "
            "local part, to_local()"
        )
    flat = tensor
    if tensor.is_conj() or tensor.is_neg():
        flat = tensor.detach().resolve_conj().resolve_neg().contiguous()
    if tensor.device.type == "cuda":
        return of_cuda_tensor(tensor, flat, dtype, torch)
    if not flat.is_contiguous():
        flat = tensor.detach().contiguous()
    shape = tuple(tensor.shape)
    return Buffer(
        tensor, flat, dtype, flat.data_ptr(), flat.numel(), flat.element_size(), shape=shape
    )
