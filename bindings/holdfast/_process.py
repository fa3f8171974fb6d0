"""What a process owns: one runtime per set of options, its open groups, the stores it meets at.

Made on first use, closed at exit, of no use in a forked child.
"""

from __future__ import annotations

import atexit
import os
import threading
import weakref
from collections.abc import Callable
from dataclasses import replace
from typing import Protocol

from holdfast import _core, _layer_metrics, _one_host
from holdfast._stacks import Stacks
from holdfast.errors import HoldfastError
from holdfast.options import Options

# Ops that nobody waited for have this long at exit; the others may be waiting for them.
_LAST_OPS_S = 2.0


class _Open(Protocol):
    """A group, as long as it is open."""

    def _leave(self) -> None:
        """End what runs and leave; never raises, never waits long."""

    def _disown(self) -> None:
        """Forget the native group: it is the parent's."""


class _Process:
    def __init__(self) -> None:
        self._lock = threading.Lock()  # guards the tables
        # By the options that shape one, and its token.
        self._nodes: dict[tuple[Options, str], _core.Node] = {}
        self._groups: weakref.WeakSet[_Open] = weakref.WeakSet()
        self._stores: dict[str, object] = {}  # by address
        self._pool: _core.Pool | None = None
        self._stacks: Stacks | None = None
        self._endings: set[tuple[Callable[[], None], Callable[[], None]]] = set()
        self._pid = os.getpid()

    def check(self) -> None:
        """Refuse to work in a forked child whose parent had a runtime."""
        if os.getpid() != self._pid:
            raise HoldfastError(
                "Holdfast was used before this process was forked, and its threads did not come "
                "along: use the 'spawn' start method, or first use Holdfast in the child"
            )

    def add(self, group: _Open) -> None:
        """Close the group at exit, if it is still open."""
        with self._lock:
            self._groups.add(group)

    def get(self, options: Options, token: str) -> _core.Node:
        self.check()
        # Time limits belong to a group, not to the process.
        defaults = Options()
        alike = replace(options, timeout=defaults.timeout, connect_timeout=defaults.connect_timeout)
        key = (alike, token)
        with self._lock:
            if key not in self._nodes:
                native = _one_host.narrowed(options).native()
                if token:
                    native.set_token(token)
                self._nodes[key] = _core.Node.create(native, self._get_pool())
                _layer_metrics.listen(next(iter(self._nodes.values())))
                if options.http or options.flight_dir:
                    self._stacks = self._stacks or Stacks(options.flight_dir)
                    self._stacks.tell(self._nodes[key])
            return self._nodes[key]

    def _get_pool(self) -> _core.Pool:
        if self._pool is None:
            self._pool = _core.Pool()
        return self._pool

    def pool(self) -> _core.Pool:
        """Return the process's memory pool, made on first use."""
        self.check()
        with self._lock:
            return self._get_pool()

    def store(self, address: str, make: Callable[[], object]) -> object:
        """Return the store at an address: one until exit, for rank 0 keeps it for the others."""
        with self._lock:
            found = self._stores.get(address)
        if found is None:
            made = make()  # waits: not under the lock
            with self._lock:
                found = self._stores.setdefault(address, made)
        return found

    def metrics_texts(self) -> list[str]:
        """Return what each node of this process has counted, as OpenMetrics; none in a child."""
        if os.getpid() != self._pid:
            return []
        with self._lock:
            return [node.metrics_text(openmetrics=True) for node in self._nodes.values()]

    def forked(self) -> None:
        """Begin anew in a child, unless the parent's runtime already ran."""
        self._lock = threading.Lock()
        _layer_metrics.listen(None)
        for group in list(self._groups):
            group._disown()
        if self._stacks is not None:
            self._stacks.forked()
        if not self._nodes:
            self._pid = os.getpid()
            self._pool = None

    def at_end(self, before: Callable[[], None], after: Callable[[], None]) -> None:
        """Call these at exit, around the closing; once, however often it is said."""
        with self._lock:
            self._endings.add((before, after))

    def renew(self) -> None:
        """Have this process be another member from now on: it was voted out of its groups."""
        self.check()
        with self._lock:
            nodes = list(self._nodes.values())
            self._nodes.clear()
        for group in list(self._groups):
            group._leave()
        for node in nodes:
            node.close(_LAST_OPS_S)
        _layer_metrics.listen(None)
        _core.begin_anew()

    def close(self) -> None:
        """Close everything while callbacks still find an interpreter."""
        if os.getpid() != self._pid:
            return
        for before, _ in self._endings:
            before()
        for group in list(self._groups):
            group._leave()
        for node in self._nodes.values():
            node.close(_LAST_OPS_S)
        for _, after in self._endings:
            after()
        _layer_metrics.listen(None)
        self._nodes.clear()
        self._stores.clear()
        if self._pool is not None:
            self._pool.unlink()


_process = _Process()
atexit.register(_process.close)
os.register_at_fork(after_in_child=_process.forked)

add = _process.add
at_end = _process.at_end
check = _process.check
pool = _process.pool
renew = _process.renew
store = _process.store
metrics_texts = _process.metrics_texts


def node(options: Options | None = None, token: str = "") -> _core.Node:
    """Return the process's node for these options.

    Parameters
    ----------
    options : Options, optional
        Default: from the environment.
    token : str
        By which its coordinator lets it in; empty: none, or that of option token_file.

    Returns
    -------
    _core.Node
        The node, made on first use.

    Raises
    ------
    HoldfastError
        In a forked child of a process that already used Holdfast.
    ConfigError
        When the options cannot be used.
    """
    return _process.get(Options.from_env() if options is None else options, token)


def node_capsule(options: Options | None = None) -> object:
    """Return the node as a capsule, for modules that are not built with nanobind.

    Parameters
    ----------
    options : Options, optional
        Default: from the environment.

    Returns
    -------
    object
        A PyCapsule named ``holdfast.Node``.
    """
    return node(options).capsule()
