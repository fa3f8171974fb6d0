"""``holdfast plan --trainer``: what it advises, by the pure function and by the command."""

from __future__ import annotations

import json
import math

import pytest

from holdfast import ConfigError
from holdfast.cli import main
from holdfast.ft.outer import trainer_plan
from holdfast.ft.outer.round_time import Rates
from holdfast.ft.outer.trainer_plan import INNER_STEPS, Task
from holdfast.topology import chart
from holdfast.topology.codec_cost import CodecCost
from holdfast.topology.link_fit import LinkModel
from holdfast.topology.slowest import slowest_link

CODECS = (
    ("bf16", CodecCost(0.5, 1e-10, 1e-10)),
    ("int8", CodecCost(0.258, 4e-10, 3e-10)),
    ("int4", CodecCost(0.133, 6e-10, 4e-10)),
)


def task(parameters: float = 1e9, mbit: float = 100, step_s: float = 1.0, **more) -> Task:
    rates = Rates(4, step_s, LinkModel(0.03, 8e-6 / mbit, 0.0))
    return Task(int(parameters), rates, CODECS, **more)


# ---- the function --------------------------------------------------------------------------------


@pytest.mark.parametrize("mbit", [10, 30, 100, 300, 1000, 10_000, 100_000])
@pytest.mark.parametrize("parameters", [1e6, 1e8, 1e9, 1e10])
def test_a_plan_makes_a_trainer_and_says_the_truth_of_it(parameters, mbit):
    made = trainer_plan.plan(task(parameters, mbit))
    assert made.inner_steps % made.fragments == 0
    assert made.delay < made.inner_steps
    assert (made.delay == 0) == (made.method == "DiLoCo")
    assert 0 <= made.exposed < 1
    assert 0 <= made.hidden <= 1
    assert made.round_s == pytest.approx(made.compute_s / (1 - made.exposed))
    if made.is_enough:
        assert made.round_s <= 1.03 * made.compute_s
    else:
        assert made.inner_steps == INNER_STEPS[-1]
        assert made.codec == "int4"
    # A member sends no more than its link takes.
    assert made.peak_bytes_per_s <= 1.001 * mbit / 8e-6
    assert made.bytes_per_day <= made.peak_bytes_per_s * 86400 * 1.001


def test_rounds_are_as_short_as_links_allow_and_codecs_as_exact():
    plans = [trainer_plan.plan(task(mbit=mbit)) for mbit in (10, 50, 100, 500, 1000, 5000)]
    steps = [one.inner_steps for one in plans]
    assert steps == sorted(steps, reverse=True)
    for mbit, made in zip((10, 50, 100, 500, 1000, 5000), plans, strict=True):
        shorter = tuple(h for h in INNER_STEPS if h < made.inner_steps)
        if shorter:
            assert not trainer_plan.plan(task(mbit=mbit, inner_steps=shorter)).is_enough
        names = [name for name, _ in CODECS]
        better = CODECS[: names.index(made.codec)]
        if better and made.is_enough:
            only = Task(10**9, task(mbit=mbit).rates, better, inner_steps=(made.inner_steps,))
            assert not trainer_plan.plan(only).is_enough


def test_who_waits_is_advised_where_an_exchange_is_short_beside_a_round():
    assert trainer_plan.plan(task(1e6, 1000)).method == "DiLoCo"
    streaming = trainer_plan.plan(task(1e9, 100))
    assert streaming.method == "StreamingDiLoCo"
    # As little delay as it needs with a quarter of the rate in reserve, and no more.
    needed = streaming.exchange_s / 0.75
    assert needed - 1 <= streaming.delay <= math.ceil(needed) + 1


def test_a_method_that_was_asked_for_is_planned():
    for method in trainer_plan.METHODS:
        made = trainer_plan.plan(task(methods=(method,), inner_steps=(50,)))
        assert (made.method, made.inner_steps) == (method, 50)
    overlapped = trainer_plan.plan(task(methods=("CO2",)))
    assert overlapped.delay == overlapped.inner_steps
    assert overlapped.fragments == 1


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ({"parameters": 0}, "parameters = 0"),
        ({"step_s": 0.0}, "seconds of a local step = 0.0"),
        ({"methods": ("FedAvg",)}, "'FedAvg'"),
        ({"inner_steps": (7,)}, "multiple of fragments = 2"),
    ],
)
def test_what_is_no_task_is_refused(wrong, named):
    with pytest.raises(ConfigError, match=named):
        trainer_plan.plan(task(**wrong))


# ---- the map -------------------------------------------------------------------------------------


def a_map(shared=()) -> str:
    """Three ranks; the second pair is the slowest, the third the farthest."""
    pairs = [
        {"ranks": [0, 1], "mbit": 1000, "delay_us": 1000},
        {"ranks": [0, 2], "mbit": 100, "delay_us": 2000},
        {"ranks": [1, 2], "mbit": 400, "delay_us": 30_000},
    ]
    gbit = [[0.0] * 3 for _ in range(3)]
    alpha = [[0.0] * 3 for _ in range(3)]
    for pair in pairs:
        a, b = pair["ranks"]
        gbit[a][b] = gbit[b][a] = pair["mbit"] / 1000
        alpha[a][b] = alpha[b][a] = pair["delay_us"]
    return json.dumps(
        {"format": 1, "ranks": 3, "gbit_per_s": gbit, "alpha_us": alpha, "shared": list(shared)}
    )


