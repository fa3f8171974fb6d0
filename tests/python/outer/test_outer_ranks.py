"""Trainers in processes of their own: over gloo and Holdfast, coded, and under SIGKILL."""

from __future__ import annotations

import json
import signal

import pytest

torch = pytest.importorskip("torch", reason="waits for torch: trainers are made of it")

from coordinators import Coordinator  # noqa: E402
from methods import H  # noqa: E402
from ranks import finish, run_ranks, start_rank  # noqa: E402


def found_by(outcomes) -> list[dict]:
    lines = [line for one in outcomes for line in one.output.splitlines()]
    return [json.loads(line.removeprefix("FOUND ")) for line in lines if line.startswith("FOUND ")]


@pytest.mark.parametrize("backend", ["gloo", "holdfast"])
def test_diloco_of_four_members_is_the_plain_script(backend, tmp_path):
    run_ranks("outer_ranks", "parity", 4, tmp_path, env={"BACKEND": backend})


ENCODED = {"HOLDFAST_CODEC": "int8", "HOLDFAST_CODEC_MIN_BYTES": "1"}


@pytest.mark.parametrize(
    ("backend", "more"), [("gloo", {}), ("holdfast", {}), ("holdfast", ENCODED)]
)
def test_what_is_shared_has_the_same_bits_over_any_backend_plain_and_coded(backend, more, tmp_path):
    env = {"BACKEND": backend, **more}
    ranks = found_by(run_ranks("outer_ranks", "methods", 3, tmp_path, env=env))
    assert len(ranks) == 3
    assert all(one == ranks[0] for one in ranks)
    assert all(len(set(trail)) >= 5 for trail in ranks[0].values())


def test_trainers_run_over_a_group_without_torch_distributed(tmp_path):
    ranks = found_by(run_ranks("outer_ranks", "over_a_group", 3, tmp_path))
    assert len(ranks) == 3
    assert all(one == ranks[0] for one in ranks)


@pytest.mark.parametrize("backend", ["gloo", "holdfast"])
def test_every_rank_is_told_whose_model_differs(backend, tmp_path):
    run_ranks("outer_ranks", "other_models", 3, tmp_path, env={"BACKEND": backend})


CHURN = [
    ("churn", "diloco", "begun"),
    ("churn", "diloco, int8", "begun"),
    ("churn", "diloco, auto", "begun"),
    ("each round: group_churn", "diloco, auto", "0.002"),
    ("raise", "diloco, auto", "begun"),
    ("churn", "diloco, donor", "begun"),
    ("churn", "eager, 2, 4", "0.002"),
    ("churn", "streaming, 3, 3", "0.004"),
    ("churn", "sparse", "0.0015"),
    ("churn", "co2", "0.003"),
    ("group_churn", "streaming, 3, 3", "0.002"),
    ("each round: churn", "eager, 1, 6", "begun"),
    ("each round: churn", "diloco", "0.003"),
    ("each round: group_churn", "streaming, 3, 3", "begun"),
    ("raise", "eager, 2, 4", "begun"),
    ("raise", "sparse", "begun"),
    ("raise", "diloco, int8", "begun"),
    ("raise", "diloco", "0.003"),
]


@pytest.mark.parametrize(("function", "kind", "after_s"), CHURN)
def test_survivors_agree_when_a_member_dies_in_mid_round_and_comes_back(
    function, kind, after_s, tmp_path
):
    env = {"METHOD": kind, "AFTER_S": after_s}
    if function == "raise":
        function = "churn"
        env["HOLDFAST_ON_PEER_LOSS"] = "raise"
    if function.startswith("each round"):
        function = function.removeprefix("each round: ")
        env["EACH_ROUND"] = "1"
    ranks = [start_rank("outer_ranks", function, r, 3, tmp_path, env) for r in range(3)]
    died = ranks[1].communicate(timeout=60)[0]
    assert ranks[1].returncode == -signal.SIGKILL, died
    ranks[1] = start_rank("outer_ranks", function, 1, 3, tmp_path, {**env, "AGAIN": "1"})
    outcomes = finish(ranks, 60)
    assert all(outcome.status == 0 for outcome in outcomes), outcomes
    trails, ends = [], []
    for outcome in outcomes:
        lines = outcome.output.splitlines()
        trails.append({line for line in lines if line.startswith("STEP ")})
        ends += [json.loads(line.removeprefix("END ")) for line in lines if line[:4] == "END "]
    assert trails[0] == trails[2]
    assert trails[1] <= trails[0]
    assert trails[1]
    assert {line for line in died.splitlines() if line.startswith("STEP ")} <= trails[0]
    assert len(ends) == 3
    assert all(end == ends[0] for end in ends), ends
    assert ends[0]["bits"] == ends[0]["model"]
    assert ends[0]["members"] == [0, 1, 2]
    # No member lost a local step, and the newcomer knows how many there were.
    assert ends[0]["seen"] == ends[0]["steps"] == len(trails[0])


