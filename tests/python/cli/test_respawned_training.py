"""Training under the users' launchers goes on from memory when a rank, or a node, is killed."""

from __future__ import annotations

import re
import shutil
import signal
import subprocess
import sys
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

import pytest
from ports import held_port
from ranks import importing
from test_launchers import TORCHRUN, beside
from waiting import eventually

pytest.importorskip("torch", reason="waits for torch: the backend is built against it")

STEPS, LIMIT_S = 8, 120
# The script beside this interpreter, as an activated environment finds it in PATH.
HOLDFAST = str(Path(sys.executable).parent / "holdfast")
RESPAWN = ["--no-python", HOLDFAST, "respawn"]


def start(folder: Path, command: Sequence[str], **env: str) -> subprocess.Popen[str]:
    """Start a launcher of two ranks with a keeper each, which mirror each other."""
    (folder / "marks").mkdir(exist_ok=True)
    (folder / "program.py").write_text(f"{importing('snapshot_ranks')}; snapshot_ranks.restarts()")
    own = {
        "MARKS": str(folder / "marks"),
        "SPREAD": "fsdp",
        "STEPS": str(STEPS),
        "CODE": "1+1",
        "HOLDFAST_JOB": f"test-{folder}",
        "HOLDFAST_TIMEOUT": "60",
        **env,
    }
    return subprocess.Popen(
        [*command, "program.py"],
        cwd=folder,
        env=beside(own),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def finished(launchers: Sequence[subprocess.Popen[str]]) -> str:
    text = ""
    try:
        for launcher in launchers:
            output, _ = launcher.communicate(timeout=LIMIT_S)
            text += output
            assert launcher.returncode == 0, text
    finally:
        for launcher in launchers:
            launcher.kill()
    return text


def expect_all_steps(text: str) -> None:
    """All steps were done; those that were done twice came to the same bits."""
    found = defaultdict(set)
    # Two ranks without tags: a line may begin behind another one's.
    for step, loss, digest in re.findall(r"STEP (\d+) (\S+) ([0-9a-f]{16})", text):
        found[int(step)].add((loss, digest))
    assert sorted(found) == list(range(STEPS)), text
    # Each rank has a shard of its own.
    assert all(len(values) == 2 for values in found.values()), found


def calls_of(text: str) -> list[tuple[int, int]]:
    """Calls of the restartable function: its number in its process, and the step it begins with."""
    return sorted((int(n), int(s)) for n, s in re.findall(r"BEGINS (\d+) (\d+)", text))


def parents_of(text: str) -> list[tuple[str, str, str]]:
    return re.findall(r"PARENT (\d) (\d+) (\d+)", text)


def expect_one_new_process(text: str, rank: str) -> None:
    """Of the rank alone, and of the supervisor that it had."""
    lives = parents_of(text)
    assert len(lives) == 3, text
    assert len({parent for _, parent, _ in lives}) == 2, text
    assert len({process for r, _, process in lives if r == rank}) == 2, text
    assert text.count(f"holdfast respawn: rank {rank} is started again") == 1, text
    # One process stayed, and was called again; the newcomer begins where that one goes on.
    calls = calls_of(text)
    step = calls[-1][1]
    assert calls == [(0, 0), (0, 0), (0, step), (1, step)], text
    assert step in (4, 5), text


def test_torchrun_never_sees_that_a_rank_was_killed(tmp_path: Path) -> None:
    command = [*TORCHRUN, "--standalone", "--nproc-per-node", "2", *RESPAWN]
    text = finished([start(tmp_path, command, KILLS="trainer:1:5")])
    expect_all_steps(text)
    expect_one_new_process(text, "1")


def slurm(rank: int, port: int) -> dict[str, str]:
    """What srun sets, and what its user does."""
    place = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "SLURM_NTASKS": "2"}
    return {**place, "SLURM_PROCID": str(rank), "SLURM_LOCALID": str(rank)}


def test_rank_0_of_srun_comes_back_to_the_store_beside_its_supervisor(tmp_path: Path) -> None:
    port = held_port()
    command = [sys.executable, "-m", "holdfast.cli", "respawn"]
    ranks = [
        start(tmp_path, command, KILLS="trainer:0:5", **slurm(rank, port)) for rank in range(2)
    ]
    text = finished(ranks)
    expect_all_steps(text)
    expect_one_new_process(text, "0")


def test_a_real_srun_never_sees_that_a_rank_was_killed(tmp_path: Path) -> None:
    answers = (
        shutil.which("sinfo")
        and not subprocess.run(
            ["sinfo", "--noheader"], capture_output=True, timeout=20, check=False
        ).returncode
    )
    if not (shutil.which("srun") and answers):
        pytest.skip("waits for Slurm with a controller that answers")
    env = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(held_port()), "KILLS": "trainer:0:5"}
    command = ["srun", "--ntasks", "2", "--overcommit", RESPAWN[1], "respawn"]
    text = finished([start(tmp_path, command, **env)])
    expect_all_steps(text)
    expect_one_new_process(text, "0")


def listens_at(port: int) -> bool:
    """Say whether somebody does, without a call."""
    tables = [Path(f"/proc/net/{name}").read_text() for name in ("tcp", "tcp6")]
    rows = [line.split() for table in tables for line in table.splitlines()]
    return any(row[1].endswith(f":{port:04X}") and row[3] == "0A" for row in rows)


def test_a_node_of_torchruns_that_was_lost_comes_back_and_all_go_on_from_memory(
    tmp_path: Path,
) -> None:
    port = held_port()
    meeting = [
        *("--nnodes", "2", "--nproc-per-node", "1", "--max-restarts", "2"),
        *("--rdzv-backend", "c10d", "--rdzv-endpoint", f"127.0.0.1:{port}"),
        *("--rdzv-id", "nodes", "--monitor-interval", "0.1"),
        # Too short, and torchrun takes the first node for lost, too, and forgets it.
        *("--rdzv-conf", "keep_alive_interval=1,keep_alive_max_attempt=5"),
    ]
    # The agent, its worker and the worker's keeper: what a host has of a job.
    # With its store shared, torch 2.13's first agent does not tell a new one where that is.
    env = {"KILLS": "node:1:5", "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}

    def node(name: str) -> subprocess.Popen[str]:
        return start(tmp_path, [*TORCHRUN, *meeting], HOLDFAST_HOST_ID=name, **env)

    nodes = [node("a")]
    try:
        # The agent that listens first keeps the store, without which no agent goes on.
        eventually(lambda: listens_at(port), LIMIT_S)
        nodes.append(node("b"))
        # torchrun numbers nodes by address and process: the later one is the second, here.
        lost, _ = nodes[1].communicate(timeout=LIMIT_S)
        assert nodes[1].returncode == -signal.SIGKILL, lost
    except BaseException:
        for one in nodes:
            one.kill()
        raise
    nodes[1] = node("b")
    text = lost + finished(nodes)
    expect_all_steps(text)
    step = max(step for _, step in calls_of(text))
    assert step in (4, 5), text
    assert [begin for _, begin in calls_of(text)].count(step) >= 2, text
    # The first node's agent is the one that it was.
    parents = {parent for rank, parent, _ in parents_of(text) if rank == "0"}
    assert parents == {str(nodes[0].pid)}, text
