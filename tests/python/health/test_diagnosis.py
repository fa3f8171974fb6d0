"""The diagnosis, of evidence that is made up: each fault has its culprit, and noise has none."""

from __future__ import annotations

import dataclasses
import itertools
import json
import random

import pytest

from holdfast.errors import ConfigError
from holdfast.ft.health.clocks import difference_ns, offsets_ns
from holdfast.ft.health.collect import pages_of, targets_of
from holdfast.ft.health.diagnosis import confirmed, diagnose
from holdfast.ft.health.dumps import of_this_run
from holdfast.ft.health.evidence import (
    BadFile,
    Evidence,
    Look,
    Metrics,
    Op,
    Record,
    Subject,
    metrics_of,
    record_of_json,
)
from holdfast.ft.health.finding import Culprit, Finding, Limits
from holdfast.ft.health.trace import merge

MS = 1_000_000
S = 1000 * MS
WALL = 1_700_000_000 * S


def op(number: int, start: int, end: int, **changes: object) -> Op:
    first = Op(
        *(number, "g", number - 1, 1, "all_reduce", "f32", "sum", 4000, "slices", "", 0, 0),
        *(start, start, end, "ended" if end else "started", "ok", False, ()),
    )
    return dataclasses.replace(first, **changes)  # type: ignore[arg-type]


def record(rank: int, ops: list[Op], host: str = "h", ahead: int = 0) -> Record:
    """`ahead`: what the host's wall clock is ahead of the others'."""
    return Record(
        *(100 + rank, f"m{rank}", rank, host, WALL + ahead, len(ops)), {"g": "default"}, tuple(ops)
    )


def subject(found: Record, now: int = 0, process: str = "running") -> Subject:
    look = Look(now + found.wall_offset_ns if now else 0, record=found)
    return Subject(f"rank{found.rank}.flight", found.rank, found.host, (look,), process)


def world(records: list[Record], now: int = 0, process: str = "running") -> Evidence:
    return Evidence(tuple(subject(r, now, process) for r in records), process == "running")


def steps(ranks: int, count: int, late: dict[int, int], seed: int = 0) -> list[list[Op]]:
    """So many steps of 10 ms; `late`: what a rank's computation takes longer, in ns."""
    chance = random.Random(seed)
    ops: list[list[Op]] = [[] for _ in range(ranks)]
    free = [S] * ranks
    for number in range(1, count + 1):
        starts = [
            free[r] + int(10 * MS * chance.uniform(0.6, 1.6)) + late.get(r, 0) for r in range(ranks)
        ]
        for r in range(ranks):
            end = max(starts) + int(MS * chance.uniform(0.5, 1.5))
            ops[r].append(op(number, starts[r], end))
            free[r] = end
    return ops


def kinds(findings: list[Finding]) -> list[tuple[str, str]]:
    return [(f.kind, f.culprit.name) for f in findings if f.sick]


@pytest.mark.parametrize("seed", range(10))
def test_a_healthy_noisy_job_is_healthy(seed: int) -> None:
    records = [record(r, ops) for r, ops in enumerate(steps(4, 300, {}, seed))]
    assert diagnose(world(records, 5 * S)) == []


@pytest.mark.parametrize("victim", range(4))
@pytest.mark.parametrize("ahead", [0, 3 * S])
def test_who_computes_longer_is_to_blame_whatever_the_clocks_say(victim: int, ahead: int) -> None:
    found = [
        record(r, ops, f"host{r}", ahead * (r % 2))
        for r, ops in enumerate(steps(4, 120, {victim: 20 * MS}))
    ]
    assert kinds(diagnose(world(found, 10 * S))) == [("slow-compute", f"rank {victim}")]


def test_a_host_whose_ranks_are_all_late_is_to_blame() -> None:
    late = {2: 20 * MS, 3: 22 * MS}
    found = [record(r, ops, "a" if r < 2 else "b") for r, ops in enumerate(steps(4, 120, late))]
    (finding,) = diagnose(world(found, 10 * S))
    assert (finding.kind, finding.culprit.host, finding.culprit.ranks) == ("slow-host", "b", (2, 3))


