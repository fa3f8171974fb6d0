"""kill -9 in the middle of everything: no hang, no wrong byte, all survivors agree."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import pytest
from ranks import finish, importing, kill, start_rank
from ucx_library import UCX, needs_ucx
from waiting import eventually

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
            if collective != "all_to_all"
            else json.dumps(log[step]["outcome"])
            for log in logs.values()
        }
        assert len(told) == 1, f"step {step}: {told}"
    return last


def lose_some(seed: int, transports: list[str], here: Path) -> None:
    """Kill some of four or eight ranks, as the seed says; the others must agree."""
    choose = random.Random(1000 + seed)
    size = choose.choice([4, 8])
    collective = choose.choice(["all_reduce", "all_to_all", "all_gather"])
    sizes = [4096, 65536, 1 << 20, 16 << 20]
    env = {
        "HOLDFAST_TRANSPORTS": choose.choice(transports),
        "COLLECTIVE": collective,
        "BYTES": str(choose.choice(sizes if size == 8 else [*sizes, 64 << 20])),
    }
    kills, at_once = choose.randint(1, size - 1), choose.choice([1, 1, 2])
    processes = start(size, here, env)
    alive = list(range(size))
    while size - len(alive) < kills:
        time.sleep(choose.uniform(0.02, 0.4))
        for victim in choose.sample(alive, min(at_once, kills - (size - len(alive)))):
            alive.remove(victim)
            kill(processes[victim])
    time.sleep(0.3)
    (here / "stop").touch()
    outcomes = finish(processes, 40)
    for rank in alive:
        assert outcomes[rank].status == 0, f"{env}\n{outcomes[rank].output}"
    agree(here, alive, collective)


@pytest.mark.parametrize("seed", range(WORLDS))
def test_survivors_agree_whoever_is_killed(seed, tmp_path):
    lose_some(seed, ["shm", "tcp"], tmp_path)


@needs_ucx
@pytest.mark.parametrize("seed", range(max(2, WORLDS // 5)))
def test_survivors_agree_whoever_is_killed_over_ucx(seed, tmp_path):
    lose_some(seed, ["ucx"], tmp_path)


@pytest.mark.parametrize("transport", ["shm", "tcp", UCX])
def test_a_rank_that_was_stopped_for_too_long_is_told_that_it_was_voted_out(transport, tmp_path):
    env = {
        "HOLDFAST_TRANSPORTS": transport,
        "COLLECTIVE": "all_reduce",
        "BYTES": "65536",
        "HOLDFAST_SILENCE": "4",
    }
    processes = start(4, tmp_path, env)
    processes[2].send_signal(signal.SIGSTOP)
    assert processes[0].stdout is not None
    while "lost rank 2" not in (line := processes[0].stdout.readline()):
        assert line, "rank 0 ended before it lost rank 2"
    processes[2].send_signal(signal.SIGCONT)
    (voted_out,) = finish([processes.pop(2)], 40)
    assert voted_out.status != 0
    assert "NotMember" in voted_out.output, voted_out.output
    (tmp_path / "stop").touch()
    for outcome in finish(processes, 40):
        assert outcome.status == 0, outcome.output
    agree(tmp_path, [0, 1, 3], "all_reduce")


@pytest.mark.parametrize("transport", ["shm", "tcp", UCX])
def test_a_restarted_rank_takes_its_place_again(transport, tmp_path):
    env = {"HOLDFAST_TRANSPORTS": transport, "STEPS": "400"}

    def run(rank: int) -> subprocess.Popen[str]:
        return start_rank("churn_ranks", "step_with_newcomers", rank, 4, tmp_path, env)

    processes = [run(rank) for rank in range(4)]
    for victim in (2, 0):
        assert processes[victim].stdout is not None
        assert "ready" in processes[victim].stdout.readline()
        time.sleep(0.4)
        kill(processes[victim])
        processes[victim].wait()
        processes[victim] = run(victim)
    outcomes = finish(processes, 60)
    for outcome in outcomes:
        assert outcome.status == 0, outcome.output
    ends = {o.output[o.output.index("END") :].strip() for o in outcomes}
    assert len(ends) == 1, ends
    (step, _, total), live = json.loads(ends.pop().removeprefix("END"))
    assert (step, total, live) == (400, 0b1111, [0, 1, 2, 3])


def test_a_rank_that_is_taken_is_refused(tmp_path):
    env = {"STEPS": "2000", "HOLDFAST_HEARTBEAT": "0.05", "HOLDFAST_SILENCE": "4"}
    processes = [
        start_rank("churn_ranks", "step_with_newcomers", r, 3, tmp_path, env) for r in range(3)
    ]
    for process in processes:
        assert process.stdout is not None
        assert "ready" in process.stdout.readline()
    second = start_rank("churn_ranks", "step_with_newcomers", 1, 3, tmp_path, env)
    (refused,) = finish([second], 30)
    assert refused.status != 0
    assert "rank 1 is held by a live process" in refused.output, refused.output
    for process in processes:
        assert process.poll() is None
        process.kill()
        process.wait()


def test_a_rank_that_dies_before_the_group_has_begun_comes_back(tmp_path):
    env = {"STEPS": "20"}
    start = partial(start_rank, "churn_ranks", "step_with_newcomers")
    early = [start(r, 4, tmp_path, env) for r in (0, 1)]
    victim = start(2, 4, tmp_path, env)
    # The others have read its card, or will; nobody can begin without rank 3.
    eventually(lambda: len([*tmp_path.rglob("*card*")]) == 3)
    kill(victim)
    again = start(2, 4, tmp_path, env)
    for outcome in finish([*early, again, start(3, 4, tmp_path, env)], 30):
        assert outcome.status == 0, outcome.output
        assert "[0, 1, 2, 3]" in outcome.output, outcome.output


def test_a_rank_that_is_taken_before_the_group_has_begun_is_refused(tmp_path):
    env = {"STEPS": "100", "HOLDFAST_CONNECT_TIMEOUT": "20"}
    start = partial(start_rank, "churn_ranks", "step_with_newcomers")
    first = [start(r, 3, tmp_path, env) for r in (0, 1)]
    eventually(lambda: len([*tmp_path.rglob("*card*")]) == 2)
    (refused,) = finish([start(1, 3, tmp_path, env)], 30)
    assert refused.status != 0
    assert "rank 1 is held by a live process" in refused.output, refused.output
    for outcome in finish([*first, start(2, 3, tmp_path, env)], 30):
        assert outcome.status == 0, outcome.output


def test_a_rank_that_comes_after_the_job_has_ended_is_told_so(tmp_path):
    env = {"STEPS": "5", "HOLDFAST_CONNECT_TIMEOUT": "3"}
    first = [
        start_rank("churn_ranks", "step_with_newcomers", r, 2, tmp_path, env) for r in range(2)
    ]
    assert all(outcome.status == 0 for outcome in finish(first, 30))
    (late,) = finish([start_rank("churn_ranks", "step_with_newcomers", 1, 2, tmp_path, env)], 30)
    assert late.status != 0
    # The others may be started anew as well: it has waited for them.
    assert "1 of 2 ranks never came" in late.output, late.output
    assert "was started with this store before has ended" in late.output, late.output


def test_who_waits_for_a_job_that_ends_is_told(tmp_path):
    env = {"COLLECTIVE": "all_reduce", "BYTES": "4096", "HOLDFAST_CONNECT_TIMEOUT": "60"}
    processes = start(3, tmp_path, env)
    kill(processes.pop())
    late = start_rank("churn_ranks", "loop", 2, 3, tmp_path, {"LOG_DIR": str(tmp_path), **env})
    assert late.stdout is not None
    # These ranks never pass a boundary.
    while "waits for the others' next advance()" not in (line := late.stdout.readline()):
        assert line, "it has not waited"
    began = time.monotonic()
    (tmp_path / "stop").touch()
    assert all(outcome.status == 0 for outcome in finish(processes, 30))
    (outcome,) = finish([late], 60)
    assert "the job has ended" in outcome.output, outcome.output
    assert time.monotonic() - began < 30


# In the middle of steps, and while the ranks still meet.
@pytest.mark.parametrize("kill_after_s", ["1.0", "0.02"])
def test_holdfast_run_starts_a_killed_rank_again(kill_after_s, tmp_path):
    script = tmp_path / "train.py"
    script.write_text(
        f"{importing('churn_ranks')}; import os, signal, threading\n"
        "marker = 'killed'\n"
        "if os.environ['RANK'] == '2' and not os.path.exists(marker):\n"
        "    open(marker, 'w').close()\n"
        "    wait = float(os.environ['KILL_AFTER_S'])\n"
        "    threading.Timer(wait, os.kill, (os.getpid(), signal.SIGKILL)).start()\n"
        "churn_ranks.step_with_newcomers()\n"
    )
    command = [sys.executable, "-m", "holdfast.cli", "run", "-n", "4", "--tag-output", "--respawn"]
    done = subprocess.run(
        [*command, "train.py"],
        cwd=tmp_path,
        env={**os.environ, "STEPS": "500", "KILL_AFTER_S": kill_after_s},
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "rank 2 was ended by SIGKILL" in done.stderr
    assert "rank 2 is started again" in done.stderr
    ends = [line for line in done.stdout.splitlines() if "END" in line]
    assert len(ends) == 4
    assert all("[0, 1, 2, 3]" in line for line in ends), ends


def test_a_job_that_fails_everywhere_is_not_started_again_and_again(tmp_path):
    script = tmp_path / "fail.py"
    script.write_text("import sys; sys.exit(3)\n")
    command = [sys.executable, "-m", "holdfast.cli", "run", "-n", "3", "--respawn", str(script)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 3
    assert done.stderr.count("is started again") <= 3, done.stderr


def test_a_rank_that_fails_again_at_once_ends_the_job_however_slow_another_is(tmp_path):
    script = tmp_path / "fail.py"
    script.write_text(
        "import os, sys, time\nif os.environ['RANK'] == '1': time.sleep(20)\nsys.exit(3)\n"
    )
    command = [sys.executable, "-m", "holdfast.cli", "run", "-n", "2", "--grace", "0.1"]
    done = subprocess.run(
        [*command, "--respawn", str(script)],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert done.returncode == 3
    assert done.stderr.count("is started again") == 1, done.stderr
    assert "rank 0 failed again at once" in done.stderr
