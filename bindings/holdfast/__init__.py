"""Holdfast: collective communication that keeps going when peers come and go.

``torch.distributed.init_process_group("holdfast")`` needs no import. For NumPy arrays or torch
tensors without torch.distributed, see :func:`holdfast.init` and :class:`holdfast.Group`.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from holdfast.errors import (
    Aborted,
    AuthFailed,
    ConfigError,
    HoldfastError,
    NotMember,
    PeerLost,
    ProtocolError,
    SystemFailure,
    Timeout,
    Unconfirmed,
    Unsupported,
)

if TYPE_CHECKING:
    from holdfast._core import read_flight
    from holdfast._ddp import average_gradients
    from holdfast._torch_calls import on_hole, priority
    from holdfast.comm import DirectoryStore, Group, Outcome, SyncReport, View, Work, init, join
    from holdfast.comm.mpi import from_mpi
    from holdfast.comm.pool import empty
    from holdfast.compress.codec import Codec
    from holdfast.options import Options
    from holdfast.torch import advance, live_ranks, outcome, sync

__version__ = "0.1.0"

__all__ = [
    "Aborted",
    "AuthFailed",
    "Codec",
    "ConfigError",
    "DirectoryStore",
    "Group",
    "HoldfastError",
    "NotMember",
    "Options",
    "Outcome",
    "PeerLost",
    "ProtocolError",
    "SyncReport",
    "SystemFailure",
    "Timeout",
    "Unconfirmed",
    "Unsupported",
    "View",
    "Work",
    "advance",
    "average_gradients",
    "empty",
    "from_mpi",
    "init",
    "join",
    "live_ranks",
    "on_hole",
    "outcome",
    "priority",
    "read_flight",
    "sync",
]

# These load the native core. Every `import torch` imports this package, to learn the backend's
# name: it must cost nothing there, and a core that cannot be loaded must not break it.
_ON_FIRST_USE = {
    "Codec": "holdfast.compress.codec",
    "DirectoryStore": "holdfast.comm",
    "Group": "holdfast.comm",
    "Outcome": "holdfast.comm",
    "SyncReport": "holdfast.comm",
    "View": "holdfast.comm",
    "Work": "holdfast.comm",
    "empty": "holdfast.comm.pool",
    "from_mpi": "holdfast.comm.mpi",
    "init": "holdfast.comm",
    "join": "holdfast.comm",
    "Options": "holdfast.options",
    "advance": "holdfast.torch",
    "average_gradients": "holdfast._ddp",
    "live_ranks": "holdfast.torch",
    "on_hole": "holdfast._torch_calls",
    "outcome": "holdfast.torch",
    "priority": "holdfast._torch_calls",
    "read_flight": "holdfast._core",
    "sync": "holdfast.torch",
}


# ``import holdfast`` is enough for ``holdfast.compress.X`` and ``holdfast.ft.X``.
_PACKAGES = ("compress", "ft")


def __getattr__(name: str) -> object:
    if name in _PACKAGES:
        return importlib.import_module(f"{__name__}.{name}")
    if name not in _ON_FIRST_USE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(_ON_FIRST_USE[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_ON_FIRST_USE, *_PACKAGES})
