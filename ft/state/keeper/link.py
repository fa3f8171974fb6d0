"""A trainer's end of the connection to its keeper: finds it, or starts it, and speaks to it.

A thread takes what the keeper says, so that the keeper can ask the trainer's store while the
trainer computes. Another one sends what the system does not take at once: who trains never waits
for a keeper that reads nothing. No message waits without a limit.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import queue
import socket
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from holdfast import errors
from holdfast.errors import ConfigError, HoldfastError, ProtocolError, SystemFailure, Timeout
from holdfast.ft.state.keeper import far_store, wire
from holdfast.ft.state.keeper.address import Address
from holdfast.ft.state.keeper.serve import VERSION
from holdfast.ft.state.keeper.starting import Starter
from holdfast.ft.state.keeper.wire import Message

_PR_SET_PTRACER = 0x59616D61  # linux/prctl.h; of Yama
# Python, NumPy and the core are read from disk meanwhile.
_START_S = 30.0
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.005, 0.1
_SEND_S = _ANSWER_S = 30.0
# For what was sent to get there, when the connection is closed.
_LAST_S = 5.0
# The end of a process is known so soon.
_MISSED_S = 10.0


class KeeperLink:
    """A connection to a keeper.

    Parameters
    ----------
    connection : socket.socket
        Connected; owned from now on.
    store : object, optional
        With torch's methods, at which the trainers have met; used by a thread of this link.
    """

    def __init__(self, connection: socket.socket, store: Any = None) -> None:
        self._connection = connection
        self._store = store
        # Messages, or the rest of one, that the system did not take at once.
        self._outgoing: queue.SimpleQueue[tuple[Message | memoryview, threading.Event] | None]
        self._outgoing = queue.SimpleQueue()
        self._sending = threading.Lock()  # guards what is begun to be sent, and the next line
        self._unsent = 0  # of what is in the queue, or with the thread that sends
        self._lock = threading.Condition()  # guards what is below
        self._told: deque[Message] = deque()
        self._is_gone = False
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        self._writer = threading.Thread(target=self._write, daemon=True)
        self._writer.start()

    @classmethod
    def find(
        cls, address: Address, store: Any, keep_for_s: float, within_s: float = _START_S
    ) -> tuple[KeeperLink, Message]:
        """Call the rank's keeper, which is started where there is none, within so many seconds.

        Returns
        -------
        tuple of KeeperLink and Message
            And what the keeper has.

        Raises
        ------
        SystemFailure
            None could be started.
        ConfigError
            Another trainer is there.
        AuthFailed
            Another user's process is at its place.
        """
        with Starter(address, keep_for_s, within_s) as starter:
            return cls._call(address, store, starter, within_s)

    @classmethod
    def _call(
        cls, address: Address, store: Any, starter: Starter, within_s: float
    ) -> tuple[KeeperLink, Message]:
        begun, pause = time.monotonic(), _FIRST_PAUSE_S
        waiting, refused = threading.Event(), ""
        while (waited := time.monotonic() - begun) < within_s:
            connection = address.connect(_SEND_S)
            if connection is not None:
                connection.settimeout(None)
                link = cls(connection, store)
                try:
                    return link, link.hello(min(_ANSWER_S, max(within_s - waited, pause)))
                except ConfigError:
                    # A trainer that was killed a moment ago may not have been missed yet.
                    link.close()
                    if waited > _MISSED_S:
                        raise
                except (ProtocolError, SystemFailure, Timeout) as error:
                    # So may the keeper that this was.
                    link.close()
                    refused = str(error)
            else:
                starter.go(waited)
            waiting.wait(pause)
            pause = min(2 * pause, _LONGEST_PAUSE_S)
        raise SystemFailure(
            f"the keeper of job {address.job!r}, rank {address.rank}, has not come within "
            f"{within_s:g} s: {refused or starter.said or 'it says nothing'}"
        )

    def hello(self, timeout_s: float) -> Message:
        """Say who this is; return what the keeper has.

        Raises
        ------
        ConfigError
            Another trainer is there.
        """
        probe = ctypes.create_string_buffer(1)
        with contextlib.suppress(AttributeError):
            # By Yama a process may be read by its children's children, but not by its child.
            ctypes.CDLL(None).prctl(_PR_SET_PTRACER, self.process, 0, 0, 0)
        fields = {"version": VERSION, "process": os.getpid(), "address": ctypes.addressof(probe)}
        self.send(Message("hello", fields))
        return self.wait("welcome", timeout_s)

    @property
    def process(self) -> int:
        """The keeper's."""
        raw = self._connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
        return int.from_bytes(raw[:4], sys.byteorder)

    @property
    def is_gone(self) -> bool:
        """Whether the keeper has ended."""
        return self._is_gone

    def send(self, message: Message, within_s: float = 0.0) -> None:
        """Send a message; whoever waits for an answer hears that the keeper is gone.

        Parameters
        ----------
        message : Message
            Its descriptors may be closed afterwards.
        within_s : float
            Seconds to wait at most until the system has it, so that it arrives even if this process
            is killed; it is sent later where it does not.
        """
        with self._sending:
            rest = None if self._unsent else self._send_now(message)
            if rest is not None and not len(rest):
                return
            self._unsent += 1
            handed_over = threading.Event()
            if rest is None:
                own = tuple(os.dup(number) for number in message.descriptors)
                self._outgoing.put((replace(message, descriptors=own), handed_over))
            else:
                self._outgoing.put((rest, handed_over))
        if within_s > 0:
            handed_over.wait(within_s)

    def _send_now(self, message: Message) -> memoryview | None:
        """Send what the system takes at once; return what is left; None: all of it."""
        if self._connection.gettimeout() is not None:
            return None
        try:
            return wire.send_now(self._connection, message)
        except (HoldfastError, OSError):
            self._break()
            return memoryview(b"")

    def _break(self) -> None:
        """The keeper is gone: the reader notices, and tells."""
        with contextlib.suppress(OSError):
            self._connection.shutdown(socket.SHUT_RDWR)

    def _write(self) -> None:
        while (one := self._outgoing.get()) is not None:
            message, handed_over = one
            try:
                if isinstance(message, Message):
                    wire.send(self._connection, message)
                else:
                    self._connection.sendall(message)
            except (HoldfastError, OSError):
                self._break()
            finally:
                with self._sending:
                    self._unsent -= 1
                handed_over.set()
                if isinstance(message, Message):
                    wire.close_all(message.descriptors)

    def wait(self, kind: str, timeout_s: float, step: int | None = None) -> Message:
        """Wait for a message of a kind, and of a step where one is given; others stay.

        Raises
        ------
        Timeout
            It did not come.
        SystemFailure
            The keeper has ended.
        HoldfastError
            What the keeper could not do.
        """
        if (found := self.look(kind, timeout_s, step)) is None:
            raise Timeout(f"the keeper has not said {kind!r} within {timeout_s:g} s")
        return found

    def look(self, kind: str, timeout_s: float, step: int | None = None) -> Message | None:
        """Wait likewise; return None when the time has passed."""
        deadline = time.monotonic() + timeout_s
        with self._lock:
            while True:
                if (found := self._find(kind, step)) is not None:
                    return found
                if (failed := self._find("failed", None)) is not None:
                    raise _error(failed)
                if self._is_gone:
                    raise SystemFailure(f"the keeper has ended, before its message {kind!r}")
                left = deadline - time.monotonic()
                if left <= 0:
                    return None
                self._lock.wait(left)

    def poll(self, kind: str, step: int | None = None) -> Message | None:
        """Return a message of a kind that has come."""
        with self._lock:
            return self._find(kind, step)

    def close(self) -> None:
        """Go; the keeper stays."""
        self._outgoing.put(None)
        self._writer.join(_LAST_S)
        with contextlib.suppress(OSError):
            self._connection.shutdown(socket.SHUT_RDWR)
        self._reader.join(_SEND_S)
        self._writer.join(_LAST_S)
        self._connection.close()

    def _find(self, kind: str, step: int | None) -> Message | None:
        for message in self._told:
            if message.kind == kind and (step is None or message.fields.get("step") == step):
                self._told.remove(message)
                return message
        return None

    def _read(self) -> None:
        try:
            while (message := wire.receive(self._connection)) is not None:
                if message.kind == "store":
                    self.send(far_store.serve(self._store, message))
                    continue
                with self._lock:
                    self._told.append(message)
                    self._lock.notify_all()
        except (HoldfastError, OSError):
            pass  # as if it had ended
        with self._lock:
            self._is_gone = True
            self._lock.notify_all()


