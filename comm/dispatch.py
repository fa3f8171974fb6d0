"""Where an op's arrays are, and so what carries it: the runtime itself, or a GPU's staging."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast import _core
from holdfast.comm.buffers import ASK_THE_DRIVER, Buffer
from holdfast.comm.requests import Request
from holdfast.errors import ConfigError, Unsupported


def start(
    native: _core.Communicator, node: _core.Node | None, request: Request, call: _core.Call
) -> _core.Work:
    """Start an op.

    Parameters
    ----------
    native : _core.Communicator
        Of the group.
    node : _core.Node or None
        What opens GPUs.
    request : Request
        The arrays.
    call : _core.Call
        What to do.

    Returns
    -------
    _core.Work
        The op, under way.
    """
    if not request.on_device:
        return native.start(call, request.buffers)
    return _staged(node, request).start(
        native, call, request.buffers, request.streams, request.gaps
    )


def run(
    native: _core.Communicator, node: _core.Node | None, request: Request, call: _core.Call
) -> _core.Work | _core.Ended:
    """Run an op to its end; parameters as in :func:`start`.

    Returns
    -------
    _core.Work or _core.Ended
        The op, ended well.
    """
    if not request.on_device:
        return native.run(call)
    return _staged(node, request).run(native, call, request.streams, request.gaps)


def _staged(node: _core.Node | None, request: Request) -> _core.Staged:
    ordinal = ordinal_of(node, request.buffers, f"{request.op} of {request.group}")
    assert node is not None
    return node.staged(ordinal)


def ordinal_of(node: _core.Node | None, buffers: Sequence[Buffer], where: str) -> int:
    """Return the number of the GPU whose memory arrays are.

    Parameters
    ----------
    node : _core.Node or None
        What opens GPUs.
    buffers : sequence of Buffer
        The arrays, all of one GPU.
    where : str
        What begins errors.

    Raises
    ------
    ConfigError
        For an address that the driver does not know.
    Unsupported
        Without a node, or a driver.
    """
    if node is None:
        raise Unsupported(f"{where}: this group takes host memory only")
    device = buffers[0].device
    if device != ASK_THE_DRIVER:
        return int(device or 0)
    # An array without elements may have no address.
    full = next((one for one in buffers if one.count > 0), None)
    ordinal = 0 if full is None else node.device_of(full.address)
    if ordinal < 0:
        raise ConfigError(
            f"{where}: an array of {full} is in no memory that the CUDA driver knows as a "
            "device's; accepted: memory that this process has on a GPU"
        )
    return ordinal
