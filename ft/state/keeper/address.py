"""Where a rank's keeper is found: a socket of this host, by user, job, host and rank.

An abstract Unix socket: it has no file that could be left behind, and one network namespace is one
host. Both ends ask the kernel for the other's user, and speak to nobody else's.
"""

from __future__ import annotations

import os
import socket
import struct
import threading
import time
from typing import NamedTuple

import xxhash

from holdfast.errors import AuthFailed

_MOST_NAME = 255
# Between two looks at a name that is taken.
_TAKEN_S = 0.02
_CREDENTIALS = struct.Struct("3i")


class Address(NamedTuple):
    """Of one keeper.

    Parameters
    ----------
    job : str
        Name of the job, the same for all its ranks and all its lives.
    host : str
        Told apart from others on one machine; empty: the machine.
    rank : int
        In the job.
    """

    job: str
    host: str
    rank: int

    @property
    def name(self) -> bytes:
        """The socket's name."""
        # A hash: names of sockets end at 107 bytes.
        where = f"{os.getuid()}\n{self.job}\n{self.host}\n{self.rank}"
        return b"\0holdfast/keeper/" + xxhash.xxh3_128_hexdigest(where.encode()).encode()

    def listen(self) -> socket.socket | None:
        """Take the name; None where a keeper has it already."""
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            listener.bind(self.name)
        except OSError:
            listener.close()
            return None
        listener.listen(16)
        return listener

    def take(self, within_s: float) -> socket.socket | None:
        """Take the name, also of a keeper that is ending; None where one answers to it.

        Parameters
        ----------
        within_s : float
            Seconds to wait at most for the end of a keeper that does not answer any more.
        """
        begun, waiting = time.monotonic(), threading.Event()
        while (listener := self.listen()) is None:
            try:
                other = self.connect(within_s)
            except AuthFailed:
                return None
            if other is not None:
                other.close()
                return None
            if time.monotonic() - begun > within_s:
                return None
            waiting.wait(_TAKEN_S)
        return listener

    def connect(self, timeout_s: float) -> socket.socket | None:
        """Call the keeper; None where there is none.

        Parameters
        ----------
        timeout_s : float
            Of each later send and receive.

        Raises
        ------
        AuthFailed
            Another user's process has the name.
        """
        caller = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        caller.settimeout(timeout_s)
        try:
            caller.connect(self.name)
        except OSError:
            caller.close()
            return None
        try:
            refuse_others(caller, f"the keeper of job {self.job!r}, rank {self.rank}")
        except AuthFailed:
            caller.close()
            raise
        return caller


def refuse_others(connection: socket.socket, what: str) -> int:
    """Return the other end's process, if it is of this user.

    Parameters
    ----------
    connection : socket.socket
        A connected Unix socket.
    what : str
        What the other end should be, for the error.

    Raises
    ------
    AuthFailed
        It is another user's.
    """
    raw = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    pid, user, _ = _CREDENTIALS.unpack(raw)
    if user != os.getuid():
        raise AuthFailed(
            f"{what}: process {pid} at its socket is of user {user}; accepted: user "
            f"{os.getuid()}, whose job it is; end that process, or give the job another name "
            "(HOLDFAST_JOB)"
        )
    return int(pid)