def test_a_newcomer_with_another_trainer_is_refused_and_the_others_go_on(tmp_path):
    env = {"AFTER_S": "0.001"}
    ranks = [start_rank("outer_ranks", "other_comes", r, 3, tmp_path, env) for r in range(3)]
    ranks[1].communicate(timeout=60)
    ranks[1] = start_rank("outer_ranks", "other_comes", 1, 3, tmp_path, {**env, "AGAIN": "1"})
    outcomes = finish(ranks, 60)
    assert [outcome.status for outcome in outcomes] == [0, -signal.SIGKILL, 0], outcomes[1].output
    assert all("END" in outcomes[rank].output for rank in (0, 2))


@pytest.mark.parametrize("seed", range(2))
def test_shared_parameters_are_those_recomputed_from_what_was_sent_and_weighted(seed, tmp_path):
    ranks = [
        start_rank("outer_ranks", "recorded", r, 4, tmp_path, {"SEED": str(seed)}) for r in range(4)
    ]
    outcomes = finish(ranks, 60)
    killed = [outcome.rank for outcome in outcomes if outcome.status == -signal.SIGKILL]
    assert killed == [1, 3], outcomes
    assert all(outcomes[r].status == 0 for r in (0, 2)), outcomes
    shared = None
    counts = []
    for step in range(H, 6 * H + 1, H):
        told = [torch.load(tmp_path / f"step-{rank}-{step}") for rank in (0, 2)]
        assert torch.equal(told[0]["shared"], told[1]["shared"])
        weights = told[0]["weights"]
        assert told[1]["weights"] == weights
        counts.append(len(weights))
        sent = {rank: torch.load(tmp_path / f"sent-{rank}-{step}") for rank in weights}
        mean = sum(w * sent[rank].double() for rank, w in weights.items())
        mean /= sum(weights.values())
        if shared is not None:
            want = shared.double() - 0.5 * mean
            torch.testing.assert_close(told[0]["shared"].double(), want, rtol=1e-5, atol=1e-7)
        shared = told[0]["shared"]
    assert counts[0] == 4
    assert counts[-1] == 2
    assert counts == sorted(counts, reverse=True)


@pytest.mark.parametrize("kind", ["diloco", "eager, 2, 4"])
def test_a_peer_of_an_elastic_group_comes_in_in_mid_round_and_one_leaves(kind, tmp_path):
    coordinator = Coordinator(tmp_path)
    env = {"METHOD": kind, "URL": f"holdfast://{coordinator.address}", "HOLDFAST_TIMEOUT": "20"}

    def start(number: int, **more: str):
        return start_rank("outer_ranks", "elastic", number, 1, tmp_path, {**env, **more})

    try:
        peers = [start(0), start(1, LEAVES="1")]
        while "ready" not in (line := peers[0].stdout.readline()):
            assert line
        peers.append(start(2, LATE="1"))
        outcomes = finish(peers, 60)
    finally:
        coordinator.process.terminate()
        coordinator.process.wait(10)
    assert all(outcome.status == 0 for outcome in outcomes), outcomes
    lines = [line for outcome in outcomes for line in outcome.output.splitlines()]
    ends = [json.loads(line.removeprefix("END ")) for line in lines if line.startswith("END ")]
    assert len(ends) == 2
    assert ends[0] == ends[1]
    assert len(ends[0]["members"]) == 2
