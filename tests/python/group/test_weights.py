"""Averages by weights: real processes, shared memory and sockets, kills in the middle."""

from __future__ import annotations

import random
import time

import pytest
from ranks import finish, kill, run_ranks, start_rank

pytest.importorskip("torch", reason="waits for torch, whose bfloat16 it sends")

TRANSPORTS = ("shm", "tcp")


@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize("size", [2, 3, 4])
@pytest.mark.parametrize("program", ["every_dtype", "blocks", "codecs", "nobody_has_a_weight"])
def test_parts_are_divided_by_the_weights_in_them(program, size, transport, tmp_path):
    env = {"HOLDFAST_TRANSPORTS": transport}
    for outcome in run_ranks("weight_ranks", program, size, tmp_path, env=env):
        assert outcome.status == 0, outcome.output


@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize(
    "program", ["samples_do_not_overflow", "equal_weights", "bad_weights", "exchange"]
)
def test_program(program, transport, tmp_path):
    env = {"HOLDFAST_TRANSPORTS": transport}
    for outcome in run_ranks("weight_ranks", program, 3, tmp_path, env=env):
        assert outcome.status == 0, outcome.output


@pytest.mark.parametrize("size", [2, 3])
def test_an_exchange_over_torch_multiplies_and_divides(size, tmp_path):
    for outcome in run_ranks("weight_ranks", "over_torch", size, tmp_path):
        assert outcome.status == 0, outcome.output


@pytest.mark.parametrize("count", ["10", "300000"])
@pytest.mark.parametrize("transport", TRANSPORTS)
def test_every_rank_is_told_that_not_all_give_a_weight(transport, count, tmp_path):
    env = {"HOLDFAST_TRANSPORTS": transport, "COUNT": count}
    for outcome in run_ranks("weight_ranks", "not_all_weigh", 3, tmp_path, env=env):
        assert outcome.status == 0, outcome.output


@pytest.mark.parametrize("codec", ["", "int8"])
@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize("count", ["1000", "1000000"])
def test_survivors_of_a_kill_hold_means_of_who_is_in_each_part(count, transport, codec, tmp_path):
    env = {"HOLDFAST_TRANSPORTS": transport, "COUNT": count, "CODEC": codec}
    processes = [start_rank("weight_ranks", "lose_a_rank", r, 4, tmp_path, env) for r in range(4)]
    victim = int(count) % 3 + 1
    assert processes[victim].stdout is not None
    while "ready" not in (line := processes[victim].stdout.readline()):
        assert line, f"rank {victim} ended before it was ready"
    # Somewhere within an op: they follow one another without a pause.
    time.sleep(0.2 + random.Random(count + codec).random() * 0.5)
    kill(processes[victim])
    for outcome in finish(processes, 90):
        if outcome.rank == victim:
            continue
        assert outcome.status == 0, outcome.output
        assert "WEIGHED done" in outcome.output
