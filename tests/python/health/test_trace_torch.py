"""`holdfast trace --format torch`, read by PyTorch's own flight-recorder analyser."""

from __future__ import annotations

import dataclasses
import os
import pickle
from pathlib import Path
from typing import Any

import pytest
from doctor_world import World
from test_diagnosis import MS, S, op, record, world

from holdfast.errors import ConfigError
from holdfast.ft.health.evidence import Evidence, Op, Record
from holdfast.ft.health.trace_torch import DTYPES, dumps_of, write
from holdfast.ft.health.views import calls_of

torch = pytest.importorskip("torch", reason="waits for torch: the analyser is in it")
pytest.importorskip("torch.distributed.flight_recorder.fr_trace", reason="waits for a newer torch")

from torch_analyser import analyse, analyse_as_users_do, export  # noqa: E402


def dumps(evidence: Evidence) -> dict[int, dict[str, Any]]:
    return dumps_of(evidence, calls_of(evidence), "0")


def numbers(dump: dict[str, Any]) -> list[int]:
    return [entry["collective_seq_id"] for entry in dump["entries"]]


def well(count: int, first: int = 1, **changes: object) -> list[Op]:
    return [op(n, n * MS, n * MS + MS, **changes) for n in range(first, first + count)]


# Real ranks.


def test_every_collective_of_a_healthy_job_is_read_without_a_mismatch(tmp_path: Path) -> None:
    """By pages while it runs, and by files when it has ended; messages are left out."""
    with World(tmp_path / "w", 3, "every_collective") as running:
        status, text = export(*running.addresses(), "-o", str(tmp_path / "live"))
        assert status == 0, text
        running.end()
    status, text = export(str(running.flight), "-o", str(tmp_path / "files"))
    assert status == 0, text
    assert "3 ranks" in text
    for folder, barriers in (("live", 0), ("files", 1)):
        found = analyse(tmp_path / folder)
        assert found.wrong == [], found.text
        assert "has errors" not in found.text
        assert "Not all ranks" not in found.text
        names = [c.collective_name for c in found.collectives]
        assert len(names) == 3 * 11 + barriers, names
        assert {"nccl:all_to_all", "nccl:gather", "nccl:reduce_scatter_v"} < set(names)
        assert {c.pg_desc.split(":")[1] for c in found.collectives} == {"default", "other"}
        gathered = next(c for c in found.collectives if c.collective_name == "nccl:all_gather")
        assert (gathered.input_sizes, gathered.output_sizes) == ([[6]], [[18]])


def test_a_running_job_in_the_middle_of_its_steps_has_no_mismatch(tmp_path: Path) -> None:
    with World(tmp_path / "w", 3) as running:
        running.train_a_while(0.3)
        status, text = export(*running.addresses(), "-o", str(tmp_path / "live"))
        assert status == 0, text
    found = analyse(tmp_path / "live")
    assert found.wrong == [], found.text
    assert len(found.collectives) > 20


@pytest.mark.parametrize(
    ("fault", "said"), [("skip", "TYPE_MISMATCH"), ("wrong_shape", "SIZE_OR_SYNTAX_MISMATCH")]
)
def test_who_leaves_a_collective_out_or_calls_another_size_is_named(
    fault: str, said: str, tmp_path: Path
) -> None:
    with World(tmp_path / "w", 3, env={"VICTIM": "2"}, http=False) as broken:
        broken.train_a_while(0.2)
        broken.befall(fault)
        for process in broken.ranks:
            assert process.wait(20) != 0
        status, text = export(str(broken.flight), "-o", str(tmp_path / "out"))
    assert status == 0, text
    found = analyse(tmp_path / "out")
    # Whose file the system lists first is taken for right: if that is 2, the others differ.
    first_read = next(path.name for path in os.scandir(tmp_path / "out"))
    named = {0, 1} if first_read == "rank_2" else {2}
    assert set(found.wrong[0].mismatch_collectives) == named, found.text
    for rank in named:
        told = found.text.replace("COLLECTIVE_", "")
        assert f"Culprit rank {rank}; Error type: {said}" in told, told


