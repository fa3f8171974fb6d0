"""Snapshots of real training: whatever is killed, the rest has the bits of an undisturbed run."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest
from ranks import importing

RANKS, STEPS, LIMIT_S = 4, 12, 120


def job(
    here: Path,
    function: str,
    *arguments: str,
    module: str = "snapshot_ranks",
    ranks: int = RANKS,
    **env: str,
) -> str:
    """Run a job of `holdfast run` in a folder; its lines, with the ranks before them."""
    marks = here / "marks"
    marks.mkdir(exist_ok=True)
    (here / "program.py").write_text(f"{importing(module)}; {module}.{function}()")
    command = [sys.executable, "-m", "holdfast.cli", "run", "-n", str(ranks), "--tag-output"]
    whole = {
        **os.environ,
        "OMP_NUM_THREADS": "1",
        "MARKS": str(marks),
        "SPREAD": "fsdp",
        "HOLDFAST_JOB": f"test-{here}",
        **env,
    }
    found = subprocess.run(
        [*command, *arguments, "program.py"],
        cwd=here,
        env=whole,
        timeout=LIMIT_S,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
    )
    return found.stdout


def steps_of(output: str) -> dict[tuple[str, int], set[str]]:
    """By rank and step, what the step came to: loss and digest."""
    found = defaultdict(set)
    for line in output.splitlines():
        rank, word, *rest = line.split(" ") if line.count(" ") >= 2 else ("", "", "")
        if word == "STEP":
            found[rank, int(rest[0])].add(" ".join(rest[1:]))
    return found


def begins(output: str) -> list[int]:
    """Steps that lives began with, in the order of their lines."""
    return [int(line.split()[-1]) for line in output.splitlines() if " BEGINS " in line]


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, int], set[str]]:
    found = steps_of(job(tmp_path_factory.mktemp("undisturbed"), "trains"))
    assert len(found) == RANKS * STEPS
    return found


def test_a_job_that_is_killed_goes_on_from_its_keepers(tmp_path: Path, undisturbed: object) -> None:
    first = job(tmp_path, "trains", KILLS="trainer:2:7")
    second = job(tmp_path, "trains")
    assert begins(second) == [6] * RANKS, first + second
    assert steps_of(first + second) == undisturbed


def test_who_has_lost_a_peer_or_a_host_goes_on_in_its_own_process(
    tmp_path: Path, undisturbed: object
) -> None:
    kills = "trainer:2:4 host:0:8"
    output = job(tmp_path, "restarts", "--respawn", KILLS=kills, CODE="3+1")
    assert steps_of(output) == undisturbed, output
    # Three processes stayed for the first loss, and were called again; two for both.
    calls = [line.split()[-2] for line in output.splitlines() if " BEGINS " in line]
    assert sorted(calls) == ["0"] * 6 + ["1"] * 4 + ["2"] * 2, output
    assert min(step for step in begins(output) if step) >= 3


def test_a_loss_while_others_are_brought_back_has_all_meet_anew(
    tmp_path: Path, undisturbed: object
) -> None:
    # A trainer is lost in the first restore, a keeper alone in the second.
    losses = {
        "KILLS": "trainer:2:4 trainer:0:8",
        "AFTER": "trainer:3:trainer-2-4 keeper:1:trainer-0-8",
    }
    output = job(tmp_path, "restarts", "--respawn", CODE="3+1", **losses)
    assert steps_of(output) == undisturbed, output
    made = sorted(mark.name for mark in (tmp_path / "marks").iterdir())
    assert made == [
        "keeper-1-after-trainer-0-8",
        "trainer-0-8",
        "trainer-2-4",
        "trainer-3-after-trainer-2-4",
    ]


def test_what_a_lost_rank_owed_comes_back_with_it(tmp_path: Path) -> None:
    kind = {"SPREAD": "onebit", "HOLDFAST_ON_PEER_LOSS": "raise", "CODE": "3+1"}
    (tmp_path / "right").mkdir()
    (tmp_path / "killed").mkdir()
    right = steps_of(job(tmp_path / "right", "restarts", **kind))
    assert len(right) == RANKS * STEPS
    output = job(tmp_path / "killed", "restarts", "--respawn", KILLS="host:2:5", **kind)
    assert steps_of(output) == right, output
    assert max(begins(output)) >= 4, output


@pytest.mark.parametrize("code", ["", "3+1"])
def test_a_lost_keeper_costs_protection_until_the_next_snapshots(
    tmp_path: Path, undisturbed: object, code: str
) -> None:
    # What a loss means to trainers is nothing to keepers.
    meaning = {"HOLDFAST_ON_PEER_LOSS": "raise"} if code else {}
    output = job(tmp_path, "trains", KILLS="keeper:1:3", CODE=code, **meaning)
    assert steps_of(output) == undisturbed, output
    assert output.count("ENDS protected") == RANKS, output
    assert "the state is unprotected" in output


def test_what_keepers_have_lost_comes_from_the_newest_flushed_state_of_the_disks_that_are_left(
    tmp_path: Path, undisturbed: object
) -> None:
    flush = {"FLUSH": f"file://{tmp_path}/states/{{rank}}", "EVERY": "2", "CODE": "3+1"}
    # One host more than the code stands; one of them comes back with an empty disk.
    first = job(tmp_path, "trains", KILLS="host:0:9 host:1:9", **flush)
    shutil.rmtree(tmp_path / "states" / "1")
    second = job(tmp_path, "trains", **flush)
    assert steps_of(first + second) == undisturbed, first + second
    begun = begins(second)
    assert len(set(begun)) == 1, second
    # Flushed while training went on, which takes a few of these short steps.
    assert 2 <= begun[0] <= 9, second
    said = re.search(r"the state is that of step (\d+), .*: (\d+) steps are lost", second)
    assert said, second
    # The last step before the loss is known to the keepers that are left.
    assert int(said[1]) == begun[0]
    assert 8 <= int(said[1]) + int(said[2]) <= 9, said
    # The end of a job is flushed as well, and older states have gone.
    for rank in range(RANKS):
        (state,) = (tmp_path / "states" / str(rank)).iterdir()
        assert state.name.startswith(f"step-{STEPS:06}-epoch-"), state
        names = sorted(path.name for path in state.iterdir())
        mine = [f"rank-0000{rank}.parity", f"rank-0000{rank}.safetensors"]
        assert names == ["manifest.json", *mine], names


def test_a_state_that_nobody_has_any_more_is_an_error_everywhere(tmp_path: Path) -> None:
    lost = "host:0:5 host:1:5"
    first = job(tmp_path, "trains", KILLS=lost, CODE="3+1")
    assert begins(first) == [0] * RANKS
    second = job(tmp_path, "trains", CODE="3+1")
    assert second.count("SystemFailure: the state of job") == RANKS, second
    assert "holdfast state stop" in second
    stop = [sys.executable, "-m", "holdfast.cli", "state", "stop", "--job", f"test-{tmp_path}"]
    said = [
        subprocess.run(stop, check=True, text=True, stdout=subprocess.PIPE).stdout for _ in range(2)
    ]
    # Those that came in place of the lost ones had nothing, and ended by themselves.
    assert said[0].count("ended") == RANKS - 2, said
    assert "has no keepers on this host" in said[1], said
