"""Weighted means of trainers under SIGKILL, over both faces of a group."""

from __future__ import annotations

import random
import time

import pytest

pytest.importorskip("torch", reason="waits for torch: trainers are made of it")

from ranks import finish, kill, start_rank


@pytest.mark.parametrize(
    ("face", "codec"),
    [
        *((face, codec) for face in ("torch", "group") for codec in ("", "int8", "zstd")),
        ("exchange", ""),
    ],
)
def test_each_part_is_the_mean_by_weights_of_who_is_in_it_when_a_member_is_killed(
    face, codec, tmp_path
):
    env = {"FACE": face, "CODEC": codec, "COUNT": "400000", "HOLDFAST_TRANSPORTS": "tcp"}
    processes = [start_rank("mean_ranks", "lose_a_rank", r, 4, tmp_path, env) for r in range(4)]
    victim = 2
    assert processes[victim].stdout is not None
    while "ready" not in (line := processes[victim].stdout.readline()):
        assert line, f"rank {victim} ended before it was ready"
    # Somewhere within a mean: they follow one another without a pause.
    time.sleep(0.2 + random.Random(face + codec).random() * 0.5)
    kill(processes[victim])
    for outcome in finish(processes, 90):
        if outcome.rank != victim:
            assert outcome.status == 0, outcome.output
            assert "WEIGHED done" in outcome.output
