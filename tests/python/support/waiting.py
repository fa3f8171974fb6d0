"""Waiting for what another process does, where it can only be asked again and again."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

WAIT_S = 30.0


def eventually(condition: Callable[[], Any], timeout_s: float = WAIT_S) -> Any:
    """The first value of `condition` that is true."""
    deadline = time.monotonic() + timeout_s
    while not (value := condition()):
        assert time.monotonic() < deadline, f"never came: {value!r}"
        time.sleep(0.02)
    return value
