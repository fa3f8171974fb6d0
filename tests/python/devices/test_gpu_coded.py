"""Codecs on a GPU's memory whose frames the GPU makes, in real processes, as a rule over emulated
devices (cuda_driver.py).
"""

from __future__ import annotations

import pytest
from cuda_driver import CHOSEN
from ranks import finish, run_ranks, segments_of, start_rank

import holdfast

DEVICE = {
    **CHOSEN,
    "HOLDFAST_CUDA_SLICE_BYTES": "65536",
    "HOLDFAST_CUDA_CODEC_MIN_BYTES": "1",
}


def run(function, size, meeting, **more):
    env = {**DEVICE, **more}
    return run_ranks("gpu_coded_ranks", function, size, meeting, env=env, timeout_s=150)


@pytest.mark.parametrize(("size", "transports"), [(2, "shm,tcp"), (3, "shm,tcp"), (2, "tcp")])
def test_every_op_and_codec_has_the_bits_and_residuals_of_the_host(size, transports, tmp_path):
    outcomes = run("same_bits_as_on_the_host", size, tmp_path, HOLDFAST_TRANSPORTS=transports)
    assert segments_of(outcomes) == set()


@pytest.mark.parametrize("size", [2, 5])
def test_one_bit_with_a_residual_converges(size, tmp_path):
    run("learn_with_feedback", size, tmp_path)


def test_stochastic_rounding_is_without_bias_and_alike_on_all_ranks(tmp_path):
    run("round_by_chance", 3, tmp_path)


@pytest.mark.parametrize(
    ("option", "value"),
    [("HOLDFAST_CUDA_CODEC", "off"), ("HOLDFAST_CUDA_CODEC_MIN_BYTES", "4001")],
)
def test_the_options_turn_it_off(option, value, tmp_path):
    run("go_through_the_host", 2, tmp_path, WHY=option, **{option: value})


def test_what_has_no_frames_of_one_size_goes_through_the_host(tmp_path):
    run("go_through_the_host", 2, tmp_path, WHY="codec")


def test_the_option_codec_is_for_the_device_too(tmp_path):
    run("use_the_option", 2, tmp_path, HOLDFAST_CODEC="int8", HOLDFAST_CODEC_MIN_BYTES="1000")


def test_ranks_of_two_hosts_encode_on_their_devices(tmp_path):
    processes = [
        start_rank(
            "gpu_coded_ranks",
            "learn_with_feedback",
            r,
            2,
            tmp_path,
            {**DEVICE, "HOLDFAST_HOST_ID": f"host{r}", "HOLDFAST_TRANSPORTS": "tcp"},
        )
        for r in range(2)
    ]
    for outcome in finish(processes, 100):
        assert outcome.status == 0, outcome.output


def test_host_memory_here_and_a_gpus_there_is_an_error_on_every_rank(tmp_path):
    run("disagree", 3, tmp_path)


# Both, and each early and late.
_HOLES = {
    "0": "raise",
    "0.001": "zero",
    "0.003": "raise",
    "0.006": "zero",
    "0.012": "raise",
    "0.025": "zero",
    "0.05": "raise",
}


@pytest.mark.parametrize("dies_after", _HOLES)
@pytest.mark.parametrize("function", ["lose_one", "lose_one_of_a_gather"])
def test_survivors_agree_when_a_rank_dies_in_the_middle(function, dies_after, tmp_path):
    env = {**DEVICE, "DIES_AFTER": dies_after, "ON_HOLE": _HOLES[dies_after]}
    processes = [start_rank("gpu_coded_ranks", function, r, 4, tmp_path, env) for r in range(4)]
    outcomes = finish(processes, 100)
    assert outcomes[2].status == -9, outcomes[2].output
    survivors = [outcome for outcome in outcomes if outcome.rank != 2]
    for outcome in survivors:
        assert outcome.status == 0, outcome.output
    # What they have, and what they say it is made of.
    told = [line for o in survivors for line in o.output.splitlines() if line.startswith("HAS")]
    assert len(told) == 3
    assert len(set(told)) == 1


def test_ranks_that_set_it_differently_are_told_when_they_meet(tmp_path):
    processes = [
        start_rank("gpu_coded_ranks", "disagree", r, 2, tmp_path, {**DEVICE, name: value})
        for r, (name, value) in enumerate(
            [("HOLDFAST_CUDA_CODEC", "off"), ("HOLDFAST_CUDA_CODEC_MIN_BYTES", "77")]
        )
    ]
    outcomes = finish(processes, 60)
    assert all(o.status != 0 for o in outcomes)
    text = " ".join(o.output for o in outcomes)
    assert "cuda_codec: off" in text
    assert "cuda_codec_min_bytes: 77" in text


@pytest.mark.parametrize(
    ("option", "value"), [("cuda_codec", "on"), ("cuda_codec", 1), ("cuda_codec_min_bytes", 0)]
)
def test_bad_options_name_what_is_accepted(option, value):
    with pytest.raises(holdfast.ConfigError, match=f"{option}.*accepted"):
        holdfast.Options(**{option: value})
