"""The collectors of evidence, against pages that are mute, slow, wrong or rubbish."""

from __future__ import annotations

import json
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from holdfast import _stacks
from holdfast.errors import ConfigError
from holdfast.ft.health import collect, dumps
from holdfast.ft.health.doctor import SICK, UNREACHABLE, job_of, status_of
from holdfast.ft.health.evidence import Evidence
from holdfast.ft.health.finding import Culprit, Finding, one_each

METRICS = 'holdfast_rank 2\nholdfast_members 3\nholdfast_link_bytes_total{peer="1"} 5\n'


@contextmanager
def pages(answer: Callable[[socket.socket, str], None]) -> Iterator[str]:
    """A server that does with each connection, and the path it asks for, what it is told."""
    listener = socket.create_server(("127.0.0.1", 0))
    stop = threading.Event()

    def serve(client: socket.socket) -> None:
        with client:
            try:
                client.settimeout(5)
                asked = client.recv(4096).decode().split(" ")
                if len(asked) > 1:  # the looker may have given up before it asked
                    answer(client, asked[1])
            except OSError:
                pass

    def accept() -> None:
        while not stop.is_set():
            try:
                client, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=serve, args=(client,), daemon=True).start()

    thread = threading.Thread(target=accept, daemon=True)
    thread.start()
    try:
        yield f"127.0.0.1:{listener.getsockname()[1]}"
    finally:
        stop.set()
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join(5)


def reply(client: socket.socket, body: str, status: str = "200 OK") -> None:
    data = body.encode()
    client.sendall(f"HTTP/1.1 {status}\r\nContent-Length: {len(data)}\r\n\r\n".encode() + data)


def healthy(client: socket.socket, path: str) -> None:
    bodies = {"/metrics": METRICS, "/flight": "no json", "/healthz": "ok\n", "/readyz": "ok\n"}
    reply(client, bodies[path])


def test_a_look_has_what_there_is_although_the_record_is_rubbish() -> None:
    with pages(healthy) as where:
        look = collect.look(where)
    assert (look.trouble, look.health, look.ready, look.record) == ("", "ok", "ok", None)
    assert look.metrics is not None
    assert collect.numbered([collect.Address(where)], [look]) == [2]
    assert collect.numbered([collect.Address(where, 7)], [look]) == [7]


def test_who_is_mute_or_drips_keeps_nobody_waiting() -> None:
    release = threading.Event()

    def mute(client: socket.socket, path: str) -> None:
        release.wait(10)

    def drip(client: socket.socket, path: str) -> None:
        client.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")
        while not release.wait(0.05):
            client.sendall(b"x")

    with pages(mute) as first, pages(drip) as second, pages(healthy) as third:
        began = time.monotonic()
        looks = collect.look_at_all([collect.Address(where) for where in (first, second, third)])
        took = time.monotonic() - began
        release.set()
    assert [bool(look.trouble) for look in looks] == [True, True, False]
    assert took < 3 * collect.ANSWER_S


def test_what_is_late_for_all_is_given_up() -> None:
    release = threading.Event()

    def work(item: int) -> int:
        if item == 1:
            release.wait(10)
        return item

    assert collect.at_once(work, [0, 1, 2], 0.5, lambda item: -item) == [0, -1, 2]
    release.set()
    many = list(range(500))
    assert collect.at_once(lambda item: 2 * item, many, 30, lambda item: -1) == [
        2 * item for item in many
    ]


def test_who_speaks_no_http_is_told_of_as_mute() -> None:
    with pages(lambda client, _: client.sendall(b"\0\1 no http\r\n\r\n")) as where:
        with pytest.raises(OSError, match="no http"):
            collect.page(where, "/healthz")
        seen = collect.look(where)
    assert seen.trouble


def test_a_record_of_brackets_is_no_record() -> None:
    def brackets(client: socket.socket, path: str) -> None:
        if path == "/flight":
            return reply(client, "[" * 100_000)
        return healthy(client, path)

    with pages(brackets) as where:
        seen = collect.look(where)
    assert seen.record is None


