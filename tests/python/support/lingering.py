"""Interpreters that end slowly, so that what still runs in them meets their end."""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections.abc import Callable

import holdfast


class _Slow:
    """Keeps the interpreter's finalization busy without its lock, as large programs do."""

    def __del__(self, sleep=time.sleep) -> None:
        sleep(0.4)


def linger() -> None:
    """Let this interpreter's end take a while."""
    sys.linger = _Slow()  # type: ignore[attr-defined]


def linger_while_threads_call(receive: Callable[[int], object]) -> None:
    """Return with threads that ask for the interpreter's lock all the time, also at its end."""
    linger()
    sys.setswitchinterval(1e-6)
    entered = threading.Semaphore(0)

    def call(tag: int) -> None:
        entered.release()
        while True:
            with contextlib.suppress(holdfast.HoldfastError):
                receive(tag)

    for tag in range(16):
        threading.Thread(target=call, args=(tag,), daemon=True).start()
        entered.acquire()
