"""What a keeper is made of, each part alone: messages, memory, pieces, places of a code, work."""

from __future__ import annotations

import mmap
import os
import random
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from holdfast import _core, _job
from holdfast.errors import AuthFailed, ConfigError, ProtocolError, SystemFailure, Timeout
from holdfast.ft.state.keeper import link, starting, wire
from holdfast.ft.state.keeper.address import Address, refuse_others
from holdfast.ft.state.keeper.capture import TILE, Tiles, pieces_of, read
from holdfast.ft.state.keeper.memory import Region, available, mapped
from holdfast.ft.state.keeper.slots import Part, Slots
from holdfast.ft.state.keeper.wire import Message
from holdfast.ft.state.keeper.worker import Worker
from holdfast.ft.state.places import Places, room


def test_a_message_comes_as_it_was_with_its_descriptors():
    ours, theirs = socket.socketpair()
    region = Region("inbox", 5)
    region.view[:] = b"hello"
    wire.send(ours, Message("take", {"step": 3}, b"blob", (region.descriptor,)))
    found = wire.receive(theirs)
    assert found is not None
    assert (found.kind, found.fields, found.blob) == ("take", {"step": 3}, b"blob")
    assert bytes(mapped(found.descriptors[0], 5)) == b"hello"
    ours.close()
    assert wire.receive(theirs) is None


def test_whatever_comes_is_a_message_or_is_refused():
    rng = random.Random(7)
    whole = wire.encode(Message("take", {"step": 3, "layout": "x"}, b"0123456789"))
    kinds = set()
    for _ in range(3000):
        data = bytearray(whole)
        for _ in range(rng.randint(1, 4)):
            data[rng.randrange(len(data))] = rng.randrange(256)
        data = data[: rng.randint(0, len(data))] if rng.random() < 0.3 else data
        ours, theirs = socket.socketpair()
        theirs.settimeout(5.0)
        ours.sendall(data)
        ours.close()
        try:
            found = wire.receive(theirs)
            kinds.add("none" if found is None else "message")
        except (ProtocolError, Timeout):
            kinds.add("refused")
        theirs.close()
    assert kinds == {"none", "message", "refused"}


@pytest.mark.parametrize(
    "header", [b"", b"HFK2" + bytes(8), b"HFK1" + b"\xff" * 8, b"HFK1" + bytes(4) + b"\xff" * 4]
)
def test_what_is_no_header_or_says_too_much_is_refused_unread(header: bytes):
    with pytest.raises(ProtocolError, match="accepted"):
        wire.lengths(header)


@pytest.mark.parametrize("value", [-1, 1 << 70, 1.5, "3", None, True])
def test_a_field_that_is_no_number_is_named(value: object):
    with pytest.raises(ProtocolError, match="step = "):
        Message("take", {"step": value}).number("step")


def test_pieces_that_overlap_or_go_beyond_the_body_are_refused():
    def blob(*rows: tuple[int, int, int]) -> bytes:
        return np.array(rows, "<i8").tobytes()

    assert len(pieces_of(blob((1, 10, 0), (1, 5, 10)), 15)) == 2
    for bad in (
        blob((1, 10, 0), (1, 5, 9)),
        blob((1, 10, 6)),
        blob((1, 1 << 62, 1 << 62)),
        blob((1, 10, -1)),
        blob((0, 10, 0)),
        blob((1, 0, 0)),
        b"odd",
    ):
        with pytest.raises(ProtocolError):
            pieces_of(bad, 15)


def test_memory_of_a_process_is_read_tile_by_tile():
    source = np.random.default_rng(1).integers(0, 256, 3 * TILE + 17, np.uint8)
    body = bytearray(len(source))
    tiles = Tiles(memoryview(body))
    half = len(source) // 2
    address = source.ctypes.data
    rows = np.array([[address, half, 0], [address + half, len(source) - half, half]], np.int64)
    for upto in read(os.getpid(), rows, memoryview(body)):
        tiles.complete(upto)
    tiles.complete(len(body))
    assert bytes(body) == source.tobytes()
    assert Tiles(memoryview(body)).damaged(tiles.hashes) == []
    body[2 * TILE + 5] ^= 1
    assert Tiles(memoryview(body)).damaged(tiles.hashes) == [2]
    with pytest.raises(SystemFailure, match="cannot be read"):
        list(read(os.getpid(), np.array([[8, 10, 0]], np.int64), memoryview(bytearray(10))))


def test_memory_that_there_is_not_is_refused_with_bytes():
    there = available()
    with pytest.raises(ConfigError, match=rf"{there * 4} bytes, and \d+ can be had"):
        Region("snapshot", there * 4)
    with pytest.raises(ConfigError, match="2 snapshots of"):
        Slots().reserve(there, 0)


def test_memory_that_could_shrink_is_not_mapped():
    number = os.memfd_create("open", os.MFD_ALLOW_SEALING)
    os.ftruncate(number, 10)
    with pytest.raises(SystemFailure, match="sealed"):
        mapped(number, 10)


def test_a_slot_has_zeros_where_no_tensor_is():
    slots = Slots()
    slots.reserve(*room(2, 1, 3 * TILE))
    slot = slots.all[0]
    slot.begin(Part(1, 100, "a", b""))
    slot.body[:] = b"x" * 100
    slot.begin(Part(2, 60, "a", b""))
    assert bytes(slot.region.view[:120]) == b"x" * 60 + bytes(60)
    slot.begin(Part(3, 60, "b", b""))
    assert bytes(slot.body) == bytes(60)
    assert isinstance(slot.region._map, mmap.mmap)


