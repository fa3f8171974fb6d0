"""The keeper's process: its socket, a thread to each caller, and when it ends.

It ends when the job has ended well, or has been without a trainer for long enough. Whoever calls is
of the same user; a caller that says that it is the trainer is believed while no other one is.
"""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Callable

from holdfast import _process
from holdfast.comm.group import Group
from holdfast.errors import AuthFailed, HoldfastError, ProtocolError
from holdfast.ft.state.keeper import wire
from holdfast.ft.state.keeper.address import Address, refuse_others
from holdfast.ft.state.keeper.capture import may_read
from holdfast.ft.state.keeper.keeper import Keeper
from holdfast.ft.state.keeper.wire import Message
from holdfast.options import Options

VERSION = 3
_MOST_CALLERS = 16
# For the others to have what they need of this one.
_PARTING_S = 10.0
# How often it looks whether it is to end.
_LOOK_S = 0.5


class _Caller:
    """One connection."""

    def __init__(
        self, keeper: Keeper, connection: socket.socket, room: threading.Semaphore
    ) -> None:
        self._keeper, self._connection, self._room = keeper, connection, room
        self._lock = threading.Lock()  # guards sends: the worker's, and this thread's
        self._is_trainer = False

    def run(self) -> None:
        try:
            refuse_others(self._connection, "a caller of a keeper")
            while (message := wire.receive(self._connection)) is not None:
                if (answer := self._take(message)) is not None:
                    self.send(answer)
        except AuthFailed:
            pass  # nobody of ours: it is told nothing
        except HoldfastError as error:
            with contextlib.suppress(HoldfastError):
                self.send(_refusal(error))
        finally:
            if self._is_trainer:
                self._keeper.leave()
            self._connection.close()
            self._room.release()

    def send(self, message: Message) -> None:
        with self._lock:
            wire.send(self._connection, message)

    def _take(self, message: Message) -> Message | None:
        if message.kind == "hello":
            if message.number("version") != VERSION:
                raise ProtocolError(
                    f"a trainer of version {message.fields['version']} at a keeper of {VERSION}; "
                    "end the keeper: holdfast state stop"
                )
            self._keeper.arrive(self.send)
            self._is_trainer = True
            reads = may_read(message.number("process"), message.number("address"))
            return Message("welcome", {**self._keeper.status(), "reads": reads})
        if not self._is_trainer and message.kind not in ("status", "end"):
            raise ProtocolError(f"message {message.kind!r} before hello")
        return self._keeper.take(message)


def _refusal(error: HoldfastError) -> Message:
    return Message("failed", {"kind": type(error).__name__, "error": str(error)})


def serve(address: Address, options: Options, keep_for_s: float, begun: Callable[[], None]) -> None:
    """Be the keeper of an address until it ends; return at once where there is one already.

    Parameters
    ----------
    address : Address
        Where trainers find it.
    options : Options
        Of the group of keepers.
    keep_for_s : float
        Seconds without a trainer after which it ends.
    begun : callable
        Called once it can be found.
    """
    listener = address.take(_PARTING_S)
    if listener is None:
        return
    begun()

    def refuse_all() -> None:
        # The next life of the job finds nobody here, and starts a keeper of its own.
        with contextlib.suppress(OSError):
            listener.shutdown(socket.SHUT_RDWR)

    def join(store: object, name: str, rank: int, size: int, timeout_s: float) -> Group:
        node = _process.node(options)
        return Group(node.join(store, name, rank, size, timeout_s, options.timeout), node)

    keeper = Keeper(join, refuse_all)
    room = threading.Semaphore(_MOST_CALLERS)
    listener.settimeout(_LOOK_S)
    with listener:
        while not keeper.ended.is_set():
            left_at = keeper.left_at
            if left_at is not None and time.monotonic() - left_at > keep_for_s:
                return
            try:
                connection, _ = listener.accept()
            except TimeoutError:
                continue
            except OSError:
                break
            if not room.acquire(blocking=False):
                connection.close()
                continue
            connection.setblocking(True)
            caller = _Caller(keeper, connection, room)
            threading.Thread(target=caller.run, daemon=True).start()
    # The name is free by now, for the keeper of the next life.
    keeper.parted.wait(_PARTING_S)
