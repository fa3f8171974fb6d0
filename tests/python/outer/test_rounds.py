"""Rounds as data: every table has what a table must have, and what has not is told apart."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from collections import Counter

import pytest

from holdfast.errors import ConfigError
from holdfast.ft.outer.fragments import layer_of, strides
from holdfast.ft.outer.rounds import Event, Rounds, check, table


def parts(count: int) -> tuple[tuple[str, ...], ...]:
    return tuple((f"layers.{i}.weight", f"layers.{i}.bias") for i in range(count))


SHAPES = [
    (steps, fragments, delay)
    for fragments in (1, 2, 3, 5)
    for steps in (fragments, 2 * fragments, 6 * fragments)
    for delay in sorted({0, 1, steps // 2, steps - 1, steps})
    if delay <= steps
]


@pytest.mark.parametrize(("steps", "fragments", "delay"), SHAPES)
def test_each_fragment_is_exchanged_once_a_round_and_ends_after_its_delay(steps, fragments, delay):
    rounds = table("any", steps, parts(fragments), delay)
    counts = Counter((event.act, event.fragment) for event in rounds.events)
    assert set(counts.values()) == {1}
    assert len(counts) == 3 * fragments
    flying: dict[int, int] = {}
    most, ends = 0, []
    for step in range(1, 4 * steps + 1):
        for event in rounds.after((step - 1) % steps + 1):
            if event.act == "begin":
                assert event.fragment not in flying
                flying[event.fragment] = step
                most = max(most, len(flying))
            elif event.act == "end" and event.fragment in flying:
                assert step - flying.pop(event.fragment) == delay
                ends.append(event.fragment)
    assert most == rounds.in_flight
    assert ends == [i % fragments for i in range(len(ends))]
    assert len(ends) >= 3 * fragments - most


def test_a_table_prints_as_what_is_done_after_which_step():
    assert str(table("StreamingDiLoCo", 6, parts(2), 2)) == (
        "StreamingDiLoCo: rounds of 6 local steps, 2 fragments, delay 2, at most 1 in flight\n"
        "after step 2: end 1, mix 1\n"
        "after step 3: begin 0\n"
        "after step 5: end 0, mix 0\n"
        "after step 6: begin 1"
    )
    assert str(table("AsyncDiLoCo", 4, parts(1), 4, own=True)) == (
        "AsyncDiLoCo: rounds of 4 local steps, 1 fragment, delay 4, at most 1 in flight\n"
        "after step 4: end 0, mix 0, begin 0, own 0"
    )


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((50, 3, 0), ["inner_steps = 50 with 3 fragments", "a multiple of 3", "48 or 51"]),
        ((2, 3, 0), ["a multiple of 3", "3"]),
        ((0, 1, 0), ["inner_steps = 0", "1 and more"]),
        ((4, 1, 5), ["delay = 5", "0 to 4"]),
        ((4, 1, -1), ["delay = -1", "0 to 4"]),
        ((4, 0, 0), ["fragments = 0", "1 and more"]),
    ],
)
def test_numbers_that_make_no_table_are_refused_with_what_would(arguments, words):
    steps, fragments, delay = arguments
    with pytest.raises(ConfigError) as refused:
        table("any", steps, parts(fragments), delay)
    assert all(word in str(refused.value) for word in words)


GOOD = table("any", 6, parts(3), 2)


def without(number: int) -> Rounds:
    events = GOOD.events[:number] + GOOD.events[number + 1 :]
    return dataclasses.replace(GOOD, events=events)


def moved(act: str, step: int) -> Rounds:
    events = [dataclasses.replace(e, step=step) if e.act == act else e for e in GOOD.events]
    return dataclasses.replace(GOOD, events=tuple(sorted(events, key=lambda e: e.step)))


def swapped(act: str) -> Rounds:
    other = {0: 1, 1: 0, 2: 2}
    events = [
        dataclasses.replace(e, fragment=other[e.fragment]) if e.act == act else e
        for e in GOOD.events
    ]
    return dataclasses.replace(GOOD, events=tuple(events))


WRONG = {
    "a begin that is missing": without([e.act for e in GOOD.events].index("begin")),
    "an end that is missing": without([e.act for e in GOOD.events].index("end")),
    "a mix that is missing": without([e.act for e in GOOD.events].index("mix")),
    "two begins": dataclasses.replace(GOOD, events=(*GOOD.events, Event(6, "begin", 2))),
    "ends in another order": swapped("end"),
    "mixes before ends": swapped("mix"),
    "all begin at once": moved("begin", 1),
    "all end at once": moved("end", 6),
    "steps that go back": dataclasses.replace(GOOD, events=GOOD.events[::-1]),
    "a step outside": dataclasses.replace(GOOD, inner_steps=5),
    "another delay": dataclasses.replace(GOOD, delay=1),
    "too many in flight": dataclasses.replace(table("any", 6, parts(3), 4), in_flight=1),
    "a parameter in two fragments": dataclasses.replace(GOOD, parts=(("a",), ("b",), ("a",))),
    "an empty fragment": dataclasses.replace(GOOD, parts=(("a",), ("b",), ())),
    "a fragment too few": dataclasses.replace(GOOD, parts=(("a",), ("b",))),
}


@pytest.mark.parametrize("what", WRONG)
def test_the_check_finds_a_table_with(what):
    check(GOOD)
    with pytest.raises(ConfigError, match="rounds of any"):
        check(WRONG[what])


def test_layers_are_dealt_in_strides():
    names = ["embed.weight", "blocks.0.a.weight", "blocks.0.b.bias", "blocks.1.a.weight"]
    names += ["blocks.2.a.weight", "head.weight", "head.bias"]
    assert [layer_of(name) for name in names[1:4]] == ["blocks.0", "blocks.0", "blocks.1"]
    assert layer_of("weight") == "weight"
    first, second = strides(names, 2)
    assert first == ("embed.weight", "blocks.1.a.weight", "head.weight", "head.bias")
    assert second == ("blocks.0.a.weight", "blocks.0.b.bias", "blocks.2.a.weight")
    with pytest.raises(ConfigError, match="fragments = 6 for a model of 5 layers; accepted: 1 to"):
        strides(names, 6)


def test_importing_the_package_and_its_rounds_does_not_import_torch():
    code = (
        "import sys, holdfast.ft, holdfast.ft.outer.rounds, holdfast.ft.outer.fragments; "
        "assert 'torch' not in sys.modules"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
