"""How ranks of a fixed world find each other."""

from __future__ import annotations

import os
from datetime import timedelta
from typing import Any
from urllib.parse import unquote, urlparse

from holdfast import _process
from holdfast.comm.group import Group
from holdfast.comm.store import DirectoryStore
from holdfast.errors import ConfigError, SystemFailure, Timeout
from holdfast.options import Options

_METHODS = "env://, file:///directory, tcp://host:port"


def init(
    init_method: str | None = None,
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
    node = _process.node(options)
    if store is not None:
        native = node.join(store, name, rank, size, options.connect_timeout, options.timeout)
        group = Group(native, node)
        group._measure_first(options.measure)
        return group
    address = _address(init_method or "env://")
    meeting = _store(address, rank, size, options.connect_timeout)
    native = node.join(meeting, name, rank, size, options.connect_timeout, options.timeout)
    group = Group(native, node)
    if address.startswith("tcp:"):
        # Rank 0 keeps the store and may end as soon as this returns: by then nobody reads it.
        group.barrier(timeout=options.connect_timeout)
    group._measure_first(options.measure)
    return group


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


def _address(method: str) -> str:
    if method != "env://":
        return method
    address = os.environ.get("HOLDFAST_STORE", "")
    if address:
        return address
    try:
        host, port = os.environ["MASTER_ADDR"], os.environ["MASTER_PORT"]
    except KeyError as missing:
        raise ConfigError(
            f"env://: {missing.args[0]} is not set, nor is HOLDFAST_STORE; start the ranks with "
            f"`holdfast run`, or pass init_method: {_METHODS}"
        ) from None
    return f"tcp://[{host}]:{port}" if ":" in host else f"tcp://{host}:{port}"


def _store(method: str, rank: int, size: int, timeout_s: float) -> Any:
    try:
        address = urlparse(method)
        port = address.port
    except ValueError as error:
        raise ConfigError(f"init_method = {method!r} ({error}); accepted: {_METHODS}") from None
    if address.scheme == "file" and address.path and not address.netloc:
        return _directory(unquote(address.path))
    if address.scheme == "tcp" and address.hostname and port:
        host = address.hostname
        return _process.store(method, lambda: _tcp_store(host, port, rank, size, timeout_s))
    raise ConfigError(f"init_method = {method!r}; accepted: {_METHODS}")


def _directory(path: str) -> DirectoryStore:
    try:
        return DirectoryStore(path)
    except OSError as error:
        raise SystemFailure(f"init_method = 'file://{path}': {error}") from error


def _tcp_store(host: str, port: int, rank: int, size: int, timeout_s: float) -> Any:
    try:
        from torch.distributed import TCPStore
    except ImportError:
        raise ConfigError(
            "a tcp:// store is torch's, and torch is not installed; use file:///directory on a "
            "file system that all ranks share, or install torch"
        ) from None
    # Under torchrun its agent keeps the store.
    keeps = rank == 0 and os.environ.get("TORCHELASTIC_USE_AGENT_STORE") != "True"
    limit = timedelta(seconds=timeout_s)
    try:
        return TCPStore(host, port, size, keeps, limit, wait_for_workers=False, multi_tenant=True)
    except RuntimeError as error:
        first = str(error).partition("\n")[0]
        if keeps:
            raise SystemFailure(f"rank 0 cannot keep a store at {host}:{port}: {first}") from error
        raise Timeout(
            f"no store at {host}:{port} within {timeout_s:g} s (option connect_timeout), where "
            f"rank 0 should keep it: {first}",
            ranks=(0,),
        ) from error
