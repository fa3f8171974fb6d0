"""After a rejoin ops go the way they went before the loss, whoever died, and whenever."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from ranks import finish, importing, kill, start_rank
from waiting import eventually

import holdfast

# The paths that an op's group and size have in one epoch.
Paths = dict[tuple[str, int], set[str]]


def environment(here: Path, **more: str) -> dict[str, str]:
    folder = here / "flight"
    folder.mkdir(exist_ok=True)
    return {"HOLDFAST_FLIGHT_DIR": str(folder), "HOLDFAST_TIMEOUT": "20", **more}


def run_groups(size: int, here: Path, **more: str) -> None:
    """Run a world whose killed ranks are started again at once, until all have ended well."""
    env = environment(here, **more)
    processes = [start_rank("rejoin_ranks", "by_group", r, size, here, env) for r in range(size)]

    def all_ended() -> bool:
        for rank, process in enumerate(processes):
            if process.poll() == -signal.SIGKILL:
                process.wait()
                processes[rank] = start_rank("rejoin_ranks", "by_group", rank, size, here, env)
        return all(process.poll() is not None for process in processes)

    try:
        eventually(all_ended, timeout_s=60)
    finally:
        outcomes = finish(processes, 1)
    for outcome in outcomes:
        assert outcome.status == 0, [o.output for o in outcomes]


def run_torch(size: int, here: Path, **more: str) -> None:
    script = here / "world.py"
    script.write_text(f"{importing('rejoin_ranks')}; rejoin_ranks.by_torch()\n")
    command = [sys.executable, "-m", "holdfast.cli", "run", "-n", str(size), "--respawn"]
    done = subprocess.run(
        [*command, "world.py"],
        cwd=here,
        env={**os.environ, "OMP_NUM_THREADS": "1", **environment(here, **more)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def full_epochs(here: Path) -> set[tuple[int, int]]:
    """Epoch and process, for every process that saw all ranks in that epoch."""
    names = [path.name.split("-") for path in here.glob("full-*")]
    return {(int(epoch), int(pid)) for _, epoch, pid in names}


def paths_by_epoch(here: Path) -> dict[int, Paths]:
    """What carried the ops of the epochs in which all ranks were there, by all ranks' records.

    Each process says for itself in which epochs it saw all ranks: where all have died, a new world
    counts its epochs from 1 again.
    """
    full = full_epochs(here)
    found: dict[int, Paths] = {epoch: {} for epoch in sorted({e for e, _ in full})}
    for path in (here / "flight").glob("*.flight"):
        record = holdfast.read_flight(str(path))
        for entry in record["entries"]:
            seen_full = (entry["epoch"], record["pid"]) in full
            if not seen_full or entry["path"] in ("none", "repair"):
                continue
            key = (record["groups"][entry["group"]], entry["bytes"])
            found[entry["epoch"]].setdefault(key, set()).add(entry["path"])
    return found


def require_same_paths(here: Path, rejoins: int) -> None:
    found = paths_by_epoch(here)
    assert len(found) > rejoins, found
    assert {"flat", "slices"} == {path for paths in found[1].values() for path in paths}, found
    for epoch, paths in found.items():
        assert paths == found[1], f"epoch {epoch}"


def test_ops_go_the_same_way_after_every_rejoin(tmp_path):
    run_groups(3, tmp_path, STEPS="16", KILLS="4:1 8:0 12:0")
    require_same_paths(tmp_path, 3)


def test_torch_groups_go_the_same_way_after_a_rejoin(tmp_path):
    pytest.importorskip("torch")
    run_torch(3, tmp_path, STEPS="6", KILLS="3:0")
    require_same_paths(tmp_path, 1)


def left_in_memory(here: Path) -> set[str]:
    """Names in shared memory that the ranks of this world, dead or ended, have made."""
    pids = {path.name.split("-")[1] for path in (here / "flight").glob("*.flight")}
    return {p.name for p in Path("/dev/shm").glob("holdfast.*") if p.name.split(".")[3] in pids}


def test_ranks_that_die_on_arrival_or_right_after_it_harm_nobody(tmp_path):
    kills = "3:0 4:1 4:2 5:0 6:2 6:1"
    run_groups(3, tmp_path, STEPS="12", KILLS=kills, DEATHS_ON_ARRIVAL="6")
    found = paths_by_epoch(tmp_path)
    assert found[max(found)] == found[1], found
    assert left_in_memory(tmp_path) == set()


def test_the_paths_are_off_while_a_rank_is_on_another_host(tmp_path):
    env = environment(tmp_path, STEPS="100000")

    def run(rank: int, host: str) -> subprocess.Popen[str]:
        here = {"HOLDFAST_HOST_ID": host, "HOLDFAST_ADDRESS": "127.0.0.1"}
        return start_rank("rejoin_ranks", "by_group", rank, 3, tmp_path, {**env, **here})

    def await_epoch(after: int) -> int:
        """Wait until all ranks are there in a later epoch."""

        def newest() -> int:
            return max((epoch for epoch, _ in full_epochs(tmp_path)), default=0)

        eventually(lambda: newest() > after)
        return newest()

    processes = [run(rank, "a") for rank in range(3)]
    home = await_epoch(0)
    for host in ("b", "a"):
        kill(processes[2])
        processes[2].wait()
        processes[2] = run(2, host)
        if host == "b":
            away = await_epoch(home)
        else:
            back = await_epoch(away)
    (tmp_path / "stop").touch()
    for outcome in finish(processes, 40):
        assert outcome.status == 0, outcome.output
    found = paths_by_epoch(tmp_path)
    assert {path for paths in found[away].values() for path in paths} == {"schedule"}
    assert found[back] == found[home], found