def test_who_was_slow_and_is_not_any_more_is_not_accused() -> None:
    early = steps(3, 100, {1: 20 * MS})
    shift = max(ops[-1].ended_ns for ops in early) - S
    late = [
        [op(o.number + 100, o.started_ns + shift, o.ended_ns + shift) for o in ops]
        for ops in steps(3, 400, {}, seed=7)
    ]
    found = [record(r, early[r] + late[r]) for r in range(3)]
    assert diagnose(world(found, 60 * S)) == []


def hung(ranks: int, victim: int, **of_others: object) -> list[Record]:
    """All call op 6 but the victim."""
    found = []
    for r in range(ranks):
        ops = [op(n, n * S // 100, n * S // 100 + MS) for n in range(1, 6)]
        if r != victim:
            ops.append(op(6, S, 0, **{"waited_for": (victim,), **of_others}))
        found.append(record(r, ops))
    return found


def with_turns(evidence: Evidence, ran_s: float, ready_s: float) -> Evidence:
    """Rank 1's threads ran, and were ready without a processor, in the second before now."""
    subjects = []
    for s in evidence.subjects:
        now = dataclasses.replace(s.last, run_ns=5 * S, ready_ns=9 * S)
        if s.rank == 1:
            more = {"run_ns": now.run_ns + int(ran_s * S), "ready_ns": 9 * S + int(ready_s * S)}
            now = dataclasses.replace(now, **more)
        before = dataclasses.replace(s.last, at_ns=now.at_ns - S, run_ns=5 * S, ready_ns=9 * S)
        subjects.append(dataclasses.replace(s, looks=(before, now)))
    return dataclasses.replace(evidence, subjects=tuple(subjects))


def test_a_rank_that_hangs_for_want_of_a_processor_is_starved() -> None:
    hangs = world(hung(3, 1), 60 * S)
    (finding,) = diagnose(with_turns(hangs, 0.05, 0.9))
    assert (finding.kind, finding.culprit.ranks, finding.sick) == ("starved", (1,), True)
    assert "waits" in "".join(finding.evidence)  # whom the others wait for
    # It had what it wanted, or wanted little.
    assert [f.kind for f in diagnose(with_turns(hangs, 0.9, 0.9))] == ["hang"]
    assert [f.kind for f in diagnose(with_turns(hangs, 0.01, 0.2))] == ["hang"]
    # What is stopped waits for no processor.
    stopped = dataclasses.replace(hangs.subjects[1], process="stopped")
    subjects = (hangs.subjects[0], stopped, hangs.subjects[2])
    (finding,) = diagnose(with_turns(dataclasses.replace(hangs, subjects=subjects), 0.05, 0.9))
    assert finding.kind == "stopped"


def test_a_starved_rank_that_nobody_waits_for_is_a_note() -> None:
    healthy = world([record(r, ops) for r, ops in enumerate(steps(3, 100, {}))], 0)
    (finding,) = diagnose(with_turns(healthy, 0.05, 0.9))
    assert (finding.kind, finding.sick) == ("starved", False)


def test_the_rank_that_never_called_is_the_root_of_a_hang() -> None:
    (finding,) = diagnose(world(hung(4, 2), 6 * S))
    assert (finding.kind, finding.culprit.ranks) == ("hang", (2,))
    assert "rank 2 has not called all_reduce 5" in finding.evidence[0]
    assert any(line.startswith("rank 0 waits for 5.0 s") for line in finding.evidence)
    assert finding.confidence > 0.9


def test_a_ring_that_waits_for_its_neighbours_leads_to_the_same_rank() -> None:
    found = hung(4, 2)
    ring = []
    for r, one in enumerate(found):
        last = dataclasses.replace(one.entries[-1], waited_for=((r - 1) % 4,))
        ring.append(one if r == 2 else dataclasses.replace(one, entries=(*one.entries[:-1], last)))
    assert kinds(diagnose(world(ring, 6 * S))) == [("hang", "rank 2")]


def test_an_op_that_has_waited_for_as_long_as_ops_do_is_no_hang() -> None:
    assert diagnose(world(hung(4, 2), S + S // 2)) == []
    slow = []
    for r in range(3):  # steps of 4 s: 5 s are nothing
        ops = [op(n, 5 * n * S, 5 * n * S + 4 * S) for n in range(1, 31)]
        if r != 1:
            ops.append(op(31, 155 * S, 0, waited_for=(1,)))
        slow.append(record(r, ops))
    assert diagnose(world(slow, 160 * S)) == []


def test_a_rank_that_waits_for_another_is_not_the_root() -> None:
    """Rank 1 never calls because it waits for a message of rank 2, who does nothing."""
    found = hung(3, 1)
    waits = op(6, S, 0, collective="recv", sequence=0, waited_for=(2,), group="g")
    found[1] = dataclasses.replace(found[1], entries=(*found[1].entries, waits))
    found[2] = dataclasses.replace(found[2], entries=found[2].entries[:-1])
    assert kinds(diagnose(world(found, 6 * S))) == [("hang", "rank 2")]


def test_two_groups_in_two_orders_are_a_deadlock() -> None:
    def blocked(r: int, group: str, whom: tuple[int, ...]) -> Record:
        ops = [op(n, n * MS, n * MS + MS) for n in (1, 2)]
        ops += [op(3, 3 * MS, 4 * MS, group="other", sequence=0)]
        ops += [op(4, S, 0, group=group, sequence=2 if group == "g" else 1, waited_for=whom)]
        return record(r, ops)

    found = [blocked(0, "g", (2,)), blocked(1, "g", (2,)), blocked(2, "other", (0, 1))]
    assert kinds(diagnose(world(found, 6 * S))) == [("deadlock", "rank 2")]
    found = [blocked(0, "g", (1,)), blocked(1, "other", (0,))]
    assert kinds(diagnose(world(found, 6 * S))) == [("deadlock", "ranks 0, 1")]


def test_a_time_limit_that_has_passed_is_a_hang_in_a_dump() -> None:
    found = hung(3, 0, code="Timeout", state="ended", ended_ns=31 * S)
    assert kinds(diagnose(world(found, process="gone"))) == [("hang", "rank 0")]


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"bytes": 8000}, "8000 bytes"),
        ({"dtype": "i32"}, "i32"),
        ({"collective": "all_to_all"}, "all_to_all"),
        ({"op": "max"}, "max"),
    ],
)
def test_the_rank_that_calls_something_else_is_named(changes: dict[str, str], told: str) -> None:
    found = []
    for r in range(3):
        ops = [op(n, n * MS, n * MS + MS) for n in range(1, 6)]
        different = changes if r == 1 else {}
        ops.append(op(6, S, S + MS, code="ProtocolError", **different))
        found.append(record(r, ops))
    (finding,) = diagnose(world(found, 6 * S))
    assert (finding.kind, finding.culprit.ranks) == ("mismatch", (1,))
    assert told in "\n".join(finding.evidence)


