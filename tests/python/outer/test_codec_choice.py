"""The choice of a codec, a pure function: simulated members, rates, noise; what is refused."""

from __future__ import annotations

import random
from dataclasses import dataclass
from itertools import pairwise

import pytest

torch = pytest.importorskip("torch", reason="waits for torch: trainers are made of it")

from holdfast.errors import ConfigError  # noqa: E402
from holdfast.ft.outer import codec_choice, codec_list  # noqa: E402
from holdfast.ft.outer.codec_choice import Listed, State, Told  # noqa: E402
from holdfast.ft.outer.codec_record import Record  # noqa: E402
from holdfast.ft.outer.round_time import Rates, Shape, exchange_s, round_s  # noqa: E402
from holdfast.topology.codec_cost import CodecCost  # noqa: E402
from holdfast.topology.link_fit import LinkModel  # noqa: E402

LISTED = [Listed("bf16", 0.5), Listed("int8", 0.258), Listed("int4", 0.133)]
# Bytes a second that are encoded, and decoded, of input.
RATES = (8e9, 8e9, 2e9, 4e9, 1.5e9, 3e9)
SPEEDS = tuple(1 / rate for rate in RATES)
COSTS = [CodecCost(one.ratio, *SPEEDS[2 * i : 2 * i + 2]) for i, one in enumerate(LISTED)]
ROUND_TRIP_S = 0.03
MEMBERS = 4
COUNT = 3_000_000
# Computation of a round: with 120 Mbit/s int8 takes less, and bf16 more.
STEP_S, H = 0.01, 50


def link(mbit: float) -> LinkModel:
    return LinkModel(ROUND_TRIP_S / 2, 8e-6 / mbit, 0.0)


@dataclass
class Run:
    """What a simulated run did."""

    seconds: list[float]  # by round
    codecs: list[int]
    changes: int


