"""Codecs in collectives: real processes, both transports."""

from __future__ import annotations

import random
import time

import numpy as np
import pytest
from ranks import finish, kill, run_ranks, start_rank

import holdfast
from holdfast import _core


@pytest.mark.parametrize("transport", ["shm", "tcp"])
@pytest.mark.parametrize(
    "what",
    [
        "every_collective",
        "residual_is_conserved",
        "residual_has_both_encodings",
        "random_rounding_is_the_same_twice",
        "mismatch_is_told",
        "some_with_a_residual",
    ],
)
def test_ranks(what, transport, tmp_path):
    env = {"HOLDFAST_TRANSPORTS": transport}
    for outcome in run_ranks("codec_ranks", what, 3, tmp_path, env=env):
        assert outcome.status == 0, outcome.output


@pytest.mark.parametrize("hosts", ["aabb", "abbab"])
def test_hosts_with_several_ranks_sum_up_before_anything_is_encoded(hosts, tmp_path):
    processes = [
        start_rank(
            *("codec_ranks", "hosts_sum_first", r, len(hosts), tmp_path),
            {"HOLDFAST_HOST_ID": host, "HOLDFAST_ADDRESS": "127.0.0.1"},
        )
        for r, host in enumerate(hosts)
    ]
    for outcome in finish(processes, 100):
        assert outcome.status == 0, outcome.output


@pytest.mark.parametrize("what", ["options_choose_for_gradients_only", "torch_sums_are_encoded"])
def test_the_option_encodes_sums_of_large_floats_only(what, tmp_path):
    env = {"HOLDFAST_CODEC": "int8"}
    for outcome in run_ranks("codec_ranks", what, 3, tmp_path, env=env):
        assert outcome.status == 0, outcome.output


def test_ranks_with_another_codec_option_are_refused(tmp_path):
    processes = [
        start_rank(
            "codec_ranks",
            "options_choose_for_gradients_only",
            r,
            2,
            tmp_path,
            {"HOLDFAST_CODEC": codec, "HOLDFAST_CONNECT_TIMEOUT": "20"},
        )
        for r, codec in enumerate(["int8", "int4"])
    ]
    for outcome in finish(processes, 60):
        assert outcome.status != 0
        assert "codec: int8(block=128) from 65536 bytes" in outcome.output, outcome.output
        assert "codec: int4(block=128) from 65536 bytes" in outcome.output, outcome.output


@pytest.mark.parametrize("transport", ["shm", "tcp"])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_loss_leaves_every_element_encoded_or_owed(seed, transport, tmp_path):
    env = {"HOLDFAST_TRANSPORTS": transport, "COUNT": "3000000"}
    processes = [start_rank("codec_ranks", "lose_a_rank", r, 4, tmp_path, env) for r in range(4)]
    victim = seed % 4
    assert processes[victim].stdout is not None
    while "ready" not in (line := processes[victim].stdout.readline()):
        assert line, f"rank {victim} ended before it was ready"
    # Somewhere within an op: they follow one another without a pause.
    time.sleep(0.2 + random.Random(seed).random() * 0.3)
    kill(processes[victim])
    for outcome in finish(processes, 90):
        if outcome.rank == victim:
            continue
        assert outcome.status == 0, outcome.output
        assert "KINDS done" in outcome.output


@pytest.fixture
def alone(tmp_path, monkeypatch):
    monkeypatch.setenv("HOLDFAST_STORE", f"file://{tmp_path}/directory")
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "1")
    with holdfast.init() as group:
        yield group


def test_what_a_codec_cannot_do_is_refused_with_what_it_can(alone):
    data = np.ones(1000, np.float32)
    with pytest.raises(holdfast.Unsupported, match=r"does not take i32; accepted: .*f32"):
        alone.all_reduce(np.ones(1000, np.int32), codec="int8")
    with pytest.raises(holdfast.Unsupported, match="does not go with max; accepted: sum, avg"):
        alone.all_reduce(data, op="max", codec="int8")
    with pytest.raises(holdfast.ConfigError, match="int8"):
        alone.all_reduce(data, codec="int7")
    with pytest.raises(holdfast.ConfigError, match="float32 of 1000 elements"):
        alone.all_reduce(data, codec="int8", residual=np.zeros(999, np.float32))
    with pytest.raises(holdfast.ConfigError, match="a codec"):
        alone.all_reduce(data, residual=np.zeros(1000, np.float32))
    assert (data == 1).all()


def test_a_group_of_one_encodes_as_any_other(alone):
    data = np.linspace(-1, 1, 1000, dtype=np.float32)
    residual = np.zeros(1000, np.float32)
    once = _core.decode("int4", _core.encode("int4", data.copy()), 1000)
    result = data.copy()
    alone.all_reduce(result, codec="int4", residual=residual)
    assert np.abs(once + residual - data).max() < 1e-6
    assert (result != data).any()
    alone.all_reduce(np.zeros(0, np.float32), codec="int4")


def test_a_diverged_gradient_stays_diverged(alone):
    data = np.ones(1000, np.float32)
    data[3] = np.nan
    residual = np.zeros(1000, np.float32)
    alone.all_reduce(data, codec="int8", residual=residual)
    assert np.isnan(data[:128]).all()
    assert np.isfinite(data[128:]).all()
    assert np.isfinite(residual).all()


@pytest.mark.parametrize(
    ("codec", "text"),
    [
        (holdfast.Codec("int8"), "int8(block=128)"),
        (holdfast.Codec("int4", block=64, rounding="stochastic", grid="minmax"), None),
        (holdfast.Codec("onebit", scale="l1"), "onebit(block=512,l1)"),
        (holdfast.Codec("topk", ratio=0.05), "topk(ratio=0.05)"),
    ],
)
def test_a_codec_and_its_text_are_the_same(codec, text):
    written = holdfast.Options(codec=codec).codec
    assert text is None or written == text
    assert holdfast.Options(codec=written).codec == written


@pytest.mark.parametrize(
    "make",
    [
        lambda: holdfast.Codec("int7"),
        lambda: holdfast.Codec("int8", block=48),
        lambda: holdfast.Codec("onebit", rounding="stochastic"),
        lambda: holdfast.Codec("int8", rounding="up"),
        lambda: holdfast.Codec("topk", ratio=0),
        lambda: holdfast.Options(codec="int8(block=64"),
        lambda: holdfast.Options(codec="int8(blocks=64)"),
        lambda: holdfast.Options(codec_min_bytes=-1),
    ],
)
def test_bad_codecs_are_refused(make):
    with pytest.raises(holdfast.ConfigError, match=r"accepted|there are"):
        make()


def test_local_error_feedback_adds_up():
    data = np.random.default_rng(1).standard_normal(5000).astype(np.float32)
    residual = np.zeros(5000, np.float32)
    sent = np.zeros(5000, np.float64)
    for _ in range(10):
        sent += _core.decode("onebit", _core.encode("onebit", data, residual), 5000)
    assert np.abs(sent + residual - 10.0 * data).max() < 1e-4
