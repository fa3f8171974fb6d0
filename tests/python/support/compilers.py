"""Compilers of C and C++: what a test waits for, and a call that tells what they complained of."""

from __future__ import annotations

import shutil
import subprocess

import pytest

needs_compiler = pytest.mark.skipif(shutil.which("cc") is None, reason="waits for a C compiler")
needs_cpp = pytest.mark.skipif(shutil.which("c++") is None, reason="waits for a C++ compiler")


def compiler(*command: str, seconds: float = 120) -> None:
    """Run a compiler's command; the test fails with its complaints where it does."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=seconds, check=False)
    assert done.returncode == 0, done.stderr[:4000]
