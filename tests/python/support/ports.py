"""Ports for servers that a test starts, which are told their port and cannot choose one themselves.

Who binds port 0, looks and closes leaves the port to whoever asks the system next: it may be taken
when the server comes to it. Here the socket stays bound, without listening. The system then gives
the port to nobody, as the source of a connection neither, and refuses those who connect; a server
that asks for this very port gets it, as both sides set SO_REUSEADDR and only one of them listens.
"""

from __future__ import annotations

import socket

# Until the process ends: a server may come back to its port.
_held: list[socket.socket] = []


def held_port() -> int:
    """Return a port of this host that nobody listens on, and that only who is told of it takes."""
    holder = socket.socket()
    holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    holder.bind(("127.0.0.1", 0))
    _held.append(holder)
    return int(holder.getsockname()[1])