def test_a_map_is_as_slow_as_its_slowest_pair_and_as_far_as_its_farthest():
    link = slowest_link(chart.read(a_map()))
    assert 8e-6 / link.beta == pytest.approx(100)
    assert link.alpha == pytest.approx(0.03)


def test_what_pairs_share_is_divided_among_them():
    line = {"name": "line", "gbit_per_s": 0.06, "from": [0, 1], "to": [2]}
    link = slowest_link(chart.read(a_map([line])))
    # Two ranks send one half each of what they send to all over it.
    assert 8e-6 / link.beta == pytest.approx(60)


# ---- the command ---------------------------------------------------------------------------------

GIVEN = (
    *("--parameters", "1.2B", "--step-seconds", "0.8"),
    *("-n", "4", "--mbit", "200", "--rtt", "60"),
)


def told(capsys, *arguments: str) -> str:
    assert main(["plan", "--trainer", *arguments]) == 0
    return capsys.readouterr().out


def test_the_command_says_the_same_as_text_and_as_json(capsys):
    found = json.loads(told(capsys, *GIVEN, "--json"))
    text = told(capsys, *GIVEN)
    assert found["members"] == 4
    assert f"trainer = holdfast.ft.{found['method']}(\n    model, inner, group, inner" in text
    assert f"delay={found['delay']}" in text
    assert f'codec="{found["codec"]}"' in text
    for word in ("hidden", "GB a day", "peak", "waiting", "1,200,000,000 parameters"):
        assert word in text
    # 4 x 1.2 billion bytes, three halves of them, at each of the steps of a day.
    steps = 86400 / found["round_s"] * found["inner_steps"]
    each_step = 1.5 * 4.8e9 * steps
    assert found["fewer_than_ddp"] == pytest.approx(each_step / found["bytes_per_day"])


def test_computation_may_be_given_in_tokens_and_links_by_a_map(capsys, tmp_path):
    file = tmp_path / "map.json"
    file.write_text(a_map())
    tokens = ("--tokens-per-second", "20000", "--tokens-per-step", "10000")
    found = json.loads(
        told(capsys, "--parameters", "50M", *tokens, "--topology", str(file), "--json")
    )
    assert found["members"] == 3
    assert found["compute_s"] == pytest.approx(0.5 * found["inner_steps"])
    same = told(
        *(capsys, "--parameters", "50M", "--step-seconds", "0.5", "-n", "3"),
        *("--mbit", "100", "--rtt", "60", "--json"),
    )
    assert json.loads(same)["inner_steps"] == found["inner_steps"]


def test_what_is_not_hidden_is_told(capsys):
    text = told(
        *(capsys, "--parameters", "7B", "--step-seconds", "0.1", "-n", "4", "--mbit", "1"),
        *("--inner-steps", "10", "--codec", "bf16"),
    )
    assert "Not hidden" in text


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (("--trainer",), "the links are not known"),
        (("--trainer", *GIVEN[2:]), "--parameters is missing"),
        (("--trainer", *GIVEN, "--parameters", "many"), "--parameters many"),
        (("--trainer", *GIVEN, "--tokens-per-second", "5"), "not known; accepted: --step-seconds"),
        (("--trainer", *GIVEN, "--step-seconds", "-1"), "--step-seconds -1"),
        (("--trainer", *GIVEN, "--mbit", "0"), "--mbit 0"),
        (("--trainer", *GIVEN, "-n", "2,4"), "--ranks 2,4"),
        (("--trainer", *GIVEN, "--topology", "/nowhere"), "the links are not known"),
        (("--trainer", *GIVEN[:4], "--topology", "/nowhere"), "/nowhere"),
        (("--trainer", *GIVEN, "--codec", "int9"), "int9"),
        (("--trainer", *GIVEN, "--codec", "zstd"), "known only afterwards"),
        (("--trainer", *GIVEN, "--codec", "int4+bf16"), "larger than those of int4"),
        (("--trainer", *GIVEN, "--inner-steps", "7"), "multiple of fragments = 2"),
        (("--trainer", *GIVEN, "--fragments", "3"), "give --inner-steps, too"),
        (("--trainer", *GIVEN, "--measure"), "--measure does not go with --trainer"),
        (("--trainer", *GIVEN, "--hosts", "2"), "--hosts does not go with --trainer"),
        (("--mbit", "5"), "--mbit goes with --trainer"),
    ],
)
def test_arguments_that_cannot_be_used_are_refused(capsys, arguments, named):
    assert main(["plan", *arguments]) == 2
    assert named in capsys.readouterr().err
