"""Arrays in a GPU's memory: whatever has ``__cuda_array_interface__``, and CUDA torch tensors.

The interface (version 3, numba.readthedocs.io) says where the elements lie and on which stream they
are made; we name no framework and import none.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from holdfast.comm.buffers import ASK_THE_DRIVER, DTYPES, Buffer, Site
from holdfast.errors import ConfigError, Unsupported

# The legacy default stream, which waits for all that a program without streams has enqueued.
_LEGACY_STREAM = 1
_FIRST_WITH_STREAMS = 3


def of_interface(array: Any, interface: Any, site: Site, *, written: bool) -> Buffer:
    """Look at an array by its CUDA array interface.

    Parameters
    ----------
    array : object
        What the caller passed.
    interface : dict
        Its ``__cuda_array_interface__``.
    site : Site
        Names op and argument in errors.
    written : bool
        Whether the op writes it.

    Returns
    -------
    Buffer
        The run of elements, with the stream that it comes from.

    Raises
    ------
    ConfigError
        For a read-only array that would be written, an interface that lacks what it must have, or
        stream 0, which the interface forbids.
    Unsupported
        For an array with a mask, or of a dtype that is not provided.
    """
    try:
        shape = tuple(int(size) for size in interface["shape"])
        kind = np.dtype(interface["typestr"])
        address, readonly = interface["data"]
        version = int(interface["version"])
    except (KeyError, TypeError, ValueError) as error:
        raise ConfigError(
            f"{site} has a __cuda_array_interface__ that cannot be read ({error}); accepted: a "
            "dict with shape, typestr, data and version"
        ) from None
    text = f"shape {shape} {kind.name}"
    dtype = DTYPES.get(kind.name)
    if dtype is None or not kind.isnative:
        raise Unsupported(
            f"{site} has dtype {interface['typestr']}; accepted: {', '.join(DTYPES)} of this "
            "machine's byte order"
        )
    if interface.get("mask") is not None:
        raise Unsupported(f"{site} has a mask; accepted: arrays without")
    count = math.prod(shape)
    strides = _gaps(shape, interface.get("strides"), kind.itemsize)
    if written and readonly:
        raise ConfigError(f"{site} is read-only; accepted: an array that can be written")
    streams = _streams(interface, version, site)
    return Buffer(
        array,
        array,
        dtype,
        int(address),
        count,
        kind.itemsize,
        ASK_THE_DRIVER,
        streams,
        text,
        shape,
        strides,
    )


def _gaps(shape: tuple[int, ...], strides: Any, item: int) -> tuple[int, ...] | None:
    """Strides in bytes of an array that has gaps; None where its elements are one run."""
    if strides is None or math.prod(shape) == 0:
        return None
    given = tuple(int(stride) for stride in strides)
    packed = _packed(shape, item)
    # The stride of a dimension of one says nothing.
    same = all(n == 1 or a == b for n, a, b in zip(shape, given, packed, strict=True))
    return None if same else given


def _packed(shape: tuple[int, ...], item: int) -> tuple[int, ...]:
    """Strides in bytes of an array without gaps."""
    strides: list[int] = []
    for size in reversed(shape):
        strides.insert(0, item)
        item *= size
    return tuple(strides)


def _streams(interface: Any, version: int, site: Site) -> tuple[int, ...]:
    if version < _FIRST_WITH_STREAMS:
        return (_LEGACY_STREAM,)
    stream = interface.get("stream")
    if stream is None:
        return ()  # the interface: nothing to wait for
    if not isinstance(stream, int) or isinstance(stream, bool) or stream <= 0:
        raise ConfigError(
            f"{site} has stream {stream!r} in its __cuda_array_interface__; accepted: None, 1 (the "
            "legacy default stream), 2 (the per-thread one) or a stream's address"
        )
    return (stream,)


def of_cuda_tensor(tensor: Any, flat: Any, dtype: str, torch: Any) -> Buffer:
    """Look at a CUDA torch tensor, made on the stream that is current on its device.

    Parameters
    ----------
    tensor : torch.Tensor
        What the caller passed.
    flat : torch.Tensor
        The tensor, or a copy that is conjugated or negated as the tensor says it is.
    dtype : str
        The runtime's name of the element type.
    torch : module
        The torch that made it.

    Returns
    -------
    Buffer
        The run of elements.
    """
    item = flat.element_size()
    strides = tuple(stride * item for stride in flat.stride())
    stream = int(torch.cuda.current_stream(tensor.device).cuda_stream) or _LEGACY_STREAM
    return Buffer(
        tensor,
        flat,
        dtype,
        flat.data_ptr(),
        flat.numel(),
        item,
        int(tensor.device.index),
        (stream,),
        shape=tuple(flat.shape),
        strides=None if flat.is_contiguous() else strides,
    )
