"""Plans on maps of links: against a linear program, by running their steps, and what is refused."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from collections import defaultdict, deque
from pathlib import Path

import pytest

from holdfast.errors import ConfigError
from holdfast.topology import forest

SIZE = 256 << 20


def cards(rates: list[tuple[float, float]]) -> list[dict]:
    """A network card for each rank: what it sends, and what it receives."""
    ranks = list(range(len(rates)))
    shared = []
    for rank, (out, into) in enumerate(rates):
        others = [r for r in ranks if r != rank]
        shared.append({"name": f"out {rank}", "gbit_per_s": out, "from": [rank], "to": others})
        shared.append({"name": f"into {rank}", "gbit_per_s": into, "from": others, "to": [rank]})
    return shared


def random_map(dice: random.Random, ranks: int) -> dict:
    kind = dice.choice(["cards", "sites", "pairs", "holes"])

    def pair(u: int, v: int) -> float:
        if kind in ("cards", "sites"):
            return 10
        hole = kind == "holes" and v != (u + 1) % ranks and dice.random() < 0.4
        return 0 if hole else round(dice.uniform(0.02, 0.9), 3)

    rates = [[0 if u == v else pair(u, v) for v in range(ranks)] for u in range(ranks)]
    shared = cards(
        [(round(dice.uniform(0.1, 1), 3), round(dice.uniform(0.1, 1), 3)) for _ in range(ranks)]
    )
    if kind == "sites":
        inside = sorted(dice.sample(range(ranks), dice.randint(1, ranks - 1)))
        outside = [r for r in range(ranks) if r not in inside]
        rate = round(dice.uniform(0.05, 0.5), 3)
        shared.append({"name": "up", "gbit_per_s": rate, "from": inside, "to": outside})
        shared.append({"name": "down", "gbit_per_s": rate, "from": outside, "to": inside})
    return {
        "format": 1,
        "ranks": ranks,
        "gbit_per_s": rates,
        "alpha_us": dice.choice([0, 100]),
        "shared": shared,
    }


def kbit(gbit: float) -> int:
    return round(gbit * 1e6)


@pytest.mark.parametrize("seed", range(12))
def test_no_plan_is_far_from_the_linear_programs_bound(seed) -> None:
    pytest.importorskip("scipy", reason="waits for scipy (the extra dev has it)")
    from holdfast.topology import exact

    dice = random.Random(seed)
    ranks = dice.randint(3, 8)
    chart = random_map(dice, ranks)
    collective = dice.choice(exact.COLLECTIVES)
    root = dice.randrange(ranks)
    rate = exact.largest_rate(
        ranks,
        [kbit(r) for row in chart["gbit_per_s"] for r in row],
        [(s["name"], kbit(s["gbit_per_s"]), s["from"], s["to"]) for s in chart["shared"]],
        collective,
        root,
    )
    best = SIZE * 8 / 1000 / rate
    made = forest.plan(json.dumps(chart), collective, size=SIZE, root=root)
    # What our search proves is never above the truth, and the plan is near it.
    assert made.bound_s <= best * 1.000001
    assert made.bound_s >= best * 0.98
    assert best * 0.999999 <= made.predicted_s - made.latency_s <= best * 1.05
    assert time_of(chart, made) == pytest.approx(made.predicted_s - made.latency_s, rel=1e-6)


def time_of(chart: dict, made: forest.ForestPlan) -> float:
    """Seconds by the plan's traffic and the map alone."""
    load = {(u, v): share for u, v, share in made.traffic}
    payload = made.bytes * 8
    times = [payload * share / (chart["gbit_per_s"][u][v] * 1e9) for (u, v), share in load.items()]
    for shared in chart["shared"]:
        share = sum(load.get((u, v), 0) for u in shared["from"] for v in shared["to"])
        times.append(payload * share / (shared["gbit_per_s"] * 1e9))
    return max(times)


# ---- the steps, run by a program that knows nothing but their form ----


