"""What one rank sends of its state in a sync."""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor

from holdfast import _layer_metrics
from holdfast.comm.state.chunks import State
from holdfast.comm.state.messages import Messages
from holdfast.errors import PeerLost

# Of a sender whose state is in a GPU's memory: bounds the host memory that its copies take.
_COPIES_AT_ONCE = 8

# Bytes, and what waits until they have gone.
_Send = tuple[int, Callable[[], object]]


class StateSender:
    """Runs on their way to others.

    What lies in host memory is sent from there, all at once. What lies on a GPU is copied down
    first, a few runs at a time, by a thread that sees one gone before it copies another: the
    others' runs may have to come in before ours can go.

    Parameters
    ----------
    messages : Messages
        Of the group.
    state : State
        What is given of.
    """

    def __init__(self, messages: Messages, state: State) -> None:
        self._messages = messages
        self._state = state
        self._sends: deque[_Send] = deque()
        self._thread: ThreadPoolExecutor | None = None
        self._copying: Future[None] | None = None
        self._stopped = False

    def give(self, runs: Sequence[tuple[int, list[int]]]) -> None:
        """Start to send runs of chunks.

        Parameters
        ----------
        runs : sequence of (int, list of int)
            Rank and numbers of chunks, in the order in which that rank receives them.
        """
        if runs and self._state.on_device:
            self._thread = ThreadPoolExecutor(1, "holdfast-sync")
            self._copying = self._thread.submit(self._give, runs, _COPIES_AT_ONCE)
        else:
            self._give(runs, len(runs))

    def _give(self, runs: Sequence[tuple[int, list[int]]], at_once: int) -> None:
        for to, run in runs:
            if self._stopped:
                return
            if len(self._sends) == at_once:
                self._see_gone()
            size = self._state.span(run)[1]
            room = self._state.lend(run)
            wait = self._messages.send(to, room.address, size, room.owner)
            self._sends.append((size, wait))

    def _see_gone(self) -> None:
        size, wait = self._sends.popleft()
        # Whom it was for is no member any more.
        with contextlib.suppress(PeerLost):
            wait()
            _layer_metrics.sync(sent=size)

    def settle(self) -> None:
        """Wait until all has gone."""
        if self._copying is not None and self._thread is not None:
            copying, self._copying = self._copying, None
            self._thread.shutdown()
            copying.result()
        while self._sends:
            self._see_gone()

    def stop(self) -> None:
        """Copy and send nothing more; what is under way ends by itself."""
        self._stopped = True
        if self._thread is not None:
            self._thread.shutdown(wait=False)