def test_a_collective_that_was_left_out_is_told_from_one_that_is_wrong() -> None:
    sizes = [4000, 8000, 12000, 16000]
    found = []
    for r in range(3):
        mine = sizes[1:] if r == 2 else sizes[:-1]
        ops = [op(n, n * MS, 0, bytes=size) for n, size in enumerate(mine, 1)]
        found.append(record(r, ops))
    (finding,) = diagnose(world(found, 6 * S))
    assert finding.culprit.ranks == (2,)
    assert "rank 2 has left out all_reduce (sum, f32, 4000 bytes)" in "\n".join(finding.evidence)


def test_all_to_all_may_have_other_sizes_on_every_rank() -> None:
    found = [
        record(r, [op(1, MS, 2 * MS, collective="all_to_all", bytes=100 * r)]) for r in range(3)
    ]
    assert diagnose(world(found, S)) == []


def scrape(rank: int, size: float = 1e7, **values: dict[int, float]) -> Metrics:
    lines = [f"holdfast_rank {rank}", "holdfast_members 4", "holdfast_epoch 1"]
    names = {
        "wait": "holdfast_peer_wait_seconds_total",
        "rtt": "holdfast_link_rtt_seconds",
        "again": "holdfast_link_retransmits_total",
        "least": "holdfast_link_least_rtt_seconds",
        "rate": "holdfast_link_delivered_bytes_per_second",
        "recent": "holdfast_link_recent_cuts",
    }
    for kind, by_peer in values.items():
        lines += [f'{names[kind]}{{peer="{p}"}} {v}' for p, v in by_peer.items()]
    for p in values.get("wait", {}):
        labels = f'direction="sent",peer="{p}",transport="tcp"'
        lines.append(f"holdfast_link_bytes_total{{{labels}}} {size}")
    return metrics_of("\n".join(lines))


