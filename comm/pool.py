"""Memory that the other ranks of this host read where it lies."""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy as np

from holdfast import _core, _process
from holdfast.errors import ConfigError


def empty(shape: int | tuple[int, ...], dtype: Any = np.float32) -> Any:
    """Make an array whose memory comes from the process's pool; its values are arbitrary.

    Collectives of more than 64 KiB between ranks of one host read such arrays directly, instead of
    copying them through shared memory first. Everywhere else they are arrays like any other. The
    pool grows by at least 64 MiB of shared memory at a time and keeps what it has; where there
    is none left, the array has ordinary memory.

    Parameters
    ----------
    shape : int or tuple of int
        Of the array; elements in C order.
    dtype : NumPy or torch dtype
        A torch dtype makes a CPU tensor, everything else an array.

    Returns
    -------
    numpy.ndarray or torch.Tensor
        Contiguous, aligned to 64 bytes.

    Raises
    ------
    ConfigError
        For a shape or dtype that cannot be used.
    MemoryError
        When there is no memory of any kind left.
    """
    sizes = (shape,) if isinstance(shape, int) else tuple(shape)
    try:
        sizes = tuple(operator.index(size) for size in sizes)
    except TypeError:
        sizes = (-1,)
    if any(size < 0 for size in sizes):
        raise ConfigError(f"shape {shape!r}; accepted: whole numbers from 0 on")
    if type(dtype).__module__ == "torch":
        import torch

        flat = _core.allocate(_process.pool(), math.prod(sizes) * dtype.itemsize)
        return torch.from_numpy(flat).view(dtype).reshape(sizes)
    try:
        kind = np.dtype(dtype)
    except TypeError:
        raise ConfigError(f"dtype {dtype!r}; accepted: those of NumPy and torch") from None
    if kind.hasobject:
        raise ConfigError(f"dtype {kind}; accepted: numbers, not Python objects")
    return (
        _core.allocate(_process.pool(), math.prod(sizes) * kind.itemsize).view(kind).reshape(sizes)
    )
