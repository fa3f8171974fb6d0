"""`holdfast top` and `holdfast health`: what they print of a real job, and of nothing."""

from __future__ import annotations

import contextlib
import http.server
import io
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from health_jobs import Job
from ports import held_port
from ranks import kill
from waiting import WAIT_S, eventually

import holdfast
from holdfast.ft.health import status, top
from holdfast.ft.health.access import Access

HOLDFAST = [sys.executable, "-m", "holdfast.cli"]


def call(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*HOLDFAST, *arguments], capture_output=True, text=True, timeout=60)


def test_once_prints_the_job_and_says_by_its_status_whether_all_is_well(tmp_path: Path) -> None:
    with Job(tmp_path, "work_until_stopped", 3) as job:
        job.heard()
        eventually(lambda: 2 in [s["rank"] for s in job.world()["stragglers"]])
        done = call("top", "--once", job.pages)
        assert done.returncode == 0, done.stderr
        assert "epoch 1, 3 of 3 ranks" in done.stdout
        assert done.stdout.count(" well ") == 3
        assert "straggler: rank 2" in done.stdout
        assert "began 0, 1, 2" in done.stdout
        assert "\x1b" not in done.stdout
        kill(job.ranks[0])
        eventually(lambda: job.world()["ranks"][0]["state"] == "lost")
        done = call("top", "--once", f"http://{job.pages}/")
        assert done.returncode == 1
        assert "lost: died" in done.stdout
        said = json.loads(call("top", "--json", job.where[1]).stdout)
        assert (said["role"], said["worlds"][0]["members"]) == ("rank", 2)
        watch_in_a_terminal(job, "lost: died")
        watch_through_a_pipe(job, "lost: died")
        job.stop(but=(0,))


def watch_in_a_terminal(job: Job, text: str) -> None:
    """It shows the text, and leaves the terminal as it was when it is interrupted."""
    ours, its = os.openpty()
    live = subprocess.Popen(
        [*HOLDFAST, "top", "--interval", "0.1", job.pages],
        env={**os.environ, "TERM": "xterm", "COLUMNS": "120", "LINES": "60"},
        stdout=its,
        stderr=its,
    )
    job.keep(live)
    os.close(its)
    try:
        seen = ""
        while text not in seen:
            seen += hear(ours)
        live.send_signal(signal.SIGINT)
        while "\x1b[?1049l" not in seen:
            seen += hear(ours)
        assert live.wait(WAIT_S) == 0
    finally:
        os.close(ours)


def watch_through_a_pipe(job: Job, text: str) -> None:
    """It prints a picture after the other."""
    live = subprocess.Popen(
        [*HOLDFAST, "top", "--interval", "0.1", job.pages], stdout=subprocess.PIPE
    )
    job.keep(live)
    assert live.stdout is not None
    seen = ""
    while seen.count(text) < 3:
        seen += hear(live.stdout.fileno())
    assert "\x1b" not in seen
    live.send_signal(signal.SIGTERM)
    live.communicate(timeout=WAIT_S)
    assert live.returncode == 0


def hear(file: int) -> str:
    ready, _, _ = select.select([file], [], [], WAIT_S)
    assert ready, "nothing came"
    part = os.read(file, 1 << 16).decode(errors="replace")
    assert part, "it has ended"
    return part


@pytest.fixture
def answers() -> Iterator[Any]:
    """A server that is no Holdfast; what it answers can be set."""

    class Page(http.server.BaseHTTPRequestHandler):
        code, body = 200, b"hello"

        def do_GET(self) -> None:
            self.send_response(self.code)
            self.end_headers()
            self.wfile.write(self.body)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Page)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server, Page
    server.shutdown()
    server.server_close()
    thread.join()


def test_what_cannot_be_asked_is_named() -> None:
    nobody = f"127.0.0.1:{held_port()}"
    done = call("top", "--once", nobody)
    assert done.returncode == 2
    assert f"nothing answers at http://{nobody}/status: " in done.stderr
    assert "--http" in done.stderr
    assert "Traceback" not in done.stderr
    for address in ("nonsense", "host", "host:port", "ftp://host:1", "u:p@host:1", "host:99999"):
        with pytest.raises(holdfast.ConfigError, match="accepted: host:port"):
            status.fetch(address)
    done = call("top", "--interval", "0", nobody)
    assert done.returncode == 2
    assert "accepted: 0.1 seconds and more" in done.stderr


