"""Links that are measured: on wires whose rates the kernel holds, and while a rank is killed."""

from __future__ import annotations

import json
import os
import signal
import statistics
import sys
from pathlib import Path

import pytest
from emulated_network import Network, Unavailable
from ranks import Outcome, finish, run_ranks, start_rank

import holdfast
from holdfast.topology import forest
from holdfast.topology.measure import measure


def told(outcome: Outcome) -> dict:
    assert outcome.status == 0, outcome.output
    (line,) = [x for x in outcome.output.splitlines() if x.startswith("MAP ")]
    return json.loads(line.removeprefix("MAP "))


def test_rates_of_cables_are_found(tmp_path) -> None:
    """Three hosts with 200 Mbit/s and one with 50: cards that pairs share, and no sites."""
    rates = [200, 200, 200, 50]
    try:
        with Network(4) as network:
            processes = []
            for rank, mbit in enumerate(rates):
                network.even_cable(rank, mbit)
                env = {
                    "HOLDFAST_TRANSPORTS": "tcp",
                    "HOLDFAST_ADDRESS": network.address(rank),
                    "HOLDFAST_HOST_ID": f"host{rank}",
                    "BUDGET": "3",
                    "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), *sys.path]),
                }
                at = (rank, 4, tmp_path, env, network.inside(rank))
                processes.append(start_rank("measure_ranks", "measure_links", *at))
            found = [told(outcome) for outcome in finish(processes, 90)]
    except Unavailable as why:
        pytest.skip(str(why))
    chart = found[0]["map"]
    assert all(one["map"] == chart for one in found)
    assert chart["domains"] == [[f"host-{host}"] for host in range(4)]
    pairs = chart["gbit_per_s"]
    fast = [pairs[a][b] for a in range(3) for b in range(3) if a != b]
    slow = [pairs[3][b] for b in range(3)] + [pairs[a][3] for a in range(3)]
    # TCP carries 0.95 of a rate. The machine has other work, so the middle of pairs counts.
    assert statistics.median(fast) == pytest.approx(0.19, rel=0.15)
    assert statistics.median(slow) == pytest.approx(0.0475, rel=0.15)
    cards = {one["name"]: one["gbit_per_s"] for one in chart["shared"]}
    whole = [rate for name, rate in cards.items() if name[:6] in ("host-0", "host-1", "host-2")]
    assert statistics.median(whole) == pytest.approx(0.19, rel=0.2)
    assert forest.plan(json.dumps(chart)).at.startswith('"host-3')


def test_ranks_of_one_host_are_measured_as_such(tmp_path) -> None:
    env = {"BUDGET": "0.5", "HOST_OF": "[0, 0, 0]"}
    outcomes = run_ranks("measure_ranks", "measure_links", 3, tmp_path, env=env)
    chart = told(outcomes[0])["map"]
    assert chart["domains"] == [["host-0"]] * 3
    assert chart["shared"] == []
    assert {rate for row in chart["gbit_per_s"] for rate in row if rate} != {40}


@pytest.mark.parametrize("policy", ["continue", "raise"])
@pytest.mark.parametrize("after", [0.02, 0.4, 0.9, 1.4])
def test_a_loss_while_measuring_is_one_answer_for_all(policy, after, tmp_path) -> None:
    env = {"HOLDFAST_TRANSPORTS": "tcp", "HOLDFAST_ON_PEER_LOSS": policy, "KILL_AFTER": str(after)}
    processes = [start_rank("measure_ranks", "lose_one", r, 4, tmp_path, env) for r in range(4)]
    outcomes = finish(processes, 60)
    assert outcomes[1].status == -signal.SIGKILL
    survivors = [outcomes[rank] for rank in (0, 2, 3)]
    for outcome in survivors:
        assert outcome.status == 0, outcome.output
    answers = {
        "LOST [1]" if "LOST [1]" in o.output else json.dumps(told(o)["map"]) for o in survivors
    }
    assert len(answers) == 1
    if policy == "continue":
        assert forest.plan(answers.pop()).ranks == 4


@pytest.mark.parametrize("budget", [0, -1, float("nan"), float("inf"), 3601])
def test_a_budget_that_cannot_be_used_is_named(budget) -> None:
    with pytest.raises(holdfast.ConfigError, match="budget"):
        measure(None, budget, [0, 1])  # type: ignore[arg-type]
