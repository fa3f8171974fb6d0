"""Pages of processes that are in a network namespace, on its loopback."""

from __future__ import annotations

import subprocess
import sys

_GET = "import sys, urllib.request as r; print(r.urlopen(sys.argv[1], timeout=20).read().decode())"


def page_inside(inside: tuple[str, ...], port: int, name: str) -> str:
    """What the page says; `inside`: a command that runs the rest of its arguments there."""
    command = [*inside, sys.executable, "-c", _GET, f"http://127.0.0.1:{port}/{name}"]
    return subprocess.run(command, capture_output=True, text=True, timeout=30, check=True).stdout