def test_what_is_no_holdfast_is_refused(answers: Any) -> None:
    server, page = answers
    where = f"127.0.0.1:{server.server_port}"
    with pytest.raises(holdfast.ProtocolError, match="is no Holdfast"):
        status.fetch(where)
    page.body = b'{"format": 2}'
    with pytest.raises(holdfast.ProtocolError, match="speaks format 2; known here: 1"):
        status.fetch(where)
    page.body = b"[1]"
    with pytest.raises(holdfast.ProtocolError, match="speaks format None"):
        status.fetch(where)
    page.body = b"[" * 100_000
    with pytest.raises(holdfast.ProtocolError, match="is no Holdfast"):
        status.fetch(where)
    page.code = 404
    with pytest.raises(holdfast.ProtocolError, match="status 404"):
        status.fetch(where)


def test_an_answer_that_trickles_in_is_waited_for_no_longer_than_said() -> None:
    def trickle() -> None:
        client, _ = server.accept()
        with client, contextlib.suppress(OSError):
            client.recv(4096)
            client.sendall(b"HTTP/1.0 200 OK\r\n\r\n")
            while not over.wait(0.05):
                client.sendall(b" ")

    over = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=trickle)
        thread.start()
        began = time.monotonic()
        with pytest.raises(holdfast.HoldfastError, match=r"did not come whole within 0\.5 s"):
            status.fetch(f"127.0.0.1:{server.getsockname()[1]}", 0.5)
        assert time.monotonic() - began < 5
        over.set()
        thread.join(WAIT_S)


FAR_LINK = {
    "rank": 0,
    "peer": "other",
    "state": "cut",
    "relayed": True,
    "lanes": 0,
    "control": "\x1b[1m",
    "bytes_per_s": 2_000_000,
    "rtt_s": 0.0412,
    "sent_again_bytes": 65536,
    "resumed": 1,
    "cuts": 7,
    "recent_cuts": 6,
    "cut_why": "\x9breset",
    "cut_s": 3.0,
    "down_s": 2.0,
}


def test_text_from_other_hosts_steers_no_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    from rich.console import Console

    rank = {
        "rank": 0,
        "state": "lost",
        "cause": "\x1b[2J",
        "host": "\x1b]0;x\x07[red]h",
        "http": "",
        "heard_s": None,
        "since_s": 1.0,
        "waited_for": 0.0,
    }
    world = {
        "name": "\x1bc",
        "epoch": 1,
        "members": 1,
        "size": 1,
        "waiting": 0,
        "blocked": "\x9b1m",
        "ranks": [rank],
        "ranks_left_out": 5,
        "links": [],
        "far_links": [FAR_LINK] * 11,
        "far_links_left_out": 3,
        "stragglers": [],
        "epochs": [],
    }
    event = {
        "time_s": 0.0,
        "world": "\x1b[5m",
        "kind": "lost",
        "cause": "died",
        "why": "",
        "epoch": 1,
        "count": 20,
        "ranks": [0],
        "hosts": ["h"],
    }
    said = {
        "format": 1,
        "role": "rank",
        "time_s": 0.0,
        "sickness": "\x1b",
        "worlds": [world],
        "events": [event],
    }
    text = io.StringIO()
    Console(file=text, width=110).print(top._picture(said, top._Pages("a:1", Access()), "\x1b[31m"))
    assert "[red]h" in text.getvalue()
    assert "5 more" in text.getvalue()
    assert "lost 0 and 19 more: died" in text.getvalue()
    assert text.getvalue().count(" relay ") == 8
    assert "cut for 2.0 s" in text.getvalue()
    assert " ?reset " in text.getvalue()
    assert "41.2 ms" in text.getvalue()
    assert "6 more" in text.getvalue()
    assert not set(text.getvalue()) & {"\x1b", "\x07", "\x9b"}


def test_rules_and_dashboard_are_printed() -> None:
    rules = call("health", "--rules")
    assert rules.returncode == 0, rules.stderr
    assert yaml.safe_load(rules.stdout)["groups"][0]["name"] == "holdfast"
    assert json.loads(call("health", "--dashboard").stdout)["title"] == "Holdfast"
    assert call("health").returncode == 2


def test_numbers_are_short() -> None:
    assert [top.short(n) for n in (0, 0.5, 999, 1000, 123456, 2.5e9, 7e12)] == [
        *("0", "0.5", "999", "1k", "123k", "2.5G", "7T")
    ]
