"""kill -9 in the middle of everything: no hang, no wrong byte, all survivors agree."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import time
from pathlib import Path

import pytest
from ranks import finish, kill, start_rank

# The whole set is `CHURN_WORLDS=130`, more than 400 kills in about four minutes.
WORLDS = int(os.environ.get("CHURN_WORLDS", "10"))


def start(size: int, here: Path, env: dict[str, str]) -> list[subprocess.Popen[str]]:
    env = {"LOG_DIR": str(here), "HOLDFAST_TIMEOUT": "20", **env}
    processes = [start_rank("churn_ranks", "loop", r, size, here, env) for r in range(size)]
    for process in processes:
        assert process.stdout is not None
        while "ready" not in (line := process.stdout.readline()):
            assert line, "a rank ended before it was ready"
    return processes


def read(here: Path, rank: int) -> dict[int, dict[str, object]]:
    steps = {}
    for line in (here / f"rank{rank}.log").read_text().splitlines():
        entry = json.loads(line)
        steps[entry["step"]] = entry
    return steps


def agree(here: Path, alive: list[int], collective: str) -> int:
    """Require that the survivors' logs say the same; return the number of steps."""
    logs = {rank: read(here, rank) for rank in alive}
    last = max(logs[alive[0]])
    for step in range(last + 1):
        told = {
            json.dumps([log[step]["crc"], log[step]["outcome"]])
            if collective == "all_reduce"
            else json.dumps(log[step]["outcome"])
            for log in logs.values()
        }
        assert len(told) == 1, f"step {step}: {told}"
    return last


@pytest.mark.parametrize("seed", range(WORLDS))
def test_survivors_agree_whoever_is_killed(seed, tmp_path):
    choose = random.Random(1000 + seed)
    size = choose.choice([4, 8])
    collective = choose.choice(["all_reduce", "all_to_all"])
    sizes = [4096, 65536, 1 << 20, 16 << 20]
    env = {
        "HOLDFAST_TRANSPORTS": choose.choice(["shm", "tcp"]),
        "COLLECTIVE": collective,
        "BYTES": str(choose.choice(sizes if size == 8 else [*sizes, 64 << 20])),
    }
    kills, at_once = choose.randint(1, size - 1), choose.choice([1, 1, 2])
    processes = start(size, tmp_path, env)
    alive = list(range(size))
    while size - len(alive) < kills:
        time.sleep(choose.uniform(0.02, 0.4))
        for victim in choose.sample(alive, min(at_once, kills - (size - len(alive)))):
            alive.remove(victim)
            kill(processes[victim])
    time.sleep(0.3)
    (tmp_path / "stop").touch()
    outcomes = finish(processes, 40)
    for rank in alive:
        assert outcomes[rank].status == 0, f"{env}\n{outcomes[rank].output}"
    agree(tmp_path, alive, collective)


@pytest.mark.parametrize("transport", ["shm", "tcp"])
def test_a_rank_that_was_stopped_for_too_long_is_told_that_it_was_voted_out(transport, tmp_path):
    env = {
        "HOLDFAST_TRANSPORTS": transport,
        "COLLECTIVE": "all_reduce",
        "BYTES": "65536",
        "HOLDFAST_HEARTBEAT": "0.1",
    }
    processes = start(4, tmp_path, env)
    processes[2].send_signal(signal.SIGSTOP)
    time.sleep(2)
    processes[2].send_signal(signal.SIGCONT)
    time.sleep(0.5)
    (tmp_path / "stop").touch()
    outcomes = finish(processes, 40)
    assert outcomes[2].status != 0
    assert "NotMember" in outcomes[2].output, outcomes[2].output
    for rank in (0, 1, 3):
        assert outcomes[rank].status == 0, outcomes[rank].output
    agree(tmp_path, [0, 1, 3], "all_reduce")
