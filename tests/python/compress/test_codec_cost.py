"""From which size on a codec pays: the cost model's word, and real ranks behind a slow link."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from emulated_network import Network, Unavailable

from holdfast.topology.codec_cost import CodecCost, break_even, coded_seconds
from holdfast.topology.link_fit import LinkModel

BENCH = Path(__file__).parents[2] / "bench" / "slow_link.py"
FREE = CodecCost(ratio=0.25, encode=0.0, decode=0.0)


def plan(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "holdfast.cli", "plan", "-c", "all_reduce", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def test_two_hops_frames_and_coding_are_counted():
    link = LinkModel(alpha=1e-3, beta=1e-6, gamma=5e-7)
    codec = CodecCost(ratio=0.25, encode=1e-7, decode=2e-7)
    size = 4000
    # Of 4 ranks each sends 3/4 of its frame's bytes twice, encodes its input and its chunk's sum,
    # and decodes what it gets for its chunk, and the result.
    wire, encoded, decoded = 2 * 0.75 * 1000, 4000 + 1000, 2 * 4000
    expected = 2 * 1e-3 + wire * 1e-6 + encoded * 1e-7 + decoded * 2e-7
    assert coded_seconds(link, 4, size, codec) == pytest.approx(expected)


def test_the_break_even_is_where_the_second_hop_is_paid_for():
    # 10 us against 0.75 of 8 ns a byte: 1667 bytes.
    link = LinkModel(alpha=1e-5, beta=8e-9, gamma=0)
    assert break_even(link, 2, FREE, lambda n: 1e-5 + n * 8e-9) == 2048


def test_coding_that_is_slower_than_the_link_never_pays():
    link = LinkModel(alpha=1e-5, beta=1e-10, gamma=0)
    slow = CodecCost(ratio=0.25, encode=1e-9, decode=1e-9)
    assert break_even(link, 2, slow, lambda n: 1e-5 + n * 1e-10) is None


def test_the_command_says_it_for_the_tables_links(tmp_path):
    file = tmp_path / "plan.txt"
    found = {}
    for name, line in (("fast", ""), ("slow", "link tcp 1e-5 1e-7 0\n")):
        file.write_text(f"holdfast-plan 1\n{line}")
        done = plan("--plan", str(file), "--sizes", "1K", "--codec", "int8+onebit", "--json")
        assert done.returncode == 0, done.stderr
        rows = [json.loads(line) for line in done.stdout.splitlines()]
        found[name] = {row["codec"]: row for row in rows if "codec" in row}
    assert list(found["slow"]) == ["int8(block=128)", "onebit(block=512)"]
    for codec, row in found["slow"].items():
        # 10 us by about 75 ns a byte and more: below 256 bytes.
        assert row["bytes"] == 256, row
        faster = found["fast"][codec]
        assert faster["bytes"] is None or faster["bytes"] > 256
    assert found["slow"]["onebit(block=512)"]["ratio"] < 0.05


def test_a_lossless_codec_is_measured_on_what_it_takes(tmp_path):
    file = tmp_path / "plan.txt"
    file.write_text("holdfast-plan 1\nlink tcp 1e-5 1e-7 0\n")
    done = plan("--plan", str(file), "--sizes", "1K", "--codec", "bfloat", "--json")
    assert done.returncode == 0, done.stderr
    (row,) = [json.loads(line) for line in done.stdout.splitlines() if "codec" in line]
    assert row["dtype"] == "bf16"
    assert 0.65 < row["ratio"] < 0.72
    # 10 us by about 30 ns a byte: below 512 bytes.
    assert row["bytes"] is not None
    assert row["bytes"] < 1024


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (("--codec", "gzip"), "gzip"),
        (("--codec", "int8", "-n", "4", "--hosts", "2"), "--hosts 2"),
    ],
)
def test_what_the_model_cannot_say_is_refused(arguments, named):
    done = plan(*arguments)
    assert done.returncode != 0
    assert named in done.stderr


def test_behind_a_slow_link_sums_with_a_codec_are_faster():
    try:
        with Network(2) as network:
            network.even_cable(0, 100)
    except Unavailable as why:
        pytest.skip(str(why))
    # 20 Mbit/s: 1 MiB takes 420 ms, and a thirtieth of it with one bit. So slow that it is the link
    # that takes the time on a busy machine, too.
    sizes = ["--sizes", "4096,65536,1048576", "--rounds", "1"]
    done = subprocess.run(
        [sys.executable, str(BENCH), *sizes, "--ranks", "2", "--steps", "0", "--mbit", "20"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    (row,) = [line for line in done.stdout.splitlines() if line.startswith("| 2 | 1024 KiB |")]
    plain, int8, onebit = (float(cell.split(",")[0]) for cell in row.split("|")[3:6])
    assert plain > 350e3
    assert plain > 2 * int8
    assert plain > 4 * onebit
