"""Groups that measure their links, over emulated sites, and while a rank is killed."""

from __future__ import annotations

import json
import os
import signal
import statistics
import sys
from pathlib import Path

import pytest
from emulated_network import Network, Unavailable
from emulated_sites import Sites
from ranks import Outcome, finish, run_ranks, start_rank

from holdfast import cli
from holdfast.topology import partition


def told(outcome: Outcome) -> dict:
    assert outcome.status == 0, outcome.output
    (line,) = [x for x in outcome.output.splitlines() if x.startswith("MAP ")]
    return json.loads(line.removeprefix("MAP "))


def run(function: str, network: Network, host_of: list[int], here: Path) -> list[dict]:
    processes = []
    for rank, host in enumerate(host_of):
        env = {
            "HOLDFAST_TRANSPORTS": "shm,tcp",
            "HOLDFAST_ADDRESS": network.address(host),
            "HOLDFAST_HOST_ID": f"host{host}",
            "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), *sys.path]),
        }
        at = (rank, len(host_of), here, env, network.inside(host))
        processes.append(start_rank("map_ranks", function, *at))
    return [told(outcome) for outcome in finish(processes, 90)]


def far_rate(chart: dict) -> float:
    """Of pairs across the line, the middle one."""
    rates = chart["gbit_per_s"]
    far = [rates[0][1], rates[1][0], rates[2][3], rates[3][2], rates[0][3], rates[2][1]]
    return statistics.median(far)


def is_undisturbed(chart: dict) -> bool:
    """Whether no neighbour was busy: lines look slower then, or faster, after a pause."""
    shared = [one["gbit_per_s"] for one in chart.get("shared", [])]
    return all(rate > 0.038 for rate in shared) and 0.0404 < far_rate(chart) < 0.0546


def test_sites_rates_and_a_shared_line_are_found(tmp_path) -> None:
    """Two sites of two hosts: cables of 200 Mbit/s, a line of 50 between the sites."""
    site_of, host_of = [0, 1, 0, 1], [0, 1, 2, 3, 3]
    try:
        with Sites(site_of) as network:
            for site in (0, 1):
                network.line(site, 50)
            for host in range(4):
                network.even_cable(host, 200)
            for attempt in range(3):
                here = tmp_path / str(attempt)
                here.mkdir()
                found = run("measure_links", network, host_of, here)
                if is_undisturbed(found[0]["map"]):
                    break
    except Unavailable as why:
        pytest.skip(str(why))
    assert len({one["digest"] for one in found}) == 1
    chart = found[0]["map"]
    assert [path[0] for path in chart["domains"]] == [f"site-{site_of[h]}" for h in host_of]
    assert chart["domains"][3] == chart["domains"][4]
    rates, delays = chart["gbit_per_s"], chart["alpha_us"]
    # TCP carries 0.95 of a rate. The machine is shared, so the middle of pairs counts.
    near = [rates[0][2], rates[2][0], rates[1][3], rates[3][1]]
    assert statistics.median(near) == pytest.approx(0.19, rel=0.15)
    assert far_rate(chart) == pytest.approx(0.0475, rel=0.15)
    assert 0 < min(delays[0][1], delays[2][3]) < 5000
    lines = [one for one in chart["shared"] if one["name"].startswith("site")]
    assert {tuple(one["from"]) for one in lines} == {(0, 2), (1, 3, 4)}
    for one in lines:
        assert one["gbit_per_s"] == pytest.approx(0.0475, rel=0.2)
    assert partition(json.dumps(chart), 1).shape == (5,)


def test_the_map_follows_a_cable_that_is_slower_than_it_says(tmp_path) -> None:
    try:
        with Network(3) as network:
            for host in range(3):
                network.even_cable(host, 25 if host == 2 else 100)
            found = run("follow_traffic", network, [0, 1, 2], tmp_path)
    except Unavailable as why:
        pytest.skip(str(why))
    assert len({tuple(one["changes"]) for one in found}) == 1
    assert any("2" in change.split(":")[0] for change in found[0]["changes"]), found


def test_one_host_is_a_map_of_its_memory(tmp_path) -> None:
    outcomes = run_ranks("map_ranks", "measure_links", 3, tmp_path)
    chart = told(outcomes[0])["map"]
    assert chart["domains"] == [["host-0"]] * 3
    assert "shared" not in chart
    # One pair is measured, and stands for all.
    assert chart["gbit_per_s"] > 0


def test_a_loss_while_measuring_leaves_all_survivors_with_one_map(tmp_path) -> None:
    environment = [
        {"HOLDFAST_TRANSPORTS": "tcp", "HOLDFAST_HOST_ID": f"host{rank}"} for rank in range(4)
    ]
    processes = [
        start_rank("map_ranks", "lose_one_while_measuring", rank, 4, tmp_path, env)
        for rank, env in enumerate(environment)
    ]
    outcomes = finish(processes, 90)
    assert outcomes[1].status == -signal.SIGKILL
    for rank in (0, 2, 3):
        assert outcomes[rank].status == 0, outcomes[rank].output


def test_the_command_writes_the_map(tmp_path, capfd, monkeypatch) -> None:
    out = tmp_path / "map.json"
    command = ["-m", "holdfast.cli", "topology", "measure", "--budget", "1", "--out", str(out)]
    assert cli.main(["run", "-n", "2", sys.executable, *command]) == 0
    assert "2 ranks, map " in capfd.readouterr().out
    assert cli.main(["topology", "show", str(out)]) == 0