class Search:
    """Looks for a rank's keeper: again and again, but not all the time.

    Parameters
    ----------
    address : Address
        The keeper's.
    store : callable
        Returns one as `KeeperLink` takes it, for each.
    keep_for_s : float
        For which a keeper without a trainer stays.
    """

    def __init__(self, address: Address, store: Callable[[], Any], keep_for_s: float) -> None:
        self._address, self._store, self._keep_for_s = address, store, keep_for_s
        self._rests_until = 0.0

    def find(self, within_s: float = _START_S) -> tuple[KeeperLink, Message]:
        """As `KeeperLink.find`; SystemFailure at once for ten times as long as it was in vain."""
        if time.monotonic() < self._rests_until:
            raise SystemFailure("this rank's keeper was lost, and no other one could be started")
        self._rests_until = time.monotonic() + 11 * within_s
        found = KeeperLink.find(self._address, self._store(), self._keep_for_s, within_s)
        self._rests_until = 0.0
        return found


def _error(message: Message) -> HoldfastError:
    """Return the error that a keeper tells, of its own class."""
    kind = getattr(errors, str(message.fields.get("kind")), HoldfastError)
    is_ours = isinstance(kind, type) and issubclass(kind, HoldfastError)
    found: HoldfastError = (kind if is_ours else HoldfastError)(str(message.fields.get("error")))
    return found
