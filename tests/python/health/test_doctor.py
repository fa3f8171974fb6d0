"""`holdfast doctor` and `holdfast trace` on real ranks: a part of the faults of fault_matrix.py."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from doctor_faults import FAULTS, Fault, show, try_fault
from doctor_world import World, ask
from emulated_network import Unavailable

from holdfast.ft.health.processes import state_of, take_stack

# One of each sort; tests/bench/fault_matrix.py has all of them, many times.
IN_CI = (
    "kill -9, by records",
    "slow compute, tcp",
    "wrong shape",
    "stuck in C with the lock",
)
IN_A_NETWORK = "slow link"


def fault_named(name: str) -> Fault:
    (fault,) = [fault for fault in FAULTS if fault.name == name]
    return fault


@pytest.mark.parametrize("name", IN_CI)
def test_the_right_one_is_named_and_nobody_else(name: str, tmp_path: Path) -> None:
    trial = try_fault(fault_named(name), tmp_path / "w", 1)
    assert trial.right, show(trial)
    assert trial.alone, show(trial)


def test_a_slow_link_is_told_from_slow_ranks(tmp_path: Path) -> None:
    """Whether data waited for the link at a look is chance: one may see nothing, none else."""
    for seed in range(1, 6):
        try:
            trial = try_fault(fault_named(IN_A_NETWORK), tmp_path / f"w{seed}", seed)
        except Unavailable as why:
            pytest.skip(str(why))
        if trial.verdict.status != 0:
            break
    assert trial.right, show(trial)
    assert trial.alone, show(trial)


def trace(*arguments: str) -> tuple[int, str]:
    done = subprocess.run(
        [sys.executable, "-m", "holdfast.cli", "trace", *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


def test_a_healthy_job_is_healthy_and_has_a_trace_until_a_thread_is_stuck(tmp_path: Path) -> None:
    with World(tmp_path / "w", 3, env={"VICTIM": "1"}) as world:
        world.train_a_while(0.5)
        healthy = world.doctor()
        assert (healthy.status, healthy.accusations) == (0, []), healthy.text
        out = tmp_path / "trace.json"
        status, text = trace(*world.addresses(), "-o", str(out))
        assert status == 0, text
        check_trace(json.loads(out.read_text()), 3)

        world.befall("deadlocked_thread")
        by_pages = world.doctor()
        by_files = ask(str(world.flight))
        for verdict in (by_pages, by_files):
            assert verdict.status == 1, verdict.text
            (finding,) = verdict.accusations
            assert (finding["kind"], finding["culprit"]["ranks"]) == ("hang", [1])
            assert "hold_a_lock_forever" in finding["stack"]
            assert "rank 1 has not called all_reduce" in finding["evidence"][0]
        people = subprocess.run(
            [sys.executable, "-m", "holdfast.cli", "doctor", str(world.flight)],
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )
        assert people.returncode == 1
        assert "SICK  hang: rank 1" in people.stdout
        assert "what to do:" in people.stdout

        # One record is cut: the trace has the other ranks, and says so.
        cut = next(world.flight.glob(f"holdfast-{world.ranks[2].pid}-*.flight"))
        short = tmp_path / "short.flight"
        short.write_bytes(cut.read_bytes()[:3000])
        other = next(world.flight.glob(f"holdfast-{world.ranks[0].pid}-*.flight"))
        status, text = trace(str(short), str(other), "-o", str(out))
        assert status == 1, text
        assert "short.flight" in text
        names = {e["name"] for e in json.loads(out.read_text())["traceEvents"]}
        assert "all_reduce (not ended)" in names


def check_trace(data: dict[str, list[dict[str, object]]], ranks: int) -> None:
    events = data["traceEvents"]
    slices = [e for e in events if e["ph"] == "X" and e["name"] == "all_reduce"]
    assert {e["pid"] for e in slices} == set(range(ranks))
    assert len(slices) > 10 * ranks
    arrows = [e for e in events if e["ph"] in ("s", "f")]
    assert len(arrows) > 20
    # An op ends on all ranks after it has begun on all of them: on one clock that must show.
    calls: dict[int, list[tuple[float, float]]] = {}
    for e in slices:
        arguments, start, width = e["args"], e["ts"], e["dur"]
        assert isinstance(arguments, dict)
        assert isinstance(start, float)
        assert isinstance(width, float)
        if arguments["code"] == "ok":
            calls.setdefault(arguments["sequence"], []).append((start, start + width))
    whole = [spans for spans in calls.values() if len(spans) == ranks]
    assert len(whole) > 10
    wrong = sum(min(e for _, e in s) < max(b for b, _ in s) for s in whole[:-2])
    assert wrong == 0, f"{wrong} of {len(whole)} ops end before they have begun everywhere"


def test_a_stopped_rank_is_named_within_five_seconds(tmp_path: Path) -> None:
    with World(tmp_path / "w", 3) as world:
        world.train_a_while(0.3)
        world.signal(2, signal.SIGSTOP)
        began = time.monotonic()
        verdict = world.doctor()
        took = time.monotonic() - began
        (finding,) = verdict.accusations
        assert finding["culprit"]["ranks"] == [2], verdict.text
        assert finding["kind"] in ("mute", "stopped", "lost")
        # Twice what it takes: this is a test of the doctor, not of how busy the machine is.
        assert took < 10, f"{took:.1f} s"
        # On the same host, by its record: stopped, and not merely mute.
        (finding,) = ask(str(world.flight)).accusations
        assert (finding["kind"], finding["culprit"]["ranks"]) == ("stopped", [2])


def test_a_rank_without_a_processor_is_starved_and_not_stopped(tmp_path: Path) -> None:
    """Whether the others suffer so much that it is sick is for how busy the machine is to say."""
    trial = try_fault(fault_named("starved of a processor"), tmp_path / "w", 1)
    starved = [f for f in trial.verdict.findings if f["kind"] == "starved"]
    (of_victim,) = [f for f in starved if f["culprit"]["ranks"] == [trial.victim]]
    assert "is not stopped" in of_victim["evidence"][0]
    assert "stopped" not in {f["kind"] for f in trial.verdict.findings}, show(trial)


def test_a_stack_is_only_asked_of_who_tells_one(tmp_path: Path) -> None:
    """A record says a number that is another process's now: it must not be sent a signal."""
    with World(tmp_path / "w", 2, http=False, function="quiet") as world:
        (record,) = world.flight.glob(f"holdfast-{world.ranks[0].pid}-*.flight")
        (tmp_path / "copies").mkdir()
        copy = tmp_path / "copies" / record.name
        copy.write_bytes(record.read_bytes())
        pid = world.ranks[0].pid
        assert state_of(pid, record) == "running"
        assert "in quiet" in take_stack(pid, record)
        assert state_of(pid, copy) == "gone"
        assert take_stack(pid, copy) == ""
        assert state_of(os.getpid(), record) == "gone"
        assert world.ranks[0].poll() is None


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["/nowhere/at/all"], "no file or folder"),
        (["nonsense"], "host:port"),
        (["--targets", "ftp://x"], "host:port"),
        (["--watch", "-1", "h:1"], "--watch"),
        ([], "HOLDFAST_FLIGHT_DIR"),
    ],
)
def test_what_cannot_be_asked_is_refused_with_what_is_accepted(
    arguments: list[str], told: str
) -> None:
    verdict = ask(*arguments)
    assert verdict.status == 2
    assert told in verdict.text


def test_nobody_there_is_no_health() -> None:
    verdict = ask("127.0.0.1:1")
    assert verdict.status == 2, verdict.text
