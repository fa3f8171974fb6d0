"""Evictions by `holdfast doctor`: who is evicted and when, by made-up looks; and real ranks."""

from __future__ import annotations

import argparse
import dataclasses
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from doctor_world import WAIT_S, World, ask
from test_diagnosis import MS, op, record, world

from holdfast.errors import ConfigError
from holdfast.ft.health import doctor, evictor
from holdfast.ft.health.eviction import Court, Decision, Look, Policy, look_of
from holdfast.ft.health.evictor import Evictor, end_writer, run_command
from holdfast.ft.health.finding import Culprit, Finding
from holdfast.ft.health.live import Job

NOBODY = frozenset[int]()


def accuse(*ranks: int, kind: str = "hang", sure: float = 0.9) -> Finding:
    return Finding(kind, Culprit(ranks), sure, ("it waits",), "look")


def look(
    *findings: Finding, at_s: float = 0.0, ranks: int = 5, mute: frozenset[int] = NOBODY
) -> Look:
    known = frozenset(range(ranks))
    return Look(at_s, findings, known, known - mute, {r: f"process {r}" for r in known})


def due(decisions: list[Decision]) -> list[int]:
    return [decision.rank for decision in decisions if not decision.held]


def test_a_rank_is_due_when_it_was_accused_in_so_many_looks_one_after_the_other() -> None:
    court = Court(Policy(("hang",), after=3))
    assert court.decide(look(accuse(1))) == []
    assert court.decide(look(accuse(1))) == []
    assert court.decide(look()) == []  # a look that accuses nobody begins anew
    assert court.decide(look(accuse(1))) == []
    assert court.decide(look(accuse(1), accuse(2))) == []
    (decision,) = court.decide(look(accuse(1), accuse(2)))
    assert (decision.rank, decision.looks, decision.held) == (1, 3, "")


@pytest.mark.parametrize(
    "finding",
    [
        accuse(1, kind="slow-compute"),
        accuse(1, sure=0.79),
        accuse(1, 2),
        accuse(),
        dataclasses.replace(accuse(1), remark=True),
        dataclasses.replace(accuse(1), culprit=Culprit((1,), host="a")),
        dataclasses.replace(accuse(1), culprit=Culprit((1,), link=(1, 2))),
    ],
)
def test_what_is_of_another_kind_or_unsure_or_not_of_one_rank_does_not_count(
    finding: Finding,
) -> None:
    court = Court(Policy(("hang", "mute"), after=1))
    assert court.decide(look(finding)) == []
    assert due(court.decide(look(accuse(1)))) == [1]


def test_kinds_that_count_count_together() -> None:
    """Who does not answer is mute at first, and lost when the others have voted it out."""
    court = Court(Policy(("mute", "lost"), after=2))
    court.decide(look(accuse(1, kind="mute")))
    (decision,) = court.decide(look(accuse(1, kind="lost")))
    assert (decision.rank, decision.finding.kind) == (1, "lost")


def test_a_successor_does_not_inherit_accusations() -> None:
    court = Court(Policy(("hang",), after=2))
    court.decide(look(accuse(1)))
    successor = dataclasses.replace(look(accuse(1)), processes={1: "another"})
    assert court.decide(successor) == []
    assert due(court.decide(successor)) == [1]


def test_a_process_is_evicted_once_and_its_successor_may_be_too() -> None:
    court = Court(Policy(("hang", "lost"), after=1, every_s=0))
    assert due(court.decide(look(accuse(1)))) == [1]
    court.evicted(1, 0.0)
    assert court.decide(look(accuse(1, kind="lost"))) == []
    successor = dataclasses.replace(look(accuse(1)), processes={1: "another"})
    assert due(court.decide(successor)) == [1]


def test_a_rank_that_could_not_be_evicted_is_tried_again_after_as_many_looks() -> None:
    court = Court(Policy(("hang",), after=2))
    court.decide(look(accuse(1)))
    assert due(court.decide(look(accuse(1)))) == [1]
    court.failed(1)
    assert court.decide(look(accuse(1))) == []
    assert due(court.decide(look(accuse(1)))) == [1]


def test_evictions_are_one_at_a_time_with_a_pause_after_each() -> None:
    court = Court(Policy(("hang",), after=1, every_s=60))
    first, second = court.decide(look(accuse(3), accuse(1, sure=0.95)))
    assert (first.rank, first.held) == (1, "")
    assert (second.rank, second.held) == (3, "one at a time")
    court.evicted(1, 0.0)
    (held,) = court.decide(look(accuse(3), at_s=59.0))
    assert "less than 60 s ago" in held.held
    assert due(court.decide(look(accuse(3), at_s=60.0))) == [3]