def looked_at(cells: dict[str, dict[tuple[int, int], float]], ranks: int = 4) -> Evidence:
    """Two looks, 2 s apart, at ranks with these cells of the matrix; all others are small."""
    subjects = []
    usual = {"wait": 0.02, "rtt": 0.0001, "again": 0.0, "least": 0.0001, "rate": 1e8}
    usual |= dict.fromkeys(cells.keys() & {"recent"}, 0.0)
    for rank in range(ranks):
        peers = [p for p in range(ranks) if p != rank]
        now = {
            kind: {p: cells.get(kind, {}).get((rank, p), value) for p in peers}
            for kind, value in usual.items()
        }
        before = {"rtt": now["rtt"]}
        looks = (Look(WALL, scrape(rank, **before)), Look(WALL + 2 * S, scrape(rank, **now)))
        subjects.append(Subject(f"127.0.0.1:{rank + 1}", rank, f"h{rank}", looks))
    return Evidence(tuple(subjects), True)


def test_one_cell_of_the_matrix_is_a_link() -> None:
    cells = {"rtt": {(1, 2): 0.08, (2, 1): 0.07}, "wait": {(2, 1): 1.0}}
    (finding,) = diagnose(looked_at(cells))
    assert (finding.kind, finding.culprit.link) == ("slow-link", (1, 2))


@pytest.mark.parametrize(
    ("least", "why"), [(0.0002, "data queues on the way"), (0.06, "the way itself is long")]
)
def test_a_slow_link_is_long_or_full(least: float, why: str) -> None:
    cells = {
        "rtt": {(1, 2): 0.08, (2, 1): 0.07},
        "wait": {(2, 1): 1.0},
        "least": {(1, 2): least, (2, 1): least},
        "rate": {(1, 2): 2.5e6},
    }
    (finding,) = diagnose(looked_at(cells))
    told = "\n".join(finding.evidence)
    assert f"least round trip of late was {1e3 * least:.2f} ms: {why}" in told
    assert "it delivered 20 Mbit/s when it was full" in told


@pytest.mark.parametrize(("waits", "side"), [((0, 3), "sends"), ((3, 0), "receives")])
def test_all_links_of_one_rank_are_the_rank(waits: tuple[int, int], side: str) -> None:
    cells = {"rtt": {(r, 3): 0.08 for r in range(3)}, "wait": {waits: 1.0}}
    (finding,) = diagnose(looked_at(cells))
    assert (finding.kind, finding.culprit.ranks) == ("slow-network", (3,))
    assert f"what it {side} is slow" in finding.evidence[-1]


def test_two_sites_with_a_slow_line_between_them_are_no_fault() -> None:
    between = {(a, b): 0.03 for a in range(4) for b in range(4) if (a < 2) != (b < 2)}
    waits = dict.fromkeys(between, 0.5)
    assert diagnose(looked_at({"rtt": between, "wait": waits})) == []


def test_a_slow_link_that_nobody_waits_for_is_none() -> None:
    assert diagnose(looked_at({"rtt": {(1, 2): 0.08, (2, 1): 0.07}})) == []


