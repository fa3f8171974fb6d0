"""How a state stands: what is safe, what not and why, and what it has cost; /metrics shows it."""

from __future__ import annotations

import contextlib
import time
import warnings
from collections.abc import Iterator, Mapping
from typing import Any

from holdfast import _layer_metrics

_COUNTS = ("captured", "sent", "flushed", "damaged")


class Standing:
    """Of one rank's snapshots.

    Parameters
    ----------
    why : str
        Why the state is unprotected now.
    """

    def __init__(self, why: str) -> None:
        self.committed = -1
        self.unprotected = why
        self.waited_s = 0.0
        self._since = time.monotonic()  # it is unprotected
        self._taken_at = (-1, 0.0)  # the latest snapshot
        self._seen: dict[str, int] = {}  # of the keeper's counts
        self._flush_error = ""
        self._flushed = -1

    def begin(self, counts: Mapping[str, Any]) -> None:
        """Have a keeper, which has counted for others before."""
        self._seen = {name: int(counts[name]) for name in _COUNTS}
        _layer_metrics.expose_state(self.unprotected, time.monotonic() - self._since)

    def restored(self, step: int, source: str) -> None:
        """Take note that the state is that of a step, and where this rank's part came from."""
        _layer_metrics.restore(source)
        if source != "storage":
            self._commit(step, time.monotonic())

    def taken(self, step: int) -> None:
        """Take note of a snapshot that may be committed."""
        self._taken_at = (step, time.monotonic())

    def commit(self, step: int, counts: Mapping[str, Any]) -> None:
        """Take note that the keepers of all ranks have it, and of what this rank's has done."""
        taken, at = self._taken_at
        self._hear(counts)
        self._commit(step, at if taken == step else time.monotonic())
        if self._flush_error:
            self.lose(self._flush_error)

    def _commit(self, step: int, at: float) -> None:
        self.committed = step
        _layer_metrics.reach_state(False, step, time.monotonic() - at)
        if not self._flush_error:
            self.unprotected = ""
            _layer_metrics.expose_state("", 0.0)

    def _hear(self, counts: Mapping[str, Any]) -> None:
        grown = {name: max(0, int(counts[name]) - self._seen.get(name, 0)) for name in _COUNTS}
        self._seen = {name: int(counts[name]) for name in _COUNTS}
        _layer_metrics.count_state(**grown)
        self._flush_error = str(counts["flush_error"])
        if (step := int(counts["flushed_step"])) >= 0 and step != self._flushed:
            self._flushed = step
            _layer_metrics.reach_state(True, step, float(counts["flushed_age_s"]))

    def lose(self, why: str, counts: Mapping[str, Any] | None = None) -> None:
        """Go on without protection, and say so, once for each reason."""
        if counts is not None:
            self._hear(counts)
        if why != self.unprotected:
            have = "nothing" if self.committed < 0 else f"step {self.committed}"
            warnings.warn(
                f"the state is unprotected: {why}; keepers have {have}",
                RuntimeWarning,
                stacklevel=4,
            )
        if not self.unprotected:
            self._since = time.monotonic()
        self.unprotected = why
        _layer_metrics.expose_state(why, time.monotonic() - self._since)

    @contextlib.contextmanager
    def waiting(self) -> Iterator[None]:
        """Count the time until the end of the block as waited for the keeper."""
        begun = time.monotonic()
        try:
            yield
        finally:
            waited = time.monotonic() - begun
            self.waited_s += waited
            _layer_metrics.count_state(stalled=waited)

    def end(self) -> None:
        """Take no snapshots any more: nothing of it ages."""
        _layer_metrics.end_state()