def shape_of(kind: str) -> Shape:
    return {
        "waits": Shape((COUNT,), H, 0),
        "whole round": Shape((COUNT,), H, H),
        "streams": Shape((COUNT // 2, COUNT // 2), H, 20),
    }[kind]


def simulate(
    shape: Shape, mbit: list[float], noise: float, seed: int = 0, fixed: int | None = None
) -> Run:
    """Rounds at the given rates; each member has its own record, and they always agree."""
    chance = random.Random(seed)
    records = [Record(len(LISTED), 1) for _ in range(MEMBERS)]
    run = Run([], [], 0)
    measured: Told | None = None
    state = State(len(LISTED) - 1)
    for number in range(len(mbit) * len(shape.counts)):
        part, at = number % len(shape.counts), mbit[number // len(shape.counts)]
        for record in records if fixed is None else []:
            state = record.read()
            if (report := record.kept(number - 1)) is not None:
                state = codec_choice.after(state, number, report, number - 2, shape, LISTED)
                record.write(state)
            record.number = number + 1
        assert all(torch.equal(one.tensor, records[0].tensor) for one in records)
        index = state.index if fixed is None else fixed
        run.changes += bool(run.codecs) and index != run.codecs[-1]
        run.codecs.append(index)
        late = 1 + noise * chance.uniform(-1, 1)
        rates = Rates(MEMBERS, STEP_S, link(at * late))
        took = exchange_s(shape.counts[part], rates, COSTS[index])
        # A stride's computation, and what is not hidden of this exchange.
        stride = shape.inner_steps / len(shape.counts) * STEP_S
        run.seconds.append(stride + max(0.0, took - shape.delay * STEP_S))
        told = []
        for _ in range(MEMBERS):
            mine = measured or Told(0, 0, 0, 0, STEP_S, SPEEDS)
            # Members begin at other times, and their clocks see other ends.
            early = chance.uniform(0, 0.2) if noise else 0.0
            told.append(
                Told(
                    mine.frame,
                    mine.whole_s + early * mine.whole_s,
                    mine.latency_s + early * mine.whole_s,
                    mine.coding_s,
                    STEP_S * (1 + noise / 4 * chance.uniform(-1, 1)),
                    SPEEDS,
                )
            )
        told[number % MEMBERS] = measured or told[number % MEMBERS]
        for record in records if fixed is None else []:
            record.keep(number, codec_choice.agreed(told))
        measured = Told(
            4 * shape.counts[part] * LISTED[index].ratio,
            took,
            ROUND_TRIP_S,
            codec_choice.coding_s(shape.counts[part], MEMBERS, LISTED, index, SPEEDS),
            STEP_S,
            SPEEDS,
        )
    return run


SHAPES = ("waits", "whole round", "streams")


@pytest.mark.parametrize("noise", [0.0, 0.15])
@pytest.mark.parametrize("mbit", [10.0, 30.0, 100.0, 300.0, 1000.0])
@pytest.mark.parametrize("kind", SHAPES)
def test_it_is_within_a_tenth_of_the_best_fixed_codec_and_changes_once(kind, mbit, noise):
    shape = shape_of(kind)
    for seed in range(3):
        run = simulate(shape, [mbit] * 60, noise, seed)
        fixed = [
            sum(simulate(shape, [mbit] * 60, noise, seed, fixed=i).seconds)
            for i in range(len(LISTED))
        ]
        assert run.changes <= 1, run.codecs
        assert sum(run.seconds) <= 1.1 * min(fixed), (run.codecs, fixed)


@pytest.mark.parametrize("noise", [0.0, 0.15])
@pytest.mark.parametrize("rates", [(1000.0, 10.0), (10.0, 1000.0), (100.0, 10.0, 1000.0)])
@pytest.mark.parametrize("kind", SHAPES)
def test_it_changes_at_most_once_per_change_of_the_rate(kind, rates, noise):
    shape, each = shape_of(kind), 120
    mbit = [rate for rate in rates for _ in range(each)]
    per_phase = each * len(shape.counts)
    for seed in range(3):
        run = simulate(shape, mbit, noise, seed)
        # The first change is from the smallest frames, with which a run begins.
        assert run.changes <= len(rates), run.codecs
        for phase, rate in enumerate(rates):
            inside = slice(phase * per_phase, (phase + 1) * per_phase)
            best = min(
                sum(simulate(shape, [rate] * each, noise, seed, fixed=i).seconds)
                for i in range(len(LISTED))
            )
            own = run.codecs[inside]
            assert sum(a != b for a, b in pairwise(own)) <= 1
            assert sum(run.seconds[inside]) <= 1.1 * best + 8 * max(run.seconds[inside])
            settled = run.seconds[inside][20:]
            assert sum(settled) / len(settled) <= 1.1 * best / per_phase


def test_the_least_lossy_that_is_hidden_is_taken_and_else_the_shortest_round():
    chosen = {
        mbit: simulate(shape_of("whole round"), [mbit] * 30, 0.0).codecs[-1]
        for mbit in (1.0, 120.0, 1000.0)
    }
    assert chosen == {1.0: 2, 120.0: 1, 1000.0: 0}
    # Who waits for exchanges pays for each byte until they cost little.
    assert simulate(shape_of("waits"), [100.0] * 30, 0.0).codecs[-1] == 2
    assert simulate(shape_of("waits"), [40_000.0] * 30, 0.0).codecs[-1] == 0


def test_a_slow_encoder_is_left_out_where_its_encoding_is_longer_than_what_it_saves():
    # A million times slower: int4 cannot be the shortest.
    shape = shape_of("waits")
    slow = (*SPEEDS[:4], 1e-7, 1e-7)
    report = codec_choice.Report(Rates(MEMBERS, STEP_S, link(50)), slow)
    state = State(2)
    for number in range(3):
        state = codec_choice.after(state, number + 2, report, number, shape, LISTED)
    assert LISTED[state.index].codec == "int8"


def test_a_codec_that_was_predicted_wrongly_is_tried_once():
    # With bf16 the rate is a third of what it is with the others, as over a path that drops bursts.
    shape = shape_of("whole round")
    state, codecs = State(2), []
    for number in range(2, 60):
        rate = 100.0 if state.index == 0 else 300.0
        report = codec_choice.Report(Rates(MEMBERS, STEP_S, link(rate)), SPEEDS)
        state = codec_choice.after(state, number, report, number - 2, shape, LISTED)
        codecs.append(state.index)
    changes = sum(a != b for a, b in pairwise(codecs))
    assert 0 in codecs
    assert codecs[-1] != 0
    assert changes == 2
    # And again when there is more room.
    for number in range(60, 70):
        report = codec_choice.Report(Rates(MEMBERS, STEP_S, link(600.0)), SPEEDS)
        state = codec_choice.after(state, number, report, number - 2, shape, LISTED)
    assert state.index == 0


def test_reports_of_exchanges_from_before_a_change_do_not_count():
    shape = shape_of("whole round")
    report = codec_choice.Report(Rates(MEMBERS, STEP_S, link(1000)), SPEEDS)
    state = State(1, since=10, before=2)
    for of in range(10):
        assert codec_choice.after(state, of + 2, report, of, shape, LISTED) == state


def test_nothing_is_agreed_on_where_nobody_has_measured_or_is_alone():
    mute = Told(0, 0, 0, 0, 0.1, SPEEDS)
    loud = Told(1e6, 1.0, 0.1, 0.2, 0.1, SPEEDS)
    assert codec_choice.agreed([mute, mute]) is None
    assert codec_choice.agreed([loud]) is None
    assert codec_choice.agreed([mute, loud]) is not None
    # Who began last has waited for nobody, and the slowest computes longest.
    early = Told(1e6, 1.5, 0.6, 0.2, 0.3, SPEEDS)
    both = codec_choice.agreed([early, loud])
    assert both is not None
    assert both.rates.step_s == 0.3
    assert both.rates.link.alpha == pytest.approx(0.05)
    assert both.rates.link.beta == pytest.approx(0.7e-6)


def test_a_reason_names_codecs_rate_computation_and_what_each_would_take():
    run_state = State(2)
    assert "until rates" in codec_choice.told_of(run_state, shape_of("waits"), LISTED)
    report = codec_choice.Report(Rates(MEMBERS, STEP_S, link(1000)), SPEEDS)
    shape = shape_of("whole round")
    for number in range(3):
        run_state = codec_choice.after(run_state, number + 2, report, number, shape, LISTED)
    told = codec_choice.told_of(run_state, shape, LISTED)
    assert told.startswith("bf16 instead of int4: at 1e+03 Mbit/s, a round trip of 30 ms")
    assert all(f"s with {one.codec}" in told for one in LISTED)


def test_a_record_gives_back_what_was_written():
    record = Record(3, 2)
    assert record.read() == State(2)
    assert record.kept(-1) is None
    report = codec_choice.Report(Rates(3, 0.25, LinkModel(0.01, 1e-7, 0.0)), SPEEDS)
    state = State(1, 7, -1.0, True, report, 2, report)
    record.write(state)
    record.number = 9
    record.keep(8, report)
    assert record.read() == state
    assert record.number == 9
    assert record.kept(8) == report
    assert record.kept(6) is None
    record.keep(8, None)
    assert record.kept(8) is None


def test_rounds_are_predicted_with_what_is_not_hidden():
    rates = Rates(2, 0.1, LinkModel(0.01, 1e-6, 0.0))
    plain = CodecCost(1.0, 0.0, 0.0)
    # 250,000 elements are a megabyte, and two members send all of it.
    assert exchange_s(250_000, rates, plain) == pytest.approx(1.02)
    assert round_s(Shape((250_000,), 10, 0), rates, plain) == pytest.approx(2.02)
    assert round_s(Shape((250_000,), 10, 10), rates, plain) == pytest.approx(1.02)
    assert round_s(Shape((250_000, 250_000), 10, 5), rates, plain) == pytest.approx(2.04)


# ---- the list ------------------------------------------------------------------------------------


def test_a_list_is_told_as_the_runtime_spells_it():
    assert codec_list.listed(" auto( bf16, int8(block=64) ,int4 )") == (
        "bf16",
        "int8(block=64)",
        "int4(block=128)",
    )
    assert codec_list.listed("auto(fp16,topk(ratio=0.01))")[1].startswith("topk")
    assert codec_list.listed("int8") == ()
    assert codec_list.listed(None) == ()
    assert codec_list.text_of(codec_list.listed("auto(bf16, int4)")) == "auto(bf16,int4(block=128))"


@pytest.mark.parametrize(
    ("codec", "named"),
    [
        ("auto", "no list in parentheses"),
        ("auto()", "the list is empty"),
        ("auto(bf16,)", "a codec has no name"),
        ("auto(bf16,int9)", "int9"),
        ("auto(bf16,auto(int8,int4))", "a list in a list"),
        ("auto(bf16,auto)", "a list in a list"),
        ("auto(zstd,int8)", "zstd(level=1) loses nothing"),
        ("auto(bf16,int8,bf16)", "bf16 is there twice"),
        ("auto(bf16,int8(block=64)", "parentheses do not match"),
        ("auto(int8", "no list in parentheses"),
        ("auto(int8))", "parentheses do not match"),
    ],
)
def test_a_list_from_which_nothing_can_be_chosen_is_refused(codec, named):
    with pytest.raises(ConfigError) as caught:
        codec_list.listed(codec)
    assert named in str(caught.value)
    assert repr(codec) in str(caught.value)
    assert "accepted: auto(CODEC,...)" in str(caught.value)
