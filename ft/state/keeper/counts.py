"""What a keeper has done, in numbers, for its trainer to count; and what of a state is in files."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any


@dataclass(slots=True)
class Counts:
    """Of one keeper, since it began."""

    captured: int = 0
    """Bytes of parts that it has taken in."""
    sent: int = 0
    """Bytes for other keepers: to make parity, and to restore."""
    flushed: int = 0
    """Bytes of parts that are in files, as those of all ranks are."""
    damaged: int = 0
    """Tiles that had other bytes than were captured."""
    flushed_step: int = -1
    """Of the newest state in files; -1: there is none."""
    flush_error: str = ""
    """Why the last flush failed; empty: it did not."""
    _begun_at: float = 0.0  # of the flush that is under way
    _flushed_at: float = 0.0

    def flush_begun(self) -> None:
        """Take note that a snapshot, which was taken just now, is being written."""
        self._begun_at = time.monotonic()

    def flush_ended(self, step: int, nbytes: int, why: str) -> None:
        """Take note of what became of it; `why` is empty where it is in files."""
        self.flush_error = why and f"step {step} was not flushed: {why}"
        if not why:
            self.flushed += nbytes
            self.flushed_step, self._flushed_at = step, self._begun_at

    def told(self) -> dict[str, Any]:
        """Return what messages say."""
        return {
            "captured": self.captured,
            "sent": self.sent,
            "flushed": self.flushed,
            "damaged": self.damaged,
            "flushed_step": self.flushed_step,
            "flushed_age_s": time.monotonic() - self._flushed_at,
            "flush_error": self.flush_error,
        }