@pytest.mark.parametrize(
    ("ranks", "mute", "keep", "goes"),
    [
        (3, NOBODY, 0, True),
        (2, NOBODY, 0, False),  # one of two is no majority
        (2, NOBODY, 1, True),
        (5, frozenset({0, 4}), 0, False),
        (5, frozenset({0, 1}), 0, True),  # the accused is one of the mute
        (5, NOBODY, 5, False),
        (5, NOBODY, 4, True),
    ],
)
def test_enough_answering_ranks_are_left(
    ranks: int, mute: frozenset[int], keep: int, goes: bool
) -> None:
    court = Court(Policy(("hang",), after=1, keep=keep))
    (decision,) = court.decide(look(accuse(1), ranks=ranks, mute=mute))
    assert (decision.held == "") == goes, decision.held
    assert goes or "would be left" in decision.held


def test_stopped_dead_and_voted_out_ranks_do_not_count_as_answering() -> None:
    evidence = world([record(r, [op(1, MS, 2 * MS)]) for r in range(4)])
    changes = ({}, {"process": "stopped"}, {"process": "gone"}, {})
    subjects = [
        dataclasses.replace(s, **change)  # type: ignore[arg-type]
        for s, change in zip(evidence.subjects, changes, strict=True)
    ]
    out = dataclasses.replace(subjects[3].looks[0], ready="this rank was voted out")
    subjects[3] = dataclasses.replace(subjects[3], looks=(out,))
    seen = look_of(dataclasses.replace(evidence, subjects=tuple(subjects)), [accuse(1)], 7.0)
    assert (seen.known, seen.answering, seen.at_s) == (frozenset(range(4)), frozenset({0}), 7.0)
    assert seen.processes[2] == "102 m2"


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--evict", "hang"], "--evict hang without --watch"),
        (["--watch", "1", "--evict", "hang,dead"], "--evict 'dead'; accepted: hang, deadlock"),
        (["--watch", "1", "--evict", "hang,"], "--evict ''; accepted"),
        (["--watch", "1", "--evict", "hang", "--after", "0"], "--after 0; accepted"),
        (["--watch", "1", "--evict", "hang", "--evict-confidence", "2"], "--evict-confidence 2"),
        (["--watch", "1", "--evict", "hang", "--evict-every", "nan"], "finite"),
        (["--watch", "1", "--evict", "hang", "--keep", "-1"], "--keep -1; accepted"),
        (["--watch", "1", "--evict", "hang", "--evict-command", "x {port}"], "'x {port}': 'port'"),
        (["--watch", "1", "--evict", "hang", "--evict-command", "x '"], "No closing quotation"),
        (["--dry-run"], "--dry-run without --evict"),
        (["--evict-command", "x"], "--evict-command without --evict"),
    ],
)
def test_what_cannot_be_done_is_refused_with_what_is_accepted(
    arguments: list[str], told: str
) -> None:
    parser = argparse.ArgumentParser()
    doctor.add_arguments(parser)
    with pytest.raises(ConfigError, match=re.escape(told)):
        evictor.evictor_of(parser.parse_args(arguments))


def test_the_command_refuses_before_it_looks() -> None:
    verdict = ask("127.0.0.1:1", "--evict", "hang")
    assert verdict.status == 2, verdict.text
    assert "--evict hang without --watch" in verdict.text


def test_a_command_is_told_the_rank_by_words_and_by_environment(tmp_path: Path) -> None:
    said = tmp_path / "said"
    code = (
        "import os, sys; "
        f"open({str(said)!r}, 'w').write(repr((sys.argv[1:], os.environ['EVICT_KIND'])))"
    )
    fields = {"rank": "3", "host": "10.0.0.7", "pid": "", "kind": "mute"}
    done, told = run_command((sys.executable, "-c", code, "r{rank}@{host}", "{pid}"), fields)
    assert done, told
    assert said.read_text() == "(['r3@10.0.0.7', ''], 'mute')"


def test_a_command_that_fails_or_hangs_or_is_none_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    fields = {"rank": "3", "host": "h", "pid": "", "kind": "mute"}
    done, told = run_command((sys.executable, "-c", "print('no such node'); exit(3)"), fields)
    assert (done, "status 3\n      | no such node" in told) == (False, True), told
    done, told = run_command(("/no/such/command",), fields)
    assert (done, "No such file" in told) == (False, True), told
    monkeypatch.setattr(evictor, "COMMAND_S", 0.2)
    done, told = run_command((sys.executable, "-c", "while 1: pass"), fields)
    assert (done, "has not ended after 0.2 s" in told) == (False, True), told


@pytest.mark.parametrize("host", ["-oProxyCommand=x", "a b", "a;b", "$(x)"])
def test_a_host_whose_name_may_be_more_than_a_name_is_told_to_no_command(host: str) -> None:
    fields = {"rank": "3", "host": host, "pid": "", "kind": "mute"}
    done, told = run_command(("/bin/true", "{host}"), fields)
    assert (done, "is told to no command" in told) == (False, True), told