class Machine:
    """Runs all ranks' steps; a chunk is a count of each rank's contribution in it."""

    def __init__(self, lines: list[dict]) -> None:
        self.head, steps = lines[0], lines[1:]
        ranks, chunks = self.head["ranks"], self.head["chunks"]
        self.steps: list[list[dict]] = [[s for s in steps if s["rank"] == r] for r in range(ranks)]
        self.memory: list[dict] = [
            {("input", c): {r: 1} for c in range(chunks)} for r in range(ranks)
        ]
        self.wire: dict[tuple[int, int, int], deque] = defaultdict(deque)
        self.done: list[set[int]] = [set() for _ in range(ranks)]
        self.sent: dict[tuple[int, int], float] = defaultdict(float)

    def run(self) -> None:
        moved = True
        while moved:
            moved = False
            for rank, steps in enumerate(self.steps):
                for number, step in enumerate(steps):
                    if number not in self.done[rank] and self.try_step(rank, step):
                        self.done[rank].add(number)
                        moved = True
        for rank, steps in enumerate(self.steps):
            assert len(self.done[rank]) == len(steps), f"rank {rank} hangs"
        assert not any(self.wire.values())

    def try_step(self, rank: int, step: dict) -> bool:
        if not self.done[rank].issuperset(step["after"]):
            return False
        memory = self.memory[rank]
        to, source, other = (
            (slot[0], slot[1]) if (slot := step.get(name)) else None
            for name in ("to", "from", "with")
        )
        if step["do"] == "send":
            share = self.head["shares"][source[1]] if source[0] != "scratch" else None
            self.wire[rank, step["peer"], step["ordinal"]].append(memory[source])
            self.sent[rank, step["peer"]] += share or 0
        elif step["do"] == "recv":
            queue = self.wire[step["peer"], rank, step["ordinal"]]
            if not queue:
                return False
            memory[to] = queue.popleft()
        elif step["do"] == "copy":
            memory[to] = memory[source]
        else:
            first, second = memory[source], memory[other]
            assert not first.keys() & second.keys(), "a contribution counts twice"
            memory[to] = {**first, **second}
        return True


@pytest.mark.parametrize("collective", forest.COLLECTIVES)
@pytest.mark.parametrize("seed", range(3))
def test_steps_do_what_the_collective_promises(seed, collective) -> None:
    dice = random.Random(100 + seed)
    ranks = dice.randint(2, 7)
    root = dice.randrange(ranks)
    text = json.dumps(random_map(dice, ranks))
    machine = Machine([json.loads(line) for line in forest.steps(text, collective, root=root)])
    assert len(machine.head["shares"]) == machine.head["chunks"]
    machine.run()
    everybody = dict.fromkeys(range(ranks), 1)
    of_a_block = machine.head["chunks"] // ranks
    for rank in range(ranks):
        if collective == "reduce" and rank != root:
            continue
        for chunk in range(machine.head["chunks"]):
            block = chunk // of_a_block
            if collective == "reduce_scatter" and block != rank:
                continue
            giver = {"broadcast": root, "all_gather": block}.get(collective)
            wanted = everybody if giver is None else {giver: 1}
            assert machine.memory[rank]["output", chunk] == wanted


def test_a_plan_says_what_a_group_takes(two_sites) -> None:
    text = two_sites.read_text()
    small = forest.plan(text, "all_reduce", size=4096)
    assert small.choice == "domain_exchange"
    assert small.choice_s < 12e-3
    for collective in ("reduce_scatter", "all_gather"):
        made = forest.plan(text, collective, size=64 << 20)
        assert made.predicted_s < 1.05 * made.bound_s + made.latency_s
        # Where one rank's card decides, a ring may do as well.
        assert made.choice_s < 1.05 * made.bound_s + made.latency_s


