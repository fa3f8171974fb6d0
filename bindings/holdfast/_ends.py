"""What ties ranks to their launcher: they end with it, and it tells the others of their ends.

Where a job has a secret, nothing that anybody could send proves that a rank has ended. Whoever
started it knows: the system tells a process of its children's ends. Each rank's card names the
public key of its launcher, and the rank leaves word of where the others are; what the launcher
signs by that key is proof to them (native/secure/testimony.h).
"""

from __future__ import annotations

import contextlib
import ctypes
import ipaddress
import os
import selectors
import signal
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from holdfast import _core
from holdfast.errors import HoldfastError

_PR_SET_PDEATHSIG = 1  # linux/prctl.h
# The others of a rank are told for so long; one that is not reached by then waits for `grace`.
_TELLS_S = 5.0
# Connections at a time, of the descriptors that a process may have.
_AT_ONCE = 128

_Endpoint = tuple[str, int]


def die_with_launcher() -> Callable[[], None]:
    """Return what a rank does before its program: it asks to be killed when its launcher ends.

    A launcher that was killed can end nobody, and its ranks would run, or wait for each other, for
    ever. The system does it, when the thread that started the rank ends, which is the one that
    waits for all of them. It is not passed on to what the rank starts in its turn.
    """
    # Looked up here: between fork and exec there is no more than two system calls.
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    launcher = os.getpid()

    def ask() -> None:
        prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != launcher:  # which has ended before that
            os._exit(128 + signal.SIGKILL)

    return ask


class Witness:
    """Sees ranks end, and says so to those who must hear of it.

    Parameters
    ----------
    folder : path
        Where ranks leave word of who these are; it need not exist, and others must not write there.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._key: _core.WitnessKey | None = None
        # A build without OpenSSL has no job with a secret either.
        with contextlib.suppress(HoldfastError):
            self._key = _core.WitnessKey()
        folder.mkdir(mode=0o700, exist_ok=True)

    @property
    def environment(self) -> dict[str, str]:
        """What ranks are to have in their environment."""
        if self._key is None:
            return {}
        return {"HOLDFAST_WITNESS": f"{self._key.public_key}:{self._folder}"}

    def tell(self, pid: int) -> None:
        """Tell the others of a process that has ended, if it has not left in good order.

        What the process started itself has numbers of its own, and may run on.
        """
        if self._key is None:
            return
        for note in self._folder.glob(f"{pid}-*"):
            member = note.name.partition("-")[2]
            if not member.isdecimal():
                continue  # was being written
            said = self._key.testimony(int(member))
            _send(said, _endpoints(note.read_text(errors="replace")))
            note.unlink(missing_ok=True)


def _endpoints(text: str) -> Iterator[_Endpoint]:
    for line in text.splitlines():
        address, _, port = line.partition(" ")
        with contextlib.suppress(ValueError):
            ipaddress.ip_address(address.partition("%")[0])
            yield address, int(port)


def _call(to: _Endpoint) -> socket.socket | None:
    family = socket.AF_INET6 if ":" in to[0] else socket.AF_INET
    try:
        caller = socket.socket(family, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
    except OSError:
        return None
    try:
        caller.connect(to)
    except BlockingIOError:
        return caller
    except (OSError, OverflowError):
        caller.close()
        return None
    return caller


def _send(said: bytes, to: Iterator[_Endpoint]) -> None:
    """Send a short message to all of these, each over a connection of its own."""
    deadline = time.monotonic() + _TELLS_S
    with selectors.DefaultSelector() as calls:
        left: Sequence[_Endpoint] = list(dict.fromkeys(to))
        while left or calls.get_map():
            room = _AT_ONCE - len(calls.get_map())
            for endpoint in left[:room]:
                caller = _call(endpoint)
                if caller is not None:
                    calls.register(caller, selectors.EVENT_WRITE)
            left = left[room:]
            ready = calls.select(max(0.0, deadline - time.monotonic()))
            if not ready and (time.monotonic() >= deadline):
                break
            for key, _ in ready:
                _finish(calls, key.fileobj, said)
        for key in list(calls.get_map().values()):
            _finish(calls, key.fileobj, b"")


def _finish(calls: selectors.BaseSelector, caller: object, said: bytes) -> None:
    """Say it, which a new connection takes whole; one that was refused is closed as well."""
    assert isinstance(caller, socket.socket)
    calls.unregister(caller)
    with contextlib.suppress(OSError):
        if said:
            caller.send(said)
    caller.close()
