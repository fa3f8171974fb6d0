"""`holdfast respawn`: what its launcher sees of a program that dies, and `run`'s spares."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from waiting import eventually

from holdfast._supervise.respawn import environment_of, needs_store
from holdfast._supervise.spares import Spares

RESPAWN = [sys.executable, "-m", "holdfast.cli", "respawn"]
# Each life of the program says who it is, and what it was given.
LIVES = """
import os, signal, sys
from pathlib import Path
life = len(list(Path().glob("life-*")))
Path(f"life-{life}").write_text(str(os.getpid()))
print("LIFE", life, os.environ.get("RANK"), *sys.argv[1:], flush=True)
def die():
    os.kill(os.getpid(), signal.SIGKILL)
"""
# Says when it is there, and waits for signals.
WAITS = """
Path("waits.new").write_text(str(os.getpid()))
os.rename("waits.new", "waits")
while True:
    signal.pause()
"""


def start(folder: Path, script: str, *options: str, **env: str) -> subprocess.Popen[str]:
    (folder / "job.py").write_text(LIVES + script)
    return subprocess.Popen(
        [*RESPAWN, *options, "job.py", "--epochs", "3"],
        cwd=folder,
        env={**os.environ, **env},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def run(folder: Path, script: str, *options: str, **env: str) -> tuple[int, str]:
    process = start(folder, script, *options, **env)
    output, _ = process.communicate(timeout=60)
    return process.returncode, output


def test_a_program_that_is_killed_is_started_again_as_the_same_rank(tmp_path: Path) -> None:
    status, output = run(tmp_path, "if life < 2: die()", "--backoff", "0.1", RANK="3")
    assert status == 0, output
    said = [line for line in output.splitlines() if line.startswith("LIFE")]
    assert said == [f"LIFE {life} 3 --epochs 3" for life in range(3)]
    assert output.count("holdfast respawn: rank 3 was ended by SIGKILL") == 2, output
    # At once, and then not within 10 s of that any more.
    assert output.count("rank 3 is started again in 0.1 s") == 1, output


@pytest.mark.parametrize(
    ("script", "options", "status", "lives"),
    [
        ("sys.exit(3)", [], 3, 2),
        ("this is no Python", [], 1, 0),
        ("die()", ["--max-restarts", "1"], 128 + 9, 2),
        ("die()", ["--max-restarts", "0"], 128 + 9, 1),
        ("sys.exit(3)", ["--on", "signal"], 3, 1),
        ("die() if life == 0 else sys.exit(0)", ["--on", "signal"], 0, 2),
    ],
)
def test_what_dies_again_and_again_ends_with_its_status(
    script: str, options: list[str], status: int, lives: int, tmp_path: Path
) -> None:
    found, output = run(tmp_path, script, *options)
    assert found == status, output
    assert output.count("LIFE") == lives, output
    assert output.count("is started again") <= 1, output


def test_a_signal_reaches_the_program_once_and_ends_the_supervisor_with_its_status(
    tmp_path: Path,
) -> None:
    handler = """
def count(number, frame):
    # print may not be interrupted by itself.
    os.write(1, f"SIGNAL {signal.Signals(number).name}\\n".encode())
    if number == signal.SIGTERM:
        sys.exit(7)
