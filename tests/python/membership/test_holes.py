"""kill -9 of a rank whose data nobody else has: an error on all survivors, no step on zeros."""

from __future__ import annotations

import json
import signal

import pytest
from ranks import Outcome, finish, start_rank

pytest.importorskip("torch", reason="waits for torch: the backend is built against it")

# Its process, killed with nobody beside it, needs milliseconds; the rest is for a busy machine.
SOON_S = 1.0


def lose(function: str, size: int, here, env: dict[str, str]) -> list[Outcome]:
    """Run ranks of which rank 1 is killed; return the others, which ended well."""
    processes = [start_rank("hole_ranks", function, r, size, here, env) for r in range(size)]
    outcomes = finish(processes, 60)
    assert outcomes[1].status == -signal.SIGKILL, outcomes[1].output
    survivors = [outcome for outcome in outcomes if outcome.rank != 1]
    for outcome in survivors:
        assert outcome.status == 0, outcome.output
    return survivors


def told(outcome: Outcome, word: str) -> dict:
    (line,) = [line for line in outcome.output.splitlines() if line.startswith(word)]
    return json.loads(line.removeprefix(word))


# Whose step the kill is in; the others' steps come after it.
@pytest.mark.parametrize("first", ["fsdp2", "moe", "zero1"])
def test_a_killed_rank_ends_every_sharded_step_on_all_survivors(first, tmp_path):
    kinds = sorted(["fsdp2", "tensor_parallel", "moe", "zero1"], key=lambda kind: kind != first)
    survivors = lose("lose_one", 3, tmp_path, {"KINDS": " ".join(kinds)})
    found = [told(outcome, "FOUND ") for outcome in survivors]
    for kind in kinds:
        ends = [of_rank[kind] for of_rank in found]
        print(kind, ends[0]["text"])
        for end in ends:
            assert end["ranks"] == [1]
            began = end["began"] if kind != first else max(e["at"] for e in ends)
            assert end["at"] - began < SOON_S, end
            # Alike on all: as many steps before it, and none with another loss than without it.
            assert len(end["losses"]) == len(ends[0]["losses"])
            assert end["losses"] == sorted(end["losses"], reverse=True), end
        assert len({end["text"].partition(" (epoch")[0] for end in ends}) == 1, ends


def test_a_replica_that_lost_nobody_trains_on(tmp_path):
    survivors = lose("lose_one_of_a_replica", 4, tmp_path, {})
    assert told(survivors[0], "FOUND ")["hsdp"]["ranks"] == [1]
    for outcome in survivors[1:]:
        losses = told(outcome, "WHOLE ")
        assert losses["after"] == sorted(losses["after"], reverse=True), losses
        assert losses["after"][0] < losses["before"][0]


def test_sums_over_parts_of_a_model_raise_where_losses_do(tmp_path):
    env = {"KINDS": "tensor_parallel_by_sums", "HOLDFAST_ON_PEER_LOSS": "raise"}
    for outcome in lose("lose_one", 3, tmp_path, env):
        end = told(outcome, "FOUND ")["tensor_parallel_by_sums"]
        assert end["ranks"] == [1]
        assert end["losses"] == sorted(end["losses"], reverse=True), end


@pytest.mark.parametrize("transport", ["shm", "tcp"])
@pytest.mark.parametrize("function", ["ask_for_zeros", "ask_a_group_for_zeros"])
def test_calls_say_whether_a_hole_is_an_error_or_zeros(function, transport, tmp_path):
    lose(function, 3, tmp_path, {"HOLDFAST_TRANSPORTS": transport})


def test_the_option_makes_holes_zeros(tmp_path):
    env = {"HOLDFAST_ON_HOLE": "zero"}
    lose("holes_are_zeros", 3, tmp_path, env)