def test_what_is_late_behind_a_slow_link_is_no_second_one() -> None:
    """What rank 2 sends on waits for what comes late from rank 1, and its round trips with it."""
    cells = {"rtt": {(1, 2): 0.012, (2, 3): 0.009}, "wait": {(2, 1): 1.5, (3, 2): 0.7}}
    (finding,) = diagnose(looked_at(cells))
    assert (finding.kind, finding.culprit.link) == ("slow-link", (1, 2))
    apart = {"rtt": {(0, 1): 0.012, (2, 3): 0.009}, "wait": {(1, 0): 1.5, (3, 2): 0.7}}
    assert {f.culprit.link for f in diagnose(looked_at(apart))} == {(0, 1), (2, 3)}


def test_what_is_late_behind_a_lossy_link_is_no_slow_one() -> None:
    cells = {
        "again": {(1, 2): 300.0},
        "rtt": {(1, 2): 0.009, (2, 3): 0.012},
        "wait": {(2, 1): 1.5, (3, 2): 0.7},
    }
    (finding,) = diagnose(looked_at(cells))
    assert (finding.kind, finding.culprit.link) == ("lossy-link", (1, 2))


def test_what_is_sent_again_is_a_lossy_link() -> None:
    cells = {"again": {(0, 3): 300.0}, "rtt": {(0, 3): 0.05}}
    (finding,) = diagnose(looked_at(cells))
    assert (finding.kind, finding.culprit.link) == ("lossy-link", (0, 3))
    few = looked_at({"again": {(0, 3): 3.0}})
    assert diagnose(few) == []


def test_a_link_that_is_cut_again_and_again_is_told_once() -> None:
    (finding,) = diagnose(looked_at({"recent": {(0, 2): 5.0, (2, 0): 9.0, (1, 3): 4.0}}))
    assert (finding.kind, finding.culprit.link, finding.sick) == ("flapping-link", (2, 0), True)
    assert "rank 2 has lost connections to rank 0 at 9 moments" in "\n".join(finding.evidence)


def test_the_most_frequent_reason_of_cuts_has_its_advice() -> None:
    lines = ['holdfast_link_recent_cuts{peer="1"} 6', "holdfast_rank 0"]
    for why, count in (("reset", 2), ("stalled", 7), ("closed", 0)):
        lines.append(f'holdfast_link_cuts_total{{peer="1",why="{why}"}} {count}')
    look = Look(WALL, metrics_of("\n".join(lines)))
    (finding,) = diagnose(Evidence((Subject("127.0.0.1:1", 0, "h", (look,)),), True))
    assert finding.evidence[-1] == "in all, by reason: 7 stalled, 2 reset"
    assert "stands still" in finding.advice


def test_a_column_of_waits_is_a_slow_rank_and_a_full_matrix_is_none() -> None:
    (finding,) = diagnose(looked_at({"wait": {(r, 2): 1.2 for r in (0, 1, 3)}}))
    assert (finding.kind, finding.culprit.ranks) == ("slow-rank", (2,))
    full = {(a, b): 0.6 for a in range(4) for b in range(4) if a != b}
    assert diagnose(looked_at({"wait": full})) == []


def test_a_link_that_decays_is_seen_before_it_is_slow_to_all() -> None:
    evidence = looked_at({})
    subjects = []
    for s in evidence.subjects:
        looks = []
        for i in range(9):
            rtt = {p: 0.0002 * (1 + (i + p) % 3) for p in range(4) if p != s.rank}
            if s.rank == 1:
                rtt[3] = 0.0005 * 2**i / 8
            looks.append(Look(WALL + i * S, scrape(s.rank, 1e7 * i, rtt=rtt, wait=rtt)))
        subjects.append(dataclasses.replace(s, looks=tuple(looks)))
    findings = diagnose(Evidence(tuple(subjects), True))
    assert ("decaying-link", "link from rank 1 to rank 3") in [
        (f.kind, f.culprit.name.replace("rank 3 to rank 1", "rank 1 to rank 3")) for f in findings
    ]