@pytest.mark.parametrize(("k", "m"), [(1, 1), (2, 1), (3, 1), (2, 2), (5, 3)])
def test_places_of_a_code_are_those_of_the_core(k: int, m: int):
    places = Places(k, m)
    for member, row in enumerate(_core.code_places(k, m)):
        for codeword, (is_parity, index) in enumerate(row):
            assert places.row(member, codeword) == (k + index if is_parity else index)
            where = places.codeword_of_row if is_parity else places.codeword_of_slice
            assert where(member, index) == codeword


def test_work_is_done_in_order_and_taken_over_when_somebody_waits():
    done: list[int] = []
    errors: list[BaseException] = []
    threads: set[int] = set()
    gate, ended = threading.Event(), threading.Event()

    def task(number: int) -> Iterator[None]:
        for _ in range(3):
            threads.add(threading.get_native_id())
            gate.wait(10)
            yield
        if number == 1:
            raise ConfigError("wrong")
        done.append(number)
        if number == 2:
            ended.set()

    worker = Worker(errors.append)
    for number in range(3):
        worker.add(task(number))
    assert worker.has_more
    worker.hurry()
    gate.set()
    assert ended.wait(10)
    assert done == [0, 2]
    assert [str(error) for error in errors] == ["wrong"]
    assert len(threads) >= 1
    worker.close()


def test_a_keepers_name_is_one_of_user_job_host_and_rank():
    first = Address("job", "", 0)
    names = {first.name, Address("job", "", 1).name, Address("job", "b", 0).name}
    assert len(names | {Address("other", "", 0).name}) == 4
    assert all(name[:1] == b"\0" and len(name) < 107 for name in names)
    place = Address(f"test-{os.getpid()}", "", 0)
    assert place.connect(1.0) is None
    listener = place.listen()
    assert listener is not None
    assert place.listen() is None
    caller = place.connect(1.0)
    assert caller is not None
    assert refuse_others(caller, "a test") == os.getpid()
    caller.close()
    assert place.take(5.0) is None  # it answers
    listener.close()


def test_the_name_of_a_keeper_that_is_ending_is_waited_for():
    place = Address(f"test-ends-{os.getpid()}", "", 0)
    ending = place.listen()
    assert ending is not None
    ending.shutdown(socket.SHUT_RDWR)
    end = threading.Timer(0.1, ending.close)
    end.start()
    taken = place.take(20.0)
    end.join()
    assert taken is not None
    taken.close()


def test_a_keeper_is_started_again_when_the_one_of_the_life_before_has_gone(
    monkeypatch: pytest.MonkeyPatch,
):
    """One that ends has the address, and answers nobody: who is started meanwhile ends at once."""
    place, started = Address(f"test-{os.getpid()}", "again", 0), []

    def answer(listener: socket.socket) -> None:
        caller, _ = listener.accept()
        with caller, listener:
            assert wire.receive(caller) is not None
            wire.send(caller, Message("welcome", {"snapshots": []}))
            wire.receive(caller)

    def start(address: Address, *_: object) -> subprocess.Popen[bytes]:
        process = subprocess.Popen([sys.executable, "-c", ""])
        process.wait()
        started.append(process)
        if len(started) == 3:
            listener = address.listen()
            assert listener is not None
            threading.Thread(target=answer, args=(listener,), daemon=True).start()
        return process

    monkeypatch.setattr(starting, "start", start)
    found, welcome = link.KeeperLink.find(place, None, 60.0, 5.0)
    assert (welcome.kind, len(started)) == ("welcome", 3)
    found.close()


def test_why_a_keeper_could_not_begin_is_said(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("HOLDFAST_TIMEOUT", "soon")
    place = Address(f"test-{os.getpid()}", "none", 0)
    words = r"rank 0, ended with 1 before it answered: .*HOLDFAST_TIMEOUT = 'soon'; accepted"
    with pytest.raises(SystemFailure, match=words):
        link.KeeperLink.find(place, None, 60.0, 20.0)


def test_a_keeper_that_is_found_keeps_nothing_of_what_it_says():
    """What it said before is in memory, which would grow with every view."""
    found, _ = link.KeeperLink.find(Address(f"test-{os.getpid()}", "silent", 0), None, 60.0)
    assert str(Path(f"/proc/{found.process}/fd/2").readlink()) == os.devnull
    found.send(Message("end"))
    found.close()


def test_another_users_process_is_refused(monkeypatch: pytest.MonkeyPatch):
    ours, theirs = socket.socketpair()
    real = os.getuid()
    monkeypatch.setattr(os, "getuid", lambda: real + 1)
    with pytest.raises(AuthFailed, match=rf"is of user {real}; accepted: user {real + 1}"):
        refuse_others(ours, "the keeper")
    theirs.close()


@pytest.mark.parametrize(
    ("env", "name"),
    [
        ({"HOLDFAST_JOB": "a", "TORCHELASTIC_RUN_ID": "b"}, "a"),
        ({"TORCHELASTIC_RUN_ID": "b", "SLURM_JOB_ID": "3"}, "torchrun-b"),
        ({"TORCHELASTIC_RUN_ID": "none", "SLURM_JOB_ID": "3"}, "slurm-3"),
        ({"HOLDFAST_COORDINATOR": "host:29400/run7"}, "coordinator-run7"),
        ({"MASTER_ADDR": "host", "MASTER_PORT": "1"}, "at-host:1"),
    ],
)
def test_a_job_is_called_as_its_launcher_calls_it(env: dict[str, str], name: str):
    assert _job.job_name(env) == name


def test_a_job_without_a_name_is_refused():
    with pytest.raises(ConfigError, match="HOLDFAST_JOB"):
        _job.job_name({})