signal.signal(signal.SIGTERM, count)
signal.signal(signal.SIGUSR1, count)
"""
    process = start(tmp_path, handler + WAITS)
    eventually((tmp_path / "waits").exists)
    # torchrun signals the worker's process group.
    os.killpg(process.pid, signal.SIGUSR1)
    assert process.stdout is not None
    lines = [process.stdout.readline()]
    while lines[-1] and "SIGUSR1" not in lines[-1]:
        lines.append(process.stdout.readline())
    # Of two that come at once either may be passed on first.
    os.killpg(process.pid, signal.SIGTERM)
    rest, _ = process.communicate(timeout=30)
    output = "".join(lines) + rest
    assert process.returncode == 7, output
    assert sorted(line for line in output.splitlines() if line.startswith("SIGNAL")) == [
        "SIGNAL SIGTERM",
        "SIGNAL SIGUSR1",
    ]
    assert output.count("LIFE") == 1, output


def test_a_supervisor_that_is_stopped_while_it_waits_starts_nothing_any_more(
    tmp_path: Path,
) -> None:
    process = start(tmp_path, "die()", "--backoff", "600")
    eventually((tmp_path / "life-1").exists)
    assert process.stdout is not None
    eventually(lambda: "is started again in 60 s" in process.stdout.readline())
    process.terminate()
    output, _ = process.communicate(timeout=10)
    assert process.returncode == 128 + 9, output
    assert not (tmp_path / "life-2").exists()


def test_a_supervisor_that_is_killed_takes_its_program_with_it(tmp_path: Path) -> None:
    process = start(tmp_path, "signal.signal(signal.SIGTERM, signal.SIG_IGN)" + WAITS)
    eventually((tmp_path / "waits").exists)
    stat = Path("/proc") / (tmp_path / "waits").read_text() / "stat"
    process.kill()
    process.communicate(timeout=10)
    eventually(lambda: not stat.exists() or stat.read_text().rpartition(")")[2].split()[0] in "ZX")


@pytest.mark.parametrize(
    ("options", "named"),
    [
        (["--max-restarts", "-1", "job.py"], "--max-restarts -1"),
        (["--backoff", "-2", "job.py"], "--backoff -2.0"),
        (["no-such.py"], "'no-such.py'"),
        ([], "nothing to run"),
    ],
)
def test_what_cannot_be_run_is_named(options: list[str], named: str, tmp_path: Path) -> None:
    (tmp_path / "job.py").touch()
    done = subprocess.run(
        [*RESPAWN, *options], cwd=tmp_path, capture_output=True, text=True, timeout=30, check=False
    )
    assert done.returncode == 2
    assert named in done.stderr


def test_the_variables_of_other_launchers_are_torchs() -> None:
    slurm = {"SLURM_PROCID": "2", "SLURM_NTASKS": "4", "SLURM_LOCALID": "0", "SLURM_JOB_ID": "9"}
    found = environment_of(slurm)
    assert [found[name] for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK")] == ["2", "4", "0"]
    assert found["HOLDFAST_JOB"] == "slurm-9"
    pod = environment_of({"JOB_COMPLETION_INDEX": "1", "WORLD_SIZE": "3"})
    assert (pod["RANK"], pod["WORLD_SIZE"]) == ("1", "3")
    assert "HOLDFAST_JOB" not in pod
    # Under torchrun in a job of Slurm's, torchrun's are right.
    assert environment_of({**slurm, "RANK": "7"})["RANK"] == "7"


def test_who_keeps_the_store_where_no_agent_does() -> None:
    pytest.importorskip("torch", reason="waits for torch: it is torch's store")
    place = {"MASTER_ADDR": "node0", "MASTER_PORT": "29500"}
    assert needs_store(place)
    assert not needs_store({**place, "TORCHELASTIC_USE_AGENT_STORE": "True"})
    assert not needs_store({"MASTER_ADDR": "node0"})


def test_a_spare_is_the_program_once_it_is_told_to(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "more.py").write_text("")
    (tmp_path / "job.py").write_text(
        "import os, sys\n"
        "there = [name in sys.modules for name in ('torch', 'holdfast', 'more')]\n"
        "print(there, os.environ['RANK'])\n"
        "print(sys.argv, __name__, sys.path[0], os.getcwd(), 'LEFT' in os.environ)\n"
        "sys.exit(5)\n"
    )
    pytest.importorskip("torch", reason="waits for torch, which a spare imports")
    env = {**os.environ, "OMP_NUM_THREADS": "1"}
    spares = Spares(1, ["job.py", "-x"], ["more"], {**env, "LEFT": "1"}, with_pipes=True)
    try:
        assert spares.tend() is None
        process = eventually(lambda: spares.take({**env, "RANK": "4"}), 60)
        # Another is made, but not while the first needs the processor.
        taken = time.monotonic()
        due = spares.tend()
        assert due is not None
        assert due > taken + 1.0
        assert spares.take(env) is None
        output, errors = process.communicate(timeout=30)
        assert process.returncode == 5, errors
        assert output.decode().splitlines() == [
            "[True, True, True] 4",
            f"['job.py', '-x'] __main__ {tmp_path} {tmp_path} False",
        ]
    finally:
        spares.close()


def test_a_spare_takes_over_from_a_rank_that_was_killed(tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="waits for torch, which a spare imports")
    # What spares import last.
    (tmp_path / "last_import.py").write_text("from pathlib import Path; Path('ready').touch()")
    (tmp_path / "job.py").write_text(
        "import os, signal, sys, time\n"
        "from pathlib import Path\n"
        "while not Path('ready').exists(): time.sleep(0.01)\n"
        "if os.environ['RANK'] == '1' and not Path('killed').exists():\n"
        "    time.sleep(1.0)  # the spare says that it is ready\n"
        "    Path('killed').touch()\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
        "while not Path('killed').exists(): time.sleep(0.01)\n"
        "while os.environ['RANK'] == '0' and not Path('over').exists(): time.sleep(0.01)\n"
        "Path('over').touch()\n"
        "print('END', 'torch' in sys.modules, flush=True)\n"
    )
    command = [sys.executable, "-m", "holdfast.cli", "run", "-n", "2", "--tag-output", "--respawn"]
    done = subprocess.run(
        [*command, "--spares", "1", "--spare-import", "last_import", "job.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "[1] END True" in done.stdout, done.stdout + done.stderr
    assert "[0] END False" in done.stdout
    assert done.stderr.count("rank 1 is started again") == 1, done.stderr


def test_spares_of_what_they_cannot_be_are_refused(tmp_path: Path) -> None:
    (tmp_path / "job.py").touch()
    command = [sys.executable, "-m", "holdfast.cli", "run", "-n", "2", "--spares", "1"]
    for options, named in ((["job.py"], "--respawn"), (["--respawn", "true"], "'")):
        done = subprocess.run(
            [*command, *options], cwd=tmp_path, capture_output=True, text=True, check=False
        )
        assert done.returncode == 2
        assert "--spares 1" in done.stderr
        assert named in done.stderr


def test_a_spare_ends_with_its_supervisor(tmp_path: Path) -> None:
    code = (
        "import os, signal\n"
        "from holdfast._supervise.spares import Spares\n"
        "spares = Spares(1, ['job.py'], [], dict(os.environ), with_pipes=False)\n"
        "spares.tend()\n"
        "print(spares._waiting[0][0].pid, flush=True)\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=30, check=False
    )
    assert done.returncode == -signal.SIGKILL, done.stderr
    stat = Path("/proc") / done.stdout.strip() / "stat"
    eventually(lambda: not stat.exists() or stat.read_text().rpartition(")")[2].split()[0] in "ZX")