def test_a_plan_is_the_same_each_time_and_without_a_rank_another() -> None:
    text = json.dumps(random_map(random.Random(1), 6))
    made = forest.plan(text)
    assert forest.plan(text) == made
    left = forest.plan(text, without=[2, 4])
    assert (left.ranks, left.digest != made.digest) == (4, True)
    for without, told in [
        ([6], "without rank 6; accepted: 0 to 5"),
        ([-1], "without rank -1"),
        ([0, 1, 2, 3, 4], "without 5 of 6 ranks; accepted: two are left at least"),
    ]:
        with pytest.raises(ConfigError, match=told):
            forest.plan(text, without=without)


# ---- the command ----


def command(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "holdfast.cli", "plan", *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.fixture
def two_sites(tmp_path) -> Path:
    """Two sites of three ranks, with 200 Mbit/s between them; one rank has a slow card."""
    chart = {
        "format": 1,
        "levels": [
            {"name": "site", "count": 2, "gbit_per_s": 0.2, "alpha_us": 10000},
            {"name": "rank", "count": 3, "gbit_per_s": 1, "alpha_us": 100},
        ],
        "shared": [
            {"name": "modem", "gbit_per_s": 0.02, "from": [5], "to": [0, 1, 2, 3, 4]},
        ],
    }
    path = tmp_path / "map.json"
    path.write_text(json.dumps(chart))
    return path


def test_the_command_says_what_decides_and_what_would_help(two_sites) -> None:
    done = command("--topology", str(two_sites), "-c", "all_reduce", "--sizes", "32M")
    assert done.returncode == 0, done.stderr
    assert '"modem" of 20 Mbit/s decides' in done.stdout
    assert "without rank 5 " in done.stdout


def test_the_command_writes_json_and_steps(two_sites, tmp_path) -> None:
    pytest.importorskip("scipy", reason="waits for scipy (the extra dev has it)")
    steps = tmp_path / "steps.jsonl"
    done = command(
        *("--topology", str(two_sites), "-c", "all_reduce", "--without", "5", "--json"),
        *("--sizes", "32M", "--steps", str(steps), "--exact"),
    )
    assert done.returncode == 0, done.stderr
    made = json.loads(done.stdout)
    assert made["ranks"] == 5
    assert made["exact_s"] == pytest.approx((32 << 20) * 8 / 200e6, rel=1e-6)
    assert made["bound_s"] <= made["exact_s"] * 1.000001
    assert made["at"] == '"site-0 out"' or made["at"].startswith('"site')
    machine = Machine([json.loads(line) for line in steps.read_text().splitlines()])
    machine.run()
    assert len(machine.head["shares"]) % len(made["trees"]) == 0


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--topology", "nowhere.json"], "topology nowhere.json: "),
        (["--topology", "MAP", "-c", "scan"], "accepted: all, all_reduce, broadcast, reduce"),
        (["--topology", "MAP", "--root", "6", "-c", "reduce"], "root is 6; accepted: 0 to 5"),
        (["--topology", "MAP", "--steps", "x"], "--steps with 5 collectives; accepted: one"),
        (["--topology", "MAP", "--sizes", "much"], "much"),
        (["--root", "1"], "go with --topology"),
    ],
)
def test_what_the_command_cannot_use_is_told(arguments, told, two_sites) -> None:
    done = command(*(str(two_sites) if a == "MAP" else a for a in arguments))
    assert done.returncode == 2
    assert told in done.stderr
    assert done.stderr.count("\n") == 1


def mangled(text: str, dice: random.Random) -> str:
    """A document with a piece cut out, doubled, or replaced by what does not belong there."""
    first, last = sorted(dice.sample(range(len(text) + 1), 2))
    middle = dice.choice(["", "NaN", "-1", "1e999", "null", "[" * 40, '"', "{}", text[first:last]])
    return text[:first] + middle + text[last:]


def test_a_document_that_is_damaged_is_planned_or_refused() -> None:
    dice = random.Random(9)
    text = json.dumps(random_map(dice, 4))
    refused = 0
    for _ in range(2000):
        try:
            forest.plan(mangled(text, dice), size=1)
        except ConfigError as error:
            refused += 1
            assert str(error).startswith("topology: ")
            assert "\n" not in str(error)
    assert refused > 1500
