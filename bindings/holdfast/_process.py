"""The process's one runtime per set of options: made on first use, closed at exit."""

from __future__ import annotations

import atexit
import os
import threading
from dataclasses import replace

from holdfast import _core
from holdfast.errors import HoldfastError
from holdfast.options import Options


class _Nodes:
    """The nodes of this process, by the options that shape one."""

    def __init__(self) -> None:
        self._lock = threading.Lock()  # guards _nodes
        self._nodes: dict[Options, _core.Node] = {}
        self._pid = os.getpid()

    def get(self, options: Options) -> _core.Node:
        if os.getpid() != self._pid:
            raise HoldfastError(
                "Holdfast was used before this process was forked, and its threads did not come "
                "along: use the 'spawn' start method, or first use Holdfast in the child"
            )
        # Time limits belong to a group, not to the process.
        defaults = Options()
        key = replace(options, timeout=defaults.timeout, connect_timeout=defaults.connect_timeout)
        with self._lock:
            if key not in self._nodes:
                self._nodes[key] = _core.Node.create(options.native())
            return self._nodes[key]

    def forked(self) -> None:
        """Begin anew in a child, unless the parent's runtime already ran."""
        self._lock = threading.Lock()
        if not self._nodes:
            self._pid = os.getpid()

    def close(self) -> None:
        if os.getpid() == self._pid:
            self._nodes.clear()


_nodes = _Nodes()
atexit.register(_nodes.close)
os.register_at_fork(after_in_child=_nodes.forked)


def node(options: Options | None = None) -> _core.Node:
    """Return the process's node for these options.

    Parameters
    ----------
    options : Options, optional
        Default: from the environment.

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
    return _nodes.get(Options.from_env() if options is None else options)


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
