"""`holdfast run --respawn` when no rank is left that a job could go on in."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

# Rank 0 kills all ranks, itself last, in as many lives as KILLS says.
BEGIN = """
import os, signal, sys
from pathlib import Path

def kill_all(rank, pids):
    life = len(list(Path().glob("killed-*")))
    if rank == 0 and life < int(os.environ["KILLS"]):
        Path(f"killed-{life}").touch()
        for pid in reversed(pids):
            os.kill(int(pid), signal.SIGKILL)
"""

GROUP = """
import holdfast, numpy as np

with holdfast.init() as group:
    pids = np.zeros(group.size, np.int64)
    group.all_gather(pids, np.array([os.getpid()]))
    for _ in range(20):
        group.advance()
        group.all_reduce(np.ones(1000))
    kill_all(group.rank, pids)
    group.barrier()
    print("END", group.live_ranks, flush=True)
"""

TORCH = """
import torch, torch.distributed as dist

dist.init_process_group("holdfast")
pids = torch.zeros(dist.get_world_size(), dtype=torch.int64)
pids[dist.get_rank()] = os.getpid()
dist.all_reduce(pids)
kill_all(dist.get_rank(), pids)
dist.barrier()
print("END", dist.get_world_size(), flush=True)
dist.destroy_process_group()
"""


def run(
    script: str, ranks: int, folder: Path, *options: str, kills: int
) -> subprocess.CompletedProcess[str]:
    (folder / "job.py").write_text(BEGIN + script)
    command = [sys.executable, "-m", "holdfast.cli", "run", "-n", str(ranks), "--tag-output"]
    return subprocess.run(
        [*command, "--respawn", *options, "job.py"],
        cwd=folder,
        env={**os.environ, "KILLS": str(kills), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_ranks_that_all_die_at_once_are_all_started_again(tmp_path):
    """Twice, which two starts of each rank are enough for."""
    done = run(GROUP, 4, tmp_path, "--max-respawns", "2", kills=2)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("END (0, 1, 2, 3)") == 4, done.stdout
    assert done.stderr.count("all ranks are started again") == 2, done.stderr


def test_more_deaths_of_all_ranks_than_starts_end_the_job(tmp_path):
    done = run(GROUP, 4, tmp_path, "--max-respawns", "1", kills=2)
    assert done.returncode == 128 + 9, done.stdout + done.stderr
    assert done.stderr.count("all ranks are started again") == 1, done.stderr


def test_ranks_of_torch_that_all_die_at_once_meet_again(tmp_path):
    pytest.importorskip("torch", reason="waits for torch: the launcher keeps its store")
    done = run(TORCH, 2, tmp_path, kills=1)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("END 2") == 2, done.stdout


def test_ranks_that_fail_by_themselves_once_all_were_started_again_end_the_job(tmp_path):
    done = run("if Path('killed-0').exists(): sys.exit(3)\n" + GROUP, 3, tmp_path, kills=1)
    assert done.returncode == 3, done.stdout + done.stderr
    assert done.stderr.count("all ranks are started again") == 1, done.stderr
    assert "failed again at once" in done.stderr, done.stderr