def test_who_hangs_before_a_collective_is_missing_in_it(tmp_path: Path) -> None:
    """Once the others have waited for longer than an op may take; before that it is no news."""
    with World(tmp_path / "w", 3, env={"VICTIM": "1"}) as hanging:
        hanging.befall("deadlocked_thread")
        hanging.train_a_while(2.5)
        status, text = export(*hanging.addresses(), "-o", str(tmp_path / "out"))
    assert status == 0, text
    found = analyse(tmp_path / "out")
    (missing,) = found.wrong
    assert missing.missing_ranks == {1}, found.text
    assert "Not all ranks joining collective" in found.text


@pytest.mark.parametrize(
    ("what", "out", "told"),
    [
        ("/nowhere/at/all", "new", "no file or folder /nowhere/at/all"),
        ("nonsense", "new", "host:port"),
        ("records", "full", "it is not empty; accepted: a new or an empty folder"),
        ("records", "full/file", "File exists; accepted: a new or an empty folder"),
        ("records", "full/file/below", "Not a directory; accepted"),
        ("rubbish", "new", "no flight record could be read"),
    ],
)
def test_what_cannot_be_read_or_written_is_told(
    what: str, out: str, told: str, tmp_path: Path
) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").touch()
    for folder in ("records", "rubbish"):
        (tmp_path / folder).mkdir()
    (tmp_path / "rubbish" / "x.flight").write_bytes(b"rubbish")
    native = tmp_path / "records" / "x.flight"
    native.write_bytes(empty_record())
    where = str(tmp_path / what) if (tmp_path / what).exists() else what
    status, text = export(where, "-o", str(tmp_path / out))
    assert status == 2, text
    assert told in text
    assert not (tmp_path / "new").exists()


def empty_record() -> bytes:
    """A header of rank 0 and no op, as docs/operate/flight-record.md describes it."""
    words = [0] * (1024 + 16)
    words[0] = int.from_bytes(b"HLDFGHT1", "little")
    words[1] = 3 | 1 << 32
    words[2] = 4711
    words[3] = 7
    return b"".join(word.to_bytes(8, "little") for word in words)


# Made up: what real ranks do rarely.


def test_torch_has_all_dtypes_of_ours_and_of_the_same_size() -> None:
    names = {
        "Bool": "bool",
        "Byte": "uint8",
        "Char": "int8",
        "Short": "int16",
        "Int": "int32",
        "Long": "int64",
        "Half": "float16",
        "Float": "float32",
        "Double": "float64",
        "ComplexFloat": "complex64",
        "ComplexDouble": "complex128",
    }
    for name, size in DTYPES.values():
        dtype = getattr(torch, names.get(name, name.lower()))
        assert torch.empty(0, dtype=dtype).element_size() == size, name


def test_a_folder_is_written_as_torch_names_its_files(tmp_path: Path) -> None:
    write(tmp_path / "a" / "b", dumps(world([record(r, well(3)) for r in (0, 11)])))
    assert {p.name for p in (tmp_path / "a" / "b").iterdir()} == {"rank_0", "rank_11"}
    dump = pickle.loads((tmp_path / "a" / "b" / "rank_11").read_bytes())
    assert dump["pg_config"] == {"g.1": {"name": "g.1", "desc": "default", "ranks": "[0, 11]"}}
    (last,) = dump["pg_status"].values()
    assert last["last_completed_collective"] == 2
    with pytest.raises(ConfigError, match="not empty"):
        write(tmp_path / "a" / "b", {})
    status, text = analyse_as_users_do(tmp_path / "a" / "b")
    assert (status, "has errors" in text) == (0, False), text


def test_of_a_record_that_was_overwritten_only_what_all_still_have_is_compared() -> None:
    short = dataclasses.replace(record(1, well(4, first=7)), ops=10)
    calls = calls_of(world([record(0, well(10)), short], process="gone"))
    assert [number for _, number in calls.of] == [6, 7, 8, 9]
    assert (calls.lost, calls.under_way) == (6, 0)


