"""A link between distant hosts outlives its connections: they are reset, stop, and come again.

Two ranks are at the ends of an emulated path of 20 ms each way.
"""

from __future__ import annotations

import json
import random
import subprocess
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from emulated_path import LongPath, Unavailable
from ranks import Process, finish, start_rank

from holdfast import ConfigError, Options
from holdfast.cli import main

ROUND_TRIP_S = 0.04
MBIT = 100.0
# A busy machine is late by this much, beside what the path says.
SLACK_S = 2.0


@pytest.fixture
def path() -> Iterator[LongPath]:
    try:
        with LongPath() as path:
            path.set("both", delay_ms=1000 * ROUND_TRIP_S / 2, mbit=MBIT, queue_ms=100)
            yield path
    except Unavailable as why:
        pytest.skip(str(why))


@pytest.fixture
def secret(tmp_path: Path) -> dict[str, str]:
    path = tmp_path / "job.secret"
    assert main(["secret", str(path)]) == 0
    return {"HOLDFAST_SECRET_FILE": str(path)}


def start(path: LongPath, here: Path, env: Mapping[str, str]) -> list[Process]:
    ranks = [
        start_rank(
            *("trunk_ranks", "reduce_in_rounds", rank, 2, here),
            {
                "HOLDFAST_TRANSPORTS": "tcp",
                "HOLDFAST_HOST_ID": f"host{rank}",
                "HOLDFAST_ADDRESS": path.address(rank),
                "HOLDFAST_TIMEOUT": "60",
                **env,
            },
            path.inside(rank),
        )
        for rank in range(2)
    ]
    for rank in ranks:
        assert rank.stdout is not None
        assert "ready" in rank.stdout.readline()
    return ranks


def told(ranks: list[Process]) -> list[dict[str, Any]]:
    outcomes = finish(ranks, 120)
    assert [o.status for o in outcomes] == [0, 0], "\n".join(o.output for o in outcomes)
    lines = [o.output.splitlines() for o in outcomes]
    told = [json.loads(next(x for x in some if x.startswith("{"))) for some in lines]
    for one in told:
        assert one["epochs"] == 0
        assert one["live"] == [0, 1]
    return told


def connections(path: LongPath, place: int) -> list[tuple[str, str]]:
    """Local and remote port of each connection there."""
    listed = subprocess.run(
        [*path.inside(place), "ss", "-tnH", "state", "established"],
        capture_output=True,
        text=True,
        timeout=20,
        check=True,
    )
    ends = [line.split()[2:4] for line in listed.stdout.splitlines()]
    return [(here.rsplit(":", 1)[1], there.rsplit(":", 1)[1]) for here, there in ends]


def reset(path: LongPath, place: int, ports: tuple[str, str]) -> None:
    here, there = ports
    command = [*path.inside(place), "ss", "-K", "sport", "=", here, "dport", "=", there]
    subprocess.run(command, capture_output=True, timeout=20, check=False)


@pytest.mark.parametrize("sealed", [False, True], ids=["plain", "sealed"])
def test_connections_of_the_living_may_be_reset_at_any_time(
    path: LongPath, tmp_path: Path, secret: dict[str, str], sealed: bool
) -> None:
    env = {"COUNT": "50000", "ROUNDS": "40"}
    ranks = start(path, tmp_path, {**env, **(secret if sealed else {})})
    dice = random.Random(7)
    resets = 0
    while all(rank.poll() is None for rank in ranks) and resets < 16:
        time.sleep(dice.uniform(0.2, 0.6))
        place = dice.randrange(2)
        standing = connections(path, place)
        # One of them, or all.
        for ports in standing if dice.random() < 0.3 else standing[:1]:
            reset(path, place, ports)
            resets += 1
    assert resets > 5
    for one in told(ranks):
        assert max(one["took"]) < 3 * ROUND_TRIP_S + 0.05 + SLACK_S


@pytest.mark.parametrize("direction", ["both", "ab"])
def test_a_flap_costs_its_length(
    path: LongPath, tmp_path: Path, secret: dict[str, str], direction: str
) -> None:
    outage_s = 2.0
    ranks = start(path, tmp_path, {**secret, "COUNT": "2000000", "ROUNDS": "4"})
    for rank in ranks:
        assert rank.stdout is not None
        assert "began" in rank.stdout.readline()
    time.sleep(0.3)
    path.set(direction, still=1)
    time.sleep(outage_s)
    path.set(direction, still=0)
    for one in told(ranks):
        undisturbed = one["took"][0]
        allowed = undisturbed + outage_s + 3 * ROUND_TRIP_S + 0.3 + SLACK_S
        assert max(one["took"]) < allowed, one["took"]


def test_options_of_trunks_say_what_is_accepted() -> None:
    with pytest.raises(ConfigError, match=r'option trunk = "maybe"; accepted: "auto", "on" or'):
        Options(trunk="maybe")
    with pytest.raises(ConfigError, match=r"option lanes = 17; accepted: .*1 to 16"):
        Options(lanes=17)
