"""A link between distant hosts outlives its connections: they are reset, stop, and come again.

Two ranks are at the ends of an emulated path of 20 ms each way.
"""

from __future__ import annotations

import json
import random
import re
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from emulated_path import LongPath, Unavailable
from inside_pages import page_inside
from ranks import Process, finish, start_rank
from waiting import eventually

from holdfast import ConfigError, Options
from holdfast.cli import main
from holdfast.ft.health.evidence import metrics_of

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


def start(
    path: LongPath, here: Path, env: Mapping[str, str], function: str = "reduce_in_rounds"
) -> list[Process]:
    ranks = [
        start_rank(
            *("trunk_ranks", function, rank, 2, here),
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


PORT = 9400
PAGES = f"127.0.0.1:{PORT}"  # in each place


def page(path: LongPath, place: int, name: str) -> str:
    return page_inside(path.inside(place), PORT, name)


def far_link(path: LongPath, rank: int) -> dict[str, Any]:
    """What rank 0's page says of the link, as one of the two sees it; empty: nothing yet."""
    worlds = json.loads(page(path, 0, "status"))["worlds"]
    links = [link for world in worlds for link in world.get("far_links", [])]
    found = [link for link in links if link["rank"] == rank]
    return found[0] if found else {}


def holdfast(path: LongPath, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [*path.inside(0), sys.executable, "-m", "holdfast.cli", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def test_an_operator_sees_a_link_and_why_it_was_cut(path: LongPath, tmp_path: Path) -> None:
    env = {"HOLDFAST_HTTP": PAGES, "HERE": str(tmp_path), "HOLDFAST_HEARTBEAT": "0.2"}
    ranks = start(path, tmp_path, env, "reduce_until_told")
    for rank in range(2):
        link = eventually(
            lambda rank=rank: (x := far_link(path, rank)) and x["lanes"] > 1 and x["rtt_s"] and x
        )
        assert (link["peer"], link["state"], link["relayed"]) == (1 - rank, "well", False)
        assert ROUND_TRIP_S <= link["rtt_s"] < ROUND_TRIP_S + 0.2
        assert set(link["control"].split("+")) & {"bbr", "cubic", "reno"}
        assert (link["cuts"], link["cut_why"], link["cut_s"]) == (0, "", None)
    metrics = metrics_of(page(path, 1, "metrics"))
    assert metrics.by_peer("holdfast_link_lanes")[0] >= 1
    assert metrics.by_peer("holdfast_link_relayed") == {0: 0}
    assert ROUND_TRIP_S <= metrics.by_peer("holdfast_link_rtt_seconds")[0] < ROUND_TRIP_S + 0.2
    assert set(metrics.by("holdfast_link_control_info", "control")) <= {"bbr", "cubic", "reno"}

    while (link := far_link(path, 0))["recent_cuts"] < 6:
        for ports in connections(path, 0):
            reset(path, 0, ports)
    assert link["state"] in ("mended", "cut")
    assert link["cut_why"] == "reset"
    assert link["cut_s"] < 30
    assert link["cuts"] >= 6
    cuts = metrics_of(page(path, 0, "metrics")).by("holdfast_link_cuts_total", "why")
    assert cuts["reset"] >= 6
    assert eventually(lambda: far_link(path, 0)["resumed"]) > 0

    shown = holdfast(path, "top", "--once", PAGES)
    assert shown.returncode == 0, shown.stderr
    assert "far links" in shown.stdout
    assert re.search(r"cut [\d.]+ s ago +reset ", shown.stdout), shown.stdout
    looked = holdfast(path, "doctor", "--json", PAGES)
    assert looked.returncode == 1, looked.stderr
    found = {f["kind"]: f for f in json.loads(looked.stdout)["findings"]}
    assert found["flapping-link"]["culprit"]["link"] == [0, 1]
    (tmp_path / "stop").touch()
    told(ranks)


def test_options_of_trunks_say_what_is_accepted() -> None:
    with pytest.raises(ConfigError, match=r'option trunk = "maybe"; accepted: "auto", "on" or'):
        Options(trunk="maybe")
    with pytest.raises(ConfigError, match=r"option lanes = 17; accepted: .*1 to 16"):
        Options(lanes=17)