def test_a_group_that_an_overwritten_record_has_nothing_of_is_not_missed() -> None:
    other = [op(n, n * MS, n * MS + MS, group="h", sequence=n) for n in range(1, 4)]
    busy = dataclasses.replace(
        record(1, well(4, first=7)), ops=10, groups={"g": "default", "h": "pair"}
    )
    calls = calls_of(world([record(0, [*other, *well(7, first=4)]), busy], process="gone"))
    assert {group for group, _ in calls.of} == {"g"}


def test_members_of_each_view_are_those_who_were_in_it() -> None:
    """Rank 2 dies after op 3; its successor comes in view 3. Nobody is missed in between."""

    def survivor(rank: int) -> Record:
        views = [1, 1, 1, 2, 2, 3, 3]
        return record(rank, [op(n, n * MS, n * MS + MS, epoch=e) for n, e in enumerate(views, 1)])

    successor = [op(n - 5, n * MS, n * MS + MS, epoch=3, sequence=n - 1) for n in (6, 7)]
    after = world([survivor(0), survivor(1), record(2, successor)], process="gone")
    views = calls_of(after).views
    assert [(v.epoch, v.members) for v in views] == [(1, (0, 1)), (2, (0, 1)), (3, (0, 1, 2))]

    died = record(2, well(3))
    views = calls_of(world([survivor(0), survivor(1), died], process="gone")).views
    assert [v.members for v in views] == [(0, 1, 2), (0, 1), (0, 1)]


def test_an_op_that_some_called_before_a_loss_and_some_after_it_is_one_op() -> None:
    ops = [well(3), [*well(2), op(3, 3 * MS, 4 * MS, epoch=2, repaired=True)]]
    calls = calls_of(world([record(r, made) for r, made in enumerate(ops)], process="gone"))
    assert calls.views[calls.of["g", 2][0]].epoch == 2
    assert set(calls.of["g", 2][1]) == {0, 1}


def test_a_mute_rank_that_an_op_waits_for_is_a_member_without_a_file() -> None:
    waiting = [record(r, [*well(2), op(3, 3 * MS, 0, waited_for=(2,))]) for r in (0, 1)]
    calls = calls_of(world(waiting, now=60 * S))
    assert calls.views[0].members == (0, 1, 2)
    assert set(dumps(world(waiting, now=60 * S))) == {0, 1}


def test_blocks_of_vacant_ranks_are_not_counted() -> None:
    """Rank 2 of 4 is vacant in view 2: outputs have its block still."""
    first = [[op(1, MS, 2 * MS, rank=r)] for r in range(4)]
    later = {"epoch": 2, "collective": "all_gather", "bytes": 160}
    ops = [
        [*made, op(2, 3 * MS, 4 * MS, rank=r, **later)] if r != 2 else made
        for r, made in enumerate(first)
    ]
    found = dumps(world([record(r, made) for r, made in enumerate(ops)], process="gone"))
    entry = found[3]["entries"][1]
    assert (entry["input_sizes"], entry["output_sizes"]) == ([[10]], [[30]])


@pytest.mark.parametrize(
    ("change", "state"),
    [
        ({}, "completed"),
        ({"code": "Timeout"}, "started"),
        ({"state": "started", "ended_ns": 0}, "started"),
        ({"state": "started", "ended_ns": 0, "started_ns": 0}, "scheduled"),
    ],
)
def test_states_are_those_of_torch(change: dict[str, object], state: str) -> None:
    made = dataclasses.replace(op(1, MS, 2 * MS), **change)  # type: ignore[arg-type]
    (entry,) = dumps(world([record(0, [made])], process="gone"))[0]["entries"]
    assert entry["state"] == state
    assert ("duration_ms" in entry) == (state == "completed")


def test_entries_are_numbered_from_zero_on_each_rank() -> None:
    """The analyser cuts all ranks off at the highest first number."""
    found = dumps(world([record(0, well(5)), record(1, well(3, first=3))], process="gone"))
    assert [dump["entries"][0]["record_id"] for dump in found.values()] == [0, 0]
    assert [numbers(dump) for dump in found.values()] == [[0, 1, 2, 3, 4], [2, 3, 4]]
    assert [dump["version"] for dump in found.values()] == ["2.10", "2.10"]
