"""`restartable`: who was voted out while it was well comes back without a new process."""

from __future__ import annotations

import re
import signal
from pathlib import Path

import pytest
from ports import held_port
from ranks import finish, start_rank

pytest.importorskip("torch", reason="waits for torch: it is torch's training that goes on")


def test_who_was_voted_out_while_it_was_well_comes_back_in_its_own_process(tmp_path: Path) -> None:
    (tmp_path / "marks").mkdir()
    env = {
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(held_port()),
        "HOLDFAST_JOB": f"test-{tmp_path}",
        "HOLDFAST_SILENCE": "3",
        "MARKS": str(tmp_path / "marks"),
        "SPREAD": "fsdp",
        "STEPS": "8",
        "CODE": "2+1",
        "KILLS": "stop:2:5",
    }
    processes = [start_rank("snapshot_ranks", "restarts", r, 3, tmp_path, env) for r in range(3)]
    first = processes[0].stdout
    assert first is not None
    before = []
    while "lost rank 2" not in (line := first.readline()):
        assert line, "rank 0 ended before it lost rank 2\n" + "".join(before)
        before.append(line)
    processes[2].send_signal(signal.SIGCONT)
    outcomes = finish(processes, 60)
    for outcome in outcomes:
        assert outcome.status == 0, "\n".join(one.output for one in outcomes)
    said = ["".join(before) + outcomes[0].output, *(one.output for one in outcomes[1:])]
    steps = []
    for text in said:
        assert text.count("PARENT") == 1, text
        # One call at the beginning, and one after the loss, from what the keepers have.
        begins = re.findall(r"BEGINS (\d) (\d+)", text)
        assert [number for number, _ in begins] == ["0", "1"], text
        steps.append(int(begins[1][1]))
        found = dict(re.findall(r"STEP (\d+) (\S+ \S+)", text))
        assert sorted(map(int, found)) == list(range(8)), text
        assert len(set(re.findall(r"STEP \d+ \S+ \S+", text))) == 8, text
    assert len(set(steps)) == 1, steps
    assert steps[0] in (4, 5)
