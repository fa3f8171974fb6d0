"""A flush that is killed at any instant: the newest state that was committed is there and whole.

By one process, and by keepers, which agree on what is a state.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from pathlib import Path

from flush_process import body_of
from keeper_flush import BYTES, Ranks, lose_power, newest_manifest, newest_there
from waiting import eventually

from holdfast.ft.state.files import flush
from holdfast.ft.state.files.schemes import place

# STATE_KILLS=100 by hand takes some minutes.
KILLS = int(os.environ.get("STATE_KILLS", "12"))
KEEPER_KILLS = 10
PROGRAM = Path(__file__).with_name("flush_process.py")


def test_the_newest_state_that_verifies_is_there_after_kills_at_random_instants(tmp_path):
    chance = random.Random(29)
    root = place(f"file://{tmp_path}/run")
    committed = 0
    for _ in range(KILLS):
        command = [sys.executable, str(PROGRAM), f"{tmp_path}/run", str(committed + 1)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            # Killed some time after the first commit, which is when it has started for certain.
            line = process.stdout.readline()
            try:
                process.wait(chance.uniform(0, 0.3))
            except subprocess.TimeoutExpired:
                process.kill()
            said = [line, *process.stdout.readlines()]
        committed = max(committed, *(int(text) for text in said if text.endswith("\n")))
        saved = flush.newest(root, "job")
        assert saved is not None
        # It may have been killed between the commit and its telling.
        assert saved.manifest.step in (committed, committed + 1)
        committed = saved.manifest.step
        for rank in range(2):
            assert saved.body(rank) == body_of(rank, committed).tobytes()


def test_keepers_that_flush_to_their_own_disks_leave_the_newest_state_when_power_is_lost(tmp_path):
    chance = random.Random(31)
    newest = 0
    for number in range(KEEPER_KILLS):
        job = f"{tmp_path}-{number}"
        committed = lose_power(tmp_path, job, newest + 1, chance, 0.4)
        step, wrong = newest_there(tmp_path, 2)
        assert wrong == ""
        assert step == newest_manifest(tmp_path)
        assert newest <= step <= committed + 1
        newest = step
    assert newest > 0


def test_a_job_whose_trainers_die_with_a_host_is_flushed_by_the_keepers_that_are_left(tmp_path):
    ranks = Ranks(tmp_path, f"{tmp_path}", len(BYTES), 1, 0)
    for step in (1, 2):
        assert all(one["committed"] for one in ranks.take(step))
    os.kill(ranks.keepers[0], signal.SIGKILL)
    ranks.leave()
    eventually(lambda: len([*tmp_path.glob("disk[12]/*/manifest.json")]) == 2, 60)
    assert not (tmp_path / "disk0").exists()
    assert newest_there(tmp_path, len(BYTES)) == (2, "")
    for keeper in ranks.keepers[1:]:
        os.kill(keeper, signal.SIGKILL)