def test_a_coordinator_that_answers_rubbish_is_no_coordinator() -> None:
    def rubbish(client: socket.socket, path: str) -> None:
        reply(client, '{"no": "list"}')

    with pages(rubbish) as where, pytest.raises(ValueError, match="no list"):
        collect.targets(where)

    def missing(client: socket.socket, path: str) -> None:
        reply(client, "none\n", "404 Not Found")

    with pages(missing) as where, pytest.raises(ValueError, match="404"):
        collect.targets(f"http://{where}/targets")
    with pages(missing) as where:
        job = job_of([], where)
        evidence = job.look()
    assert "404" in evidence.coordinator_trouble
    assert collect.reach(f"{where}/job") != ""
    with pages(missing) as where:
        assert collect.reach(f"{where}/job") == ""
        assert collect.reach(f"127.0.0.1:1,{where}/job") == ""
    assert re.fullmatch("127.0.0.1:1: .*refused; nowhere: .*", collect.reach("127.0.0.1:1,nowhere"))


def test_targets_that_vanish_are_looked_at_still() -> None:
    names: list[str] = []

    def coordinator(client: socket.socket, path: str) -> None:
        rows = [
            {"targets": [where], "labels": {"role": "rank", "rank": str(rank), "host": "h"}}
            for rank, where in enumerate(names)
        ]
        reply(client, json.dumps(rows))

    with pages(healthy) as first, pages(healthy) as second, pages(coordinator) as where:
        names[:] = [first, second]
        job = job_of([], where)
        assert [s.rank for s in job.look().subjects] == [0, 1]
        names.pop()
        evidence = job.look()
    assert [s.source for s in evidence.subjects] == [first, second]
    assert evidence.vanished == ((second, 1),)


def test_files_that_are_no_records_are_told_of(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no flight records"):
        dumps.collect([tmp_path])
    with pytest.raises(ConfigError, match="no file or folder"):
        dumps.collect([tmp_path / "missing"])
    (tmp_path / "a.flight").write_bytes(b"")
    (tmp_path / "b.flight").write_bytes(b"x" * 5000)
    evidence = dumps.collect([tmp_path])
    assert evidence.subjects == ()
    assert [Path(bad.path).name for bad in evidence.bad_files] == ["a.flight", "b.flight"]
    found = [Finding("bad-dump", Culprit(file="a"), 0.95, (), "")]
    assert status_of(evidence, found) == SICK
    assert status_of(Evidence(), []) == UNREACHABLE


def test_the_same_of_the_same_is_said_once() -> None:
    first = Finding("lost", Culprit((1,)), 0.6, ("a",), "x")
    second = Finding("lost", Culprit((1,)), 0.9, ("b", "a"), "y")
    other = Finding("left", Culprit((2,)), 0.9, ("c",), "z", remark=True)
    merged = one_each([other, first, second])
    assert [(f.kind, f.confidence, f.evidence) for f in merged] == [
        ("lost", 0.9, ("b", "a")),
        ("left", 0.9, ("c",)),
    ]


def test_a_program_that_uses_the_signal_keeps_it() -> None:
    code = (
        "import signal\n"
        "from holdfast import _stacks\n"
        "signal.signal(_stacks.SIGNAL, lambda *_: print('mine'))\n"
        "stacks = _stacks.Stacks('')\n"
        "assert stacks._file is None\n"
        "signal.raise_signal(_stacks.SIGNAL)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, "mine\n"), done.stderr


def test_stacks_are_appended_to_a_file_beside_the_record(tmp_path: Path) -> None:
    code = (
        "import os, signal, sys\n"
        "from holdfast import _stacks\n"
        "stacks = _stacks.Stacks(sys.argv[1])\n"
        "def where_it_is(): signal.raise_signal(_stacks.SIGNAL)\n"
        "where_it_is(); where_it_is()\n"
        "print(_stacks.stack_path(sys.argv[1], os.getpid()))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    assert Path(done.stdout.strip()).read_text().count("in where_it_is") == 2
    assert signal.getsignal(_stacks.SIGNAL) is signal.SIG_DFL
