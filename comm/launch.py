"""How ranks of a fixed world find each other."""

from __future__ import annotations

import os
from datetime import timedelta
from typing import Any
from urllib.parse import urlparse

from holdfast import _process
from holdfast.comm.group import Group
from holdfast.comm.store import DirectoryStore
from holdfast.errors import ConfigError
from holdfast.options import Options

_METHODS = "env://, file:///directory, tcp://host:port"


def init(
    init_method: str | None = None,
    *,
    rank: int | None = None,
    size: int | None = None,
    store: Any = None,
    options: Options | None = None,
    name: str = "default",
) -> Group:
    """Meet the other ranks and return the group of all of them.

    Parameters
    ----------
    init_method : str, optional
        ``env://`` (default): RANK and WORLD_SIZE, and HOLDFAST_STORE (a ``file://`` or ``tcp://``
        address, set by ``holdfast run``) or MASTER_ADDR and MASTER_PORT. ``file:///directory``: a
        directory that all ranks share, one per job. ``tcp://host:port``: rank 0 listens there.
    rank, size : int, optional
        Default: RANK and WORLD_SIZE.
    store : object, optional
        Instead of a method: any object with torch's ``set``, ``wait`` and ``get``.
    options : Options, optional
        Default: from the environment.
    name : str
        Name of the group, unique within the store.

    Returns
    -------
    Group
        All ranks are connected.

    Raises
    ------
    ConfigError
        For a method, rank or size that cannot be used.
    Timeout
        Naming the ranks that never came.
    """
    options = Options.from_env() if options is None else options
    rank = _number("rank", "RANK", rank)
    size = _number("size", "WORLD_SIZE", size)
    if store is None:
        store = _store(init_method or "env://", rank, size, options.connect_timeout)
    node = _process.node(options)
    native = node.join(store, name, rank, size, options.connect_timeout, options.timeout)
    return Group(native)


def _number(what: str, variable: str, value: int | None) -> int:
    if value is not None:
        return value
    text = os.environ.get(variable)
    if text is None:
        raise ConfigError(f"no {what}: pass {what}=, or set {variable} (`holdfast run` does)")
    try:
        return int(text)
    except ValueError:
        raise ConfigError(f"{variable} = {text!r}; accepted: a whole number") from None


def _store(method: str, rank: int, size: int, timeout_s: float) -> Any:
    if method == "env://":
        method = os.environ.get("HOLDFAST_STORE", "") or _master()
    address = urlparse(method)
    if address.scheme == "file" and address.path:
        return DirectoryStore(address.path)
    if address.scheme == "tcp" and address.hostname and address.port:
        return _tcp_store(address.hostname, address.port, rank, size, timeout_s)
    raise ConfigError(f"init_method = {method!r}; accepted: {_METHODS}")


def _master() -> str:
    try:
        return f"tcp://{os.environ['MASTER_ADDR']}:{os.environ['MASTER_PORT']}"
    except KeyError as missing:
        raise ConfigError(
            f"env://: {missing.args[0]} is not set, nor is HOLDFAST_STORE; start the ranks with "
            f"`holdfast run`, or pass init_method: {_METHODS}"
        ) from None


def _tcp_store(host: str, port: int, rank: int, size: int, timeout_s: float) -> Any:
    try:
        from torch.distributed import TCPStore
    except ImportError:
        raise ConfigError(
            "a tcp:// store is torch's, and torch is not installed; use file:///directory on a "
            "file system that all ranks share, or install torch"
        ) from None
    limit = timedelta(seconds=timeout_s)
    return TCPStore(host, port, size, rank == 0, limit, wait_for_workers=False)
