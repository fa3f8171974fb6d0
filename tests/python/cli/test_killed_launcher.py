"""A launcher that is killed with SIGKILL takes its ranks with it, whatever they are at."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from waiting import eventually

# Each rank says who it is, and then never ends by itself.
SLEEPS = """
import os, signal, sys
from pathlib import Path
signal.signal(signal.SIGTERM, signal.SIG_IGN)
Path(f"pid-{os.environ['RANK']}.new").write_text(str(os.getpid()))
os.rename(f"pid-{os.environ['RANK']}.new", f"pid-{os.environ['RANK']}")
while True:
    signal.pause()
"""
# In an op that another rank never calls; rank 1 has died, and come back.
WAITS = """
import os, signal, sys
from pathlib import Path
import holdfast, numpy as np
rank = os.environ["RANK"]
if rank == "1" and not Path("died").exists():
    Path("died").touch()
    os.kill(os.getpid(), signal.SIGKILL)
Path(f"pid-{rank}.new").write_text(str(os.getpid()))
os.rename(f"pid-{rank}.new", f"pid-{rank}")
group = holdfast.init()
group.all_reduce(np.ones(4))
"""
PROGRAM = """#!/bin/sh
echo $$ > pid-$RANK.new
mv pid-$RANK.new pid-$RANK
exec sleep 1000
"""


def is_running(pid: int) -> bool:
    """Say whether a process runs; one that nobody has waited for does not."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return stat.rpartition(")")[2].split()[0] not in "ZX"


@pytest.mark.parametrize(
    ("name", "text", "options"),
    [
        ("job.py", SLEEPS, []),
        ("job.py", SLEEPS, ["--tag-output"]),
        ("job.py", WAITS, ["--respawn"]),
        ("./job.sh", PROGRAM, []),
    ],
)
def test_ranks_end_with_a_launcher_that_is_killed(name, text, options, tmp_path) -> None:
    script = tmp_path / name
    script.write_text(text)
    script.chmod(0o755 if name.endswith(".sh") else 0o644)
    command = [sys.executable, "-m", "holdfast.cli", "run", "-n", "3", *options, name]
    environment = {**os.environ, "HOLDFAST_TIMEOUT": "600"}
    launcher = subprocess.Popen(
        command,
        cwd=tmp_path,
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        files = [tmp_path / f"pid-{rank}" for rank in range(3)]
        eventually(lambda: all(file.exists() for file in files))
        pids = [int(file.read_text()) for file in files]
        assert all(is_running(pid) for pid in pids)
    finally:
        launcher.send_signal(signal.SIGKILL)
        launcher.wait(timeout=30)
    eventually(lambda: not any(is_running(pid) for pid in pids))
