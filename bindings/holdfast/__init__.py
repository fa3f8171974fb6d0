"""Holdfast: collective communication that keeps going when peers come and go.

``torch.distributed.init_process_group("holdfast")`` needs no import. For NumPy arrays or torch
tensors without torch.distributed, see :func:`holdfast.init` and :class:`holdfast.Group`.
"""

from holdfast.comm import DirectoryStore, Group, Work, init
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
    Unsupported,
)
from holdfast.options import Options

__version__ = "0.1.0"

__all__ = [
    "Aborted",
    "AuthFailed",
    "ConfigError",
    "DirectoryStore",
    "Group",
    "HoldfastError",
    "NotMember",
    "Options",
    "PeerLost",
    "ProtocolError",
    "SystemFailure",
    "Timeout",
    "Unsupported",
    "Work",
    "init",
]