@pytest.mark.parametrize("dry_run", [False, True])
def test_without_a_process_or_a_command_nobody_is_evicted(
    dry_run: bool, capfd: pytest.CaptureFixture[str]
) -> None:
    evidence = world([record(r, [op(1, MS, 2 * MS)]) for r in range(3)])
    one = Evictor(Court(Policy(("hang",), after=1)), dry_run=dry_run)
    one.look(Job(), evidence, [accuse(1)], 0.0)
    told = capfd.readouterr().err
    assert "rank 1 cannot be evicted: it is no process of this host" in told
    assert "accused of hang in 1 looks" in told
    assert "- it waits" in told


def test_ranks_elsewhere_are_evicted_by_the_command_once(
    capfd: pytest.CaptureFixture[str],
) -> None:
    evidence = world([record(r, [op(1, MS, 2 * MS)]) for r in range(3)])
    pages = tuple(
        dataclasses.replace(s, source=f"10.0.0.{s.rank}:9401", process="")
        for s in evidence.subjects
    )
    evidence = dataclasses.replace(evidence, subjects=pages)
    policy = Policy(("hang",), after=1, every_s=0)
    command = ("/bin/echo", "{rank}", "{host}", "{pid}", "{kind}")
    for one, told in (
        (Evictor(Court(policy), command, dry_run=True), "would be evicted: by /bin/echo '{rank}'"),
        (Evictor(Court(policy), command), "| 1 10.0.0.1 101 hang"),
    ):
        for at_s in (0.0, 1.0):
            one.look(Job(), evidence, [accuse(1)], at_s)
        said = capfd.readouterr().err
        assert told in said
        assert said.count("evicted") == 1, said


# Real ranks.


def test_who_hangs_is_evicted_after_so_many_looks_and_the_others_go_on(tmp_path: Path) -> None:
    with World(tmp_path / "w", 3, env={"VICTIM": "1"}, http=False) as hanging:
        hanging.befall("deadlocked_thread")
        watch = ("--watch", "0.1", "--patience", "0.5", "--evict", "hang", "--looks")
        dry = ask(*watch, "1", "--after", "1", "--dry-run", str(hanging.flight))
        assert "dry run: rank 1 would be evicted: SIGKILL to process" in dry.text
        assert hanging.ranks[1].poll() is None

        verdict = ask(*watch, "2", "--after", "2", str(hanging.flight))
        assert "rank 1 is evicted: SIGKILL to process" in verdict.text, verdict.text
        assert "accused of hang in 2 looks one after the other" in verdict.text
        assert "rank 1 has not called all_reduce" in verdict.text
        assert hanging.ranks[1].wait(WAIT_S) == -signal.SIGKILL
        # Ops that waited for it have been repaired, and others have run since.
        (hanging.here / "stop").touch()
        assert [hanging.ranks[rank].wait(WAIT_S) for rank in (0, 2)] == [0, 0]


def test_a_process_that_does_not_write_the_record_is_not_ended(tmp_path: Path) -> None:
    """Pages can say anything; and numbers of processes are used again."""
    innocent = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        with World(tmp_path / "w", 2, http=False, function="quiet") as quiet:
            (file,) = quiet.flight.glob(f"holdfast-{quiet.ranks[0].pid}-*.flight")
            job = Job(folders=[quiet.flight])
            true = job.look().by_rank()[0].record
            assert true is not None
            assert job.file_of(0) == (true, file)
            wrong = {
                "another process": (dataclasses.replace(true, pid=innocent.pid), file),
                "another member": (dataclasses.replace(true, member="0" * 16), file),
                "another rank": (dataclasses.replace(true, rank=1), file),
                "another file": (true, tmp_path / "copy"),
                "itself": (dataclasses.replace(true, pid=os.getpid()), file),
            }
            (tmp_path / "copy").write_bytes(file.read_bytes())
            for which, (claimed, path) in wrong.items():
                assert "does not write" in end_writer(claimed, path), which
            assert innocent.poll() is None
            assert [rank.poll() for rank in quiet.ranks] == [None, None]
            quiet.signal(0, signal.SIGSTOP)
            assert end_writer(true, file) == ""
            assert quiet.ranks[0].wait(WAIT_S) == -signal.SIGKILL
    finally:
        innocent.kill()
        innocent.communicate()


def test_policies_that_make_no_sense_are_refused() -> None:
    for change in ({"kinds": ()}, {"after": 0}, {"confidence": 0.0}, {"every_s": -1.0}):
        with pytest.raises(ConfigError, match="accepted"):
            Policy(**{"kinds": ("hang",), **change})  # type: ignore[arg-type]