def test_a_stopped_rank_explains_that_the_others_wait_for_it() -> None:
    evidence = world(hung(4, 2), 6 * S)
    subjects = tuple(
        dataclasses.replace(s, process="stopped") if s.rank == 2 else s for s in evidence.subjects
    )
    (finding,) = diagnose(dataclasses.replace(evidence, subjects=subjects))
    assert (finding.kind, finding.culprit.ranks) == ("stopped", (2,))
    assert any("rank 0 waits" in line for line in finding.evidence)


def test_ranks_that_do_not_answer_are_told_apart() -> None:
    def answers(*trouble: str) -> list[tuple[str, str]]:
        evidence = looked_at({})
        looks = tuple(Look(WALL, trouble=t) for t in trouble)
        mute = dataclasses.replace(evidence.subjects[3], looks=looks)
        return kinds(
            diagnose(dataclasses.replace(evidence, subjects=(*evidence.subjects[:3], mute)))
        )

    assert answers("timed out", "timed out") == [("mute", "rank 3")]
    assert answers("[Errno 111] Connection refused") == [("dead", "rank 3")]
    assert answers("", "timed out") == []  # once is a busy machine


def test_a_dump_that_is_cut_is_named_and_the_rest_is_used() -> None:
    evidence = dataclasses.replace(
        world(hung(4, 2), 6 * S), bad_files=(BadFile("x.flight", "no flight record"),)
    )
    assert set(kinds(diagnose(evidence))) == {("hang", "rank 2"), ("bad-dump", "x.flight")}


def test_records_of_a_former_run_in_the_same_folder_are_left_out() -> None:
    def of_run(group: str, rank: int, at: int, process: str) -> Subject:
        made = dataclasses.replace(record(rank, [op(1, at, at + MS)]), groups={group: "default"})
        return dataclasses.replace(subject(made, process=process), source=f"{group}{rank}")

    old = [of_run("a", r, S, "gone") for r in range(3)]
    new = [of_run("b", r, 9 * S, "gone") for r in range(2)]
    assert of_this_run([*old, *new]) == new
    alive = dataclasses.replace(new[0], process="running")
    assert of_this_run([*old, alive, new[1]]) == [alive, new[1]]
    beside = [dataclasses.replace(s, process="running") for s in old[:1]]
    assert of_this_run([*beside, *old[1:], alive, new[1]]) == [*beside, *old[1:], alive, new[1]]


def test_who_is_called_slow_once_is_only_noted() -> None:
    once = Finding("slow-compute", Culprit((1,)), 0.9, (), "")
    other = dataclasses.replace(once, culprit=Culprit((2,)))
    assert [f.sick for f in confirmed([once], [once])] == [True]
    assert [f.sick for f in confirmed([other], [once])] == [False]


def test_clocks_of_hosts_are_told_from_the_ends_of_ops() -> None:
    late = [record(r, ops, f"host{r}", 7 * S * r) for r, ops in enumerate(steps(3, 50, {}))]
    between = difference_ns(late[1], late[0])
    assert between is not None
    assert abs(between - 7 * S) < MS
    offsets = offsets_ns(dict(enumerate(late)))
    assert max(offsets.values()) - min(offsets.values()) < MS
    assert difference_ns(late[0], record(9, [])) is None


def test_a_trace_has_all_ops_and_arrows_to_the_last_to_begin() -> None:
    found = {r: record(r, ops) for r, ops in enumerate(steps(3, 5, {2: 30 * MS}))}
    trace = merge(found)
    events = trace["traceEvents"]
    slices = [e for e in events if e["ph"] == "X" and e["name"] == "all_reduce"]
    assert len(slices) == 15
    assert {e["pid"] for e in slices} == {0, 1, 2}
    assert min(e["ts"] for e in slices) == 0
    ends = [e for e in events if e["ph"] == "f"]
    assert [e["pid"] for e in ends] == [2] * 5
    starts = {(e["pid"], e["ts"]) for e in slices}
    assert {(e["pid"], e["ts"]) for e in events if e["ph"] in "stf"} <= starts
    names = {e["args"]["name"] for e in events if e["name"] == "process_name"}
    assert names == {f"rank {r} (h, pid {100 + r})" for r in range(3)}
    json.dumps(trace)


