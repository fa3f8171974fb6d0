"""``holdfast simulate``: many worlds, their hashes, and how to go on after an interruption."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys

SIMULATE = [sys.executable, "-m", "holdfast.cli", "simulate"]


def simulate(*arguments: str) -> str:
    done = subprocess.run(
        [*SIMULATE, *arguments], capture_output=True, text=True, timeout=300, check=True
    )
    return done.stdout


def test_many_worlds_have_the_hashes_that_each_has_alone():
    lines = simulate("--seed", "7", "--count", "3", "--hashes").splitlines()
    seeds = [int(line.split()[0]) for line in lines[:-1]]
    assert seeds == [7, 8, 9]
    assert lines[-1].startswith("3 worlds, 0 violations, ")
    alone = json.loads(simulate("--seed", "8", "--json"))
    assert lines[1] == f"8 {alone['hash']:016x}"


def test_a_range_has_one_hash_whoever_runs_it():
    one = json.loads(simulate("--count", "205", "--json", "--jobs", "1"))
    two = json.loads(simulate("--count", "205", "--json", "--jobs", "3"))
    assert one["hash"] == two["hash"]
    assert one["worlds"] == two["worlds"] == 205
    assert one["violations"] == []


def test_links_of_several_connections_are_worlds_of_their_own():
    lines = simulate("--lanes", "--seed", "7", "--count", "300", "--hashes").splitlines()
    assert [int(line.split()[0]) for line in lines[:-1]] == list(range(7, 307))
    assert lines[-1].startswith("300 worlds, 0 violations, ")
    assert " frames, " in lines[-1]
    alone = json.loads(simulate("--lanes", "--seed", "8", "--json"))
    assert lines[1] == f"8 {alone['hash']:016x}"
    assert alone["frames"] > 0
    assert "latency" in simulate("--lanes", "--seed", "8", "--print")
    refused = subprocess.run([*SIMULATE, "--lanes", "--coordinator"], capture_output=True)
    assert refused.returncode == 2


def test_jobs_with_snapshots_are_worlds_of_their_own():
    lines = simulate("--state", "--seed", "7", "--count", "300", "--hashes").splitlines()
    assert [int(line.split()[0]) for line in lines[:-1]] == list(range(7, 307))
    assert lines[-1].startswith("300 worlds, 0 violations, ")
    assert " snapshots, " in lines[-1]
    alone = json.loads(simulate("--state", "--seed", "8", "--json"))
    assert lines[1] == f"8 {alone['hash']:016x}"
    assert alone["commits"] > 0
    assert "patience" in simulate("--state", "--seed", "8", "--print")
    refused = subprocess.run([*SIMULATE, "--state", "--lanes"], capture_output=True)
    assert refused.returncode == 2


# A shell ignores ctrl-C for what it has put into the background, this test perhaps among it.
HEARS_CTRL_C = (
    "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler); "
    "from holdfast.cli import main; sys.exit(main(sys.argv[1:]))"
)


def test_who_is_interrupted_is_told_how_to_go_on():
    options = ["simulate", "--count", "1000000", "--hashes", "--coordinator"]
    worlds = subprocess.Popen(
        [sys.executable, "-c", HEARS_CTRL_C, *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert worlds.stdout is not None
        # A block of worlds is done.
        assert worlds.stdout.readline().startswith("1 ")
        worlds.send_signal(signal.SIGINT)
        _, told = worlds.communicate(timeout=60)
    finally:
        worlds.kill()
        worlds.wait()
    assert worlds.returncode == 130
    rest = re.search(r"to go on: --seed (\d+) --count (\d+) --coordinator", told)
    assert rest is not None
    assert int(rest[1]) + int(rest[2]) == 1_000_001
