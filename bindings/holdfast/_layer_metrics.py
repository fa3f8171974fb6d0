"""What the layers above the core tell the process's runtime to count; /metrics shows it.

Where there is no runtime, as in a program that compresses over another backend, nobody counts. Of a
process with several runtimes it is the first that is told.
"""

from __future__ import annotations

import math
import weakref
from typing import Protocol


class Counts(Protocol):
    """Who counts: a runtime."""

    def add_sync(
        self, sent: int = 0, received: int = 0, ended: int = 0, seconds: float = 0.0
    ) -> None:
        """Count bytes of a state that moved, syncs that ended, and seconds spent in them."""

    def add_saving(self, method: str, raw: int, wire: int) -> None:
        """Count bytes that a method would have sent as they are, and those that it did."""

    def set_residual_norm(self, method: str, norm: float) -> None:
        """Take note of the norm of all that a method has left out."""

    def add_state(
        self,
        stalled: float = 0.0,
        captured: int = 0,
        sent: int = 0,
        flushed: int = 0,
        damaged: int = 0,
    ) -> None:
        """Count seconds that training waited, bytes of snapshots, and tiles that were damaged."""

    def add_restore(self, source: str) -> None:
        """Count a restore, by where it came from."""

    def reach_state(self, flushed: bool, step: int, age: float) -> None:
        """Take note of the newest snapshot that is committed, or flushed, and its age."""

    def expose_state(self, why: str, age: float) -> None:
        """Take note why the state is unprotected, and for how long; empty: it is protected."""

    def end_state(self) -> None:
        """Take note that no snapshots are taken any more."""


class _LayerMetrics:
    def __init__(self) -> None:
        self._counts: Counts | None = None
        # Squares of residuals by method, and by their owner's id while it lives.
        self._squares: dict[str, dict[int, float]] = {}

    def listen(self, counts: Counts | None) -> None:
        """Tell these from now on; None: nobody."""
        self._counts = counts

    def sync(self, sent: int = 0, received: int = 0, ended: int = 0, seconds: float = 0.0) -> None:
        """Tell of bytes of a state that moved, syncs that ended, and seconds spent in them."""
        if (counts := self._counts) is not None:
            counts.add_sync(sent, received, ended, seconds)

    def saving(self, method: str, raw: int, wire: int) -> None:
        """Tell of bytes that this rank would have sent, and of those that it did."""
        if (counts := self._counts) is not None:
            counts.add_saving(method, raw, wire)

    def count_state(
        self,
        stalled: float = 0.0,
        captured: int = 0,
        sent: int = 0,
        flushed: int = 0,
        damaged: int = 0,
    ) -> None:
        """Tell of seconds that training waited, bytes of snapshots, and tiles that are damaged."""
        if (counts := self._counts) is not None:
            counts.add_state(stalled, captured, sent, flushed, damaged)

    def restore(self, source: str) -> None:
        """Tell of a restore: of a replica, the rank's keeper, decoded, or of storage."""
        if (counts := self._counts) is not None:
            counts.add_restore(source)

    def reach_state(self, flushed: bool, step: int, age: float) -> None:
        """Tell of the newest snapshot that is committed, or flushed, and its age in seconds."""
        if (counts := self._counts) is not None:
            counts.reach_state(flushed, step, age)

    def expose_state(self, why: str, age: float) -> None:
        """Tell why the state is unprotected, and for how long; empty: it is protected."""
        if (counts := self._counts) is not None:
            counts.expose_state(why, age)

    def end_state(self) -> None:
        """Tell that no snapshots are taken any more."""
        if (counts := self._counts) is not None:
            counts.end_state()

    def residual(self, method: str, owner: object, squares: float) -> None:
        """Tell of the sum of squares of all that `owner` keeps, until it is no more."""
        owners = self._squares.setdefault(method, {})
        if id(owner) not in owners:
            gone = weakref.finalize(owner, self._forget, method, id(owner))
            gone.atexit = False
        owners[id(owner)] = squares
        self._tell(method)

    def _forget(self, method: str, owner: int) -> None:
        self._squares[method].pop(owner, None)
        self._tell(method)

    # Without a lock: an owner may go at any moment, in any thread.
    def _tell(self, method: str) -> None:
        if (counts := self._counts) is not None:
            squares = sum(list(self._squares[method].values()))
            counts.set_residual_norm(method, math.sqrt(squares))


_metrics = _LayerMetrics()

listen = _metrics.listen
sync = _metrics.sync
saving = _metrics.saving
residual = _metrics.residual
count_state = _metrics.count_state
restore = _metrics.restore
reach_state = _metrics.reach_state
expose_state = _metrics.expose_state
end_state = _metrics.end_state