def test_ops_that_run_at_the_same_time_have_rows_of_their_own() -> None:
    ops = [op(1, 0, 10 * MS), op(2, MS, 5 * MS), op(3, 6 * MS, 0), op(4, 20 * MS, 21 * MS)]
    events = [e for e in merge({0: record(0, ops)})["traceEvents"] if e["ph"] == "X"]
    rows: dict[int, list[tuple[float, float]]] = {}
    for event in events:
        rows.setdefault(event["tid"], []).append((event["ts"], event["ts"] + event["dur"]))
    assert len(rows) == 2
    for spans in rows.values():
        spans.sort()
        assert all(a[1] <= b[0] for a, b in itertools.pairwise(spans))
    assert "all_reduce (not ended)" in {e["name"] for e in events}


def test_text_of_pages_is_read_and_nonsense_refused() -> None:
    metrics = metrics_of(
        "# HELP a b\n"
        'a_total{peer="1",x="q\\"\\n\\\\"} 2 # {op="g:1"} 3 4\n'
        'a_total{peer="other"} 5\nb 1e3\nnonsense\nc NaN-ish\n'
    )
    assert metrics.total("a_total") == 7
    assert metrics.total("a_total", x='q"\n\\') == 2
    assert metrics.by_peer("a_total") == {1: 2.0}
    assert metrics.total("b") == 1000
    with pytest.raises(ValueError, match="no flight record"):
        record_of_json("[]")
    with pytest.raises(ValueError, match="pid"):
        record_of_json('{"entries": [], "pid": "x"}')
    text = json.dumps(
        [
            {"targets": ["c:1"], "labels": {"role": "coordinator"}},
            {"targets": ["h:2"], "labels": {"role": "rank", "rank": "3", "host": "x"}},
        ]
    )
    assert [(t.where, t.rank, t.host) for t in targets_of(text)] == [("h:2", 3, "x")]
    assert pages_of("http://h:80/targets") == pages_of("h:80") == "h:80"
    assert pages_of("https://h:80/targets") == "https://h:80"
    sealed = [{"targets": ["h:2"], "labels": {"role": "rank", "__scheme__": "https"}}]
    assert [t.where for t in targets_of(json.dumps(sealed))] == ["https://h:2"]
    for bad in ("h", "h:x", "h:0", "ftp://h:80", "h:80/other"):
        with pytest.raises(ConfigError, match="host:port"):
            pages_of(bad)


# ---- states --------------------------------------------------------------------------------------


@pytest.mark.parametrize(("seconds", "sick"), [(5, False), (29, False), (31, True)])
def test_an_unprotected_state_is_a_sickness_when_it_has_lasted(seconds: int, sick: bool):
    text = (
        f'holdfast_state_unprotected_seconds{{why="the keeper of rank 2 was lost"}} {seconds}\n'
        'holdfast_state_step{state="flushed"} 500\n'
    )
    seen = [
        Subject("a:1", 1, "h", (Look(0, metrics_of(text)),)),
        Subject("b:1", 2, "h", (Look(0),)),
    ]
    (finding,) = diagnose(Evidence(tuple(seen), True), Limits())
    assert (finding.kind, finding.culprit, finding.sick) == ("unprotected", Culprit((1,)), sick)
    assert "the keeper of rank 2 was lost" in finding.evidence[0]
    assert "step 500 is flushed" in finding.evidence[1]


def test_a_protected_state_is_no_finding():
    text = 'holdfast_state_protected 1\nholdfast_state_age_seconds{state="committed"} 9000\n'
    seen = Subject("a:1", 1, "h", (Look(0, metrics_of(text)),))
    assert diagnose(Evidence((seen,), True), Limits()) == []
