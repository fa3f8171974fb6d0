"""Processes that a test has started, and that end with it at the latest."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from ranks import kill

running: list[Any] = []


@pytest.fixture(autouse=True)
def nothing_stays() -> Iterator[None]:
    """A test that fails leaves nobody behind."""
    yield
    while running:
        process = running.pop()
        if process.poll() is None:
            kill(process)
            process.wait()
