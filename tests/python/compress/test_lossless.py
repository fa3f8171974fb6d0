"""Lossless codecs in collectives: real processes, both transports."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import time

import numpy as np
import pytest
from ranks import finish, kill, run_ranks, start_rank

import holdfast
from holdfast import _core

needs_zstd = pytest.mark.skipif("zstd" not in _core.codecs(), reason="built without libzstd")


@pytest.mark.parametrize("transport", ["shm", "tcp"])
@pytest.mark.parametrize(
    "what",
    [
        "moved_data_is_exact",
        "sums_are_those_of_the_definition",
        "several_at_once_in_pooled_memory",
    ],
)
def test_ranks(what, transport, tmp_path):
    env = {"HOLDFAST_TRANSPORTS": transport}
    for outcome in run_ranks("lossless_ranks", what, 3, tmp_path, env=env):
        assert outcome.status == 0, outcome.output


@needs_zstd
def test_what_cannot_be_and_what_does_not_match_is_told(tmp_path):
    for outcome in run_ranks("lossless_ranks", "errors_are_told", 2, tmp_path):
        assert outcome.status == 0, outcome.output


def test_the_option_encodes_what_the_codec_takes_for_torch(tmp_path):
    env = {"HOLDFAST_CODEC": "bfloat", "HOLDFAST_CODEC_MIN_BYTES": "4096"}
    for outcome in run_ranks(
        "lossless_ranks", "torch_moves_and_sums_exactly", 3, tmp_path, env=env
    ):
        assert outcome.status == 0, outcome.output


@pytest.mark.parametrize("transport", ["shm", "tcp"])
@pytest.mark.parametrize("seed", [1, 3])
def test_survivors_of_a_kill_hold_exact_blocks_and_the_same_sums(seed, transport, tmp_path):
    env = {"HOLDFAST_TRANSPORTS": transport, "COUNT": "400000"}
    processes = [start_rank("lossless_ranks", "lose_a_rank", r, 4, tmp_path, env) for r in range(4)]
    victim = seed % 4
    assert processes[victim].stdout is not None
    while "ready" not in (line := processes[victim].stdout.readline()):
        assert line, f"rank {victim} ended before it was ready"
    # Somewhere within an op: they follow one another without a pause.
    time.sleep(0.2 + random.Random(seed).random() * 0.5)
    kill(processes[victim])
    for outcome in finish(processes, 90):
        if outcome.rank == victim:
            continue
        assert outcome.status == 0, outcome.output
        assert "EXACT done" in outcome.output


def command(*arguments: str) -> subprocess.CompletedProcess[str]:
    whole = [sys.executable, "-m", "holdfast.cli", *arguments]
    return subprocess.run(whole, capture_output=True, text=True, timeout=120, check=False)


def test_gaussian_bfloat16_crosses_the_sockets_in_fewer_bytes():
    done = command(
        *("bench", "--codec", "bfloat", "--dtypes", "bfloat16", "-c", "all_gather,all_reduce"),
        *("--sizes", "1M", "--transport", "tcp", "--peers", "none", "--rounds", "2", "--json"),
    )
    assert done.returncode == 0, done.stderr
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    coded = [row for row in rows if row["contestant"] == "tcp/bfloat"]
    assert len(coded) == 2
    for row in coded:
        assert row["plain_bytes"] / row["wire_bytes"] >= 1.40, row
        assert row["error"] < (1e-9 if row["name"] == "all_gather" else 1e-2)


@needs_zstd
def test_text_crosses_the_sockets_in_fewer_bytes():
    done = command(
        *("bench", "--codec", "zstd", "--dtypes", "uint8", "-c", "broadcast"),
        *("--sizes", "1M", "--transport", "tcp", "--peers", "none", "--rounds", "2", "--json"),
    )
    assert done.returncode == 0, done.stderr
    (row,) = [r for r in map(json.loads, done.stdout.splitlines()) if "zstd" in r["contestant"]]
    assert row["plain_bytes"] / row["wire_bytes"] >= 2
    assert row["error"] == 0


@pytest.mark.parametrize(
    ("arguments", "accepted"),
    [
        (("--codec", "bfloat", "--dtypes", "float32"), "--dtypes bfloat16"),
        (("--codec", "int8", "--dtypes", "uint8", "-c", "broadcast"), "float32,bfloat16"),
        (("--codec", "int8", "--dtypes", "int64"), "float32,bfloat16,uint8"),
        (("--codec", "bfloat", "-c", "gather"), "all_reduce"),
    ],
)
def test_a_bench_of_what_a_codec_does_not_take_is_refused(arguments, accepted):
    done = command("bench", *arguments)
    assert done.returncode != 0
    assert accepted in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("codec", "text"),
    [
        (holdfast.Codec("bfloat"), "bfloat"),
        (holdfast.Codec("bfloat", tier="fast"), "bfloat"),
        pytest.param("bfloat(dense)", "bfloat(dense)", marks=needs_zstd),
        pytest.param("zstd", "zstd(level=1)", marks=needs_zstd),
        pytest.param("zstd(level=9)", "zstd(level=9)", marks=needs_zstd),
    ],
)
def test_a_lossless_codec_can_be_an_option(codec, text, monkeypatch):
    assert holdfast.Options(codec=codec).codec == text
    monkeypatch.setenv("HOLDFAST_CODEC", text)
    done = command("info")
    assert done.returncode == 0
    assert "losing nothing" in done.stdout
    assert ("of bf16," in done.stdout) == text.startswith("bfloat")


@pytest.mark.parametrize("make", [{"tier": "best"}, {"level": 40}, {"rounding": "stochastic"}])
def test_what_a_lossless_codec_does_not_have_is_refused(make):
    with pytest.raises(holdfast.ConfigError, match=r"accepted|takes"):
        holdfast.Codec("bfloat", **make)


def test_bytes_of_other_dtypes_are_refused_by_the_codec_itself():
    values = np.zeros(64, np.uint8)
    room = np.zeros(1000, np.uint8)
    with pytest.raises(ValueError, match="does not take"):
        _core.encode_bytes(room, "bfloat", values, "f32")
    with pytest.raises(ValueError, match="does not take"):
        _core.encode_bytes(room, "bfloat", values[:3], "bf16")
    with pytest.raises(ValueError, match="too little room"):
        _core.encode_bytes(room[:10], "bfloat", values, "bf16")
    size = _core.encode_bytes(room, "bfloat", values, "bf16")
    room[20] ^= 1
    with pytest.raises(holdfast.ProtocolError):
        _core.decode_bytes(values, "bfloat", room[:size], "bf16")
    with pytest.raises(ValueError, match="float32"):
        _core.decode_into(np.zeros(8, np.float32), "bfloat", room[:size])
