"""An operator acts on a coordinator's jobs: with a real coordinator, and members in processes.

Who may, what comes of it for the member that it is about, and that the others lose nothing.
"""

from __future__ import annotations

import http.client
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from leftovers import running
from ports import held_port
from ranks import finish, start_rank

from holdfast import _core
from holdfast.cli import main
from holdfast.ft.health import status

PATIENCE_S = 30.0
JOB = "run7/elastic"
PASSWORD = "correct-horse-battery"


class _Coordinator:
    def __init__(self, here: Path, *options: str, heartbeat: str = "0.1") -> None:
        self.address = f"127.0.0.1:{held_port()}"
        self.log = here / "coordinator.log"
        self.audit = here / "audit.json"
        self.secret = str(here / "run.secret")
        if not Path(self.secret).exists():
            assert main(["secret", self.secret]) == 0
        self._options = options
        self._heartbeat = heartbeat
        self.start()

    def start(self) -> None:
        command = ["-m", "holdfast.cli", "coordinator", "--port", self.address.split(":")[1]]
        command += ["--address", "127.0.0.1", "--grace", "0", "--secret-file", self.secret]
        command += ["--http", "127.0.0.1:0", *self._options]
        env = {"HOLDFAST_AUDIT_FILE": str(self.audit), "HOLDFAST_HEARTBEAT": self._heartbeat}
        self.process = subprocess.Popen(
            [sys.executable, *command],
            stdout=subprocess.PIPE,
            stderr=self.log.open("a"),
            text=True,
            env={**os.environ, **env},
        )
        running.append(self.process)
        assert self.process.stdout is not None
        assert "listens" in self.process.stdout.readline()
        self.pages = self.process.stdout.readline().split("http://")[1].strip()

    def audited(self, event: str) -> list[dict[str, Any]]:
        told = [json.loads(line) for line in self.audit.read_text().splitlines()]
        return [line for line in told if line["event"] == event]

    def token(self, *arguments: str, run: str = "run7", capsys: Any) -> str:
        capsys.readouterr()
        command = ["token", "new", "--secret-file", self.secret, "--run", run, *arguments]
        assert main(command) == 0
        path = Path(self.secret).parent / f"{time.monotonic_ns()}.token"
        path.touch(mode=0o600)
        path.write_text(capsys.readouterr().out)
        return str(path)


@pytest.fixture
def coordinator(tmp_path: Path) -> _Coordinator:
    return _Coordinator(tmp_path, "--quota", "run7=members:3", "--quota", "*=groups:1")


class _Admin:
    """`holdfast admin` with a token."""

    def __init__(self, coordinator: _Coordinator, capsys: Any, *arguments: str) -> None:
        self._url = ["--url", coordinator.pages]
        self._capsys = capsys
        role = arguments or ("--role", "admin")
        self.token = coordinator.token(*role, capsys=capsys)

    def __call__(self, *arguments: str) -> dict[str, Any]:
        self._capsys.readouterr()
        status = main(["admin", *arguments, "--json", "--token-file", self.token, *self._url])
        out = self._capsys.readouterr().out
        said: dict[str, Any] = json.loads(out)
        assert status == (1 if "error" in said else 0), out
        return said


def _peers(coordinator: _Coordinator, here: Path, count: int, capsys: Any, **env: str) -> list[Any]:
    file = coordinator.token(capsys=capsys)
    more = {
        "HOLDFAST_TRANSPORTS": "tcp",
        "HOLDFAST_HEARTBEAT": "0.1",
        "HOLDFAST_CONNECT_TIMEOUT": "20",
        "HOLDFAST_TOKEN_FILE": file,
        "URL": f"holdfast://{coordinator.address}/run7",
        "MIN_PEERS": str(count),
        "HERE": str(here),
        **env,
    }
    peers = [start_rank("admin_ranks", "step_by_step", n, 1, here, more) for n in range(count)]
    running.extend(peers)
    _wait(lambda: all(_steps(here, peer) for peer in peers), "the group never began")
    return peers


def _steps(here: Path, peer: Any) -> list[list[int]]:
    """Rank, step, epoch, ranks present and sum, of each step that has ended."""
    path = here / f"steps.{peer.pid}"
    text = path.read_text() if path.exists() else ""
    whole = text[: text.rfind("\n") + 1]
    return [[int(word) for word in line.split()] for line in whole.splitlines()]


def _wait(there: Callable[[], bool], what: str) -> None:
    until = time.monotonic() + PATIENCE_S
    while not there():
        assert time.monotonic() < until, what
        time.sleep(0.01)


def _states(coordinator: _Coordinator) -> list[str]:
    (world,) = status.fetch(coordinator.pages)["worlds"]
    return [rank["state"] for rank in world["ranks"]]


def _of_rank(here: Path, peers: list[Any], rank: int) -> Any:
    return next(peer for peer in peers if _steps(here, peer)[0][0] == rank)


def _check_survivors(here: Path, left: list[Any]) -> list[list[int]]:
    """They end well, and each step had one result on all of them."""
    (here / "leave").touch()
    for outcome in finish(left, 60):
        assert outcome.status == 0, outcome.output
        assert "left" in outcome.output
    histories = [[step[1:] for step in _steps(here, peer)] for peer in left]
    assert all(history == histories[0] for history in histories)
    return histories[0]


def test_a_drained_member_leaves_at_a_boundary_and_no_op_misses_it(
    coordinator: _Coordinator, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    admin = _Admin(coordinator, capsys)
    peers = _peers(coordinator, tmp_path, 3, capsys, RETURNS="1")
    done = admin("drain", JOB, "1", "--why", "its host is replaced")
    assert done["done"]
    gone = _of_rank(tmp_path, peers, 1)
    (outcome,) = finish([gone], 30)
    told = "drained by an operator: its host is replaced"
    assert f"NotMember: {told}" in outcome.output
    # The process may not come back.
    assert "again: " in outcome.output
    assert told in outcome.output.split("again: ")[1]
    last = _steps(tmp_path, gone)[-1]
    left = [peer for peer in peers if peer is not gone]
    _wait(lambda: _steps(tmp_path, left[0])[-1][1] > last[1] + 2, "the others did not go on")
    # The page is written once a heartbeat, so it may be one heartbeat older than the ops.
    shown = ["well", "left", "well"]
    _wait(lambda: _states(coordinator) == shown, f"the page never said {shown}")
    (world,) = status.fetch(coordinator.pages)["worlds"]
    assert world["epochs"][-1]["left"] == 1
    history = _check_survivors(tmp_path, left)
    # Up to its last step all three are in each sum, and after it exactly the two.
    for step, _, present, total in history:
        expected = 3 if step <= last[1] else 2
        assert (present, total) == (expected, expected), history[step - 2 : step + 2]
    (line,) = coordinator.audited("admin drain")
    assert line["token"] == _core.token_serial(Path(admin.token).read_text())
    assert line["why"] == f"{JOB} rank 1: asked for"
    assert line["run"] == "run7"


def test_a_view_is_on_the_page_when_it_begins_and_not_a_heartbeat_later(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    coordinator = _Coordinator(tmp_path, heartbeat="3")
    admin = _Admin(coordinator, capsys)
    peers = _peers(coordinator, tmp_path, 3, capsys)
    assert len(_states(coordinator)) == 3
    gone = _of_rank(tmp_path, peers, 1)
    assert admin("drain", JOB, "1")["done"]
    finish([gone], 30)
    (world,) = status.fetch(coordinator.pages)["worlds"]
    assert world["ranks"][1]["state"] == "left"
    assert [epoch["members"] for epoch in world["epochs"]] == [3, 2]
    _check_survivors(tmp_path, [peer for peer in peers if peer is not gone])


def test_a_drain_that_meets_no_boundary_says_so_and_changes_nothing(
    coordinator: _Coordinator, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    admin = _Admin(coordinator, capsys)
    peers = _peers(coordinator, tmp_path, 2, capsys, ADVANCES="0")
    refused = admin("drain", JOB, "1", "--timeout", "0.5")
    assert "reached no step boundary within 0.5 s" in refused["error"]
    assert [m["order"] for m in admin("members", JOB)["members"]] == ["", ""]
    history = _check_survivors(tmp_path, peers)
    assert all(total == 2 for *_, total in history)


def test_a_kicked_member_is_out_at_once_and_the_others_sums_are_right(
    coordinator: _Coordinator, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    admin = _Admin(coordinator, capsys)
    peers = _peers(coordinator, tmp_path, 3, capsys, ADVANCES="0", RETURNS="1")
    members = admin("members", JOB)
    assert [m["rank"] for m in members["members"]] == [0, 1, 2]
    assert {m["address"] for m in members["members"]} == {"127.0.0.1"}
    assert len({m["token"] for m in members["members"]}) == 1
    done = admin("kick", JOB, "2", "--why", "it computes nonsense")
    assert done["epoch"] > members["epoch"]
    gone = _of_rank(tmp_path, peers, 2)
    (outcome,) = finish([gone], 30)
    told = "kicked by an operator: it computes nonsense"
    assert re.search(rf"NotMember: .*{told}", outcome.output)
    assert told in outcome.output.split("again: ")[1]
    left = [peer for peer in peers if peer is not gone]
    _wait(lambda: _steps(tmp_path, left[0])[-1][2] >= done["epoch"], "they did not go on")
    history = _check_survivors(tmp_path, left)
    totals = [total for *_, total in history]
    assert totals == sorted(totals, reverse=True)
    assert set(totals) == {3, 2}
    # Its token's use stays counted, and lets another process in.
    assert coordinator.audited("admin kick")[0]["why"] == f"{JOB} rank 2: asked for"


def test_members_wait_while_their_job_is_paused_beyond_their_timeout(
    coordinator: _Coordinator, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    admin = _Admin(coordinator, capsys)
    peers = _peers(coordinator, tmp_path, 2, capsys, HOLDFAST_TIMEOUT="2")
    assert admin("pause", JOB)["done"]
    _wait(lambda: admin("jobs")["jobs"][0]["paused"] == "yes", "it did not come to rest")
    steps = len(_steps(tmp_path, peers[0]))
    # Twice the members' time limit.
    until = time.monotonic() + 4
    _wait(lambda: time.monotonic() > until, "time goes on")
    (job,) = admin("jobs")["jobs"]
    assert job["paused"] == "yes"
    assert 3000 < job["paused_for_s"] < 3600
    assert len(_steps(tmp_path, peers[0])) <= steps + 1
    assert admin("resume", JOB)["done"]
    _wait(lambda: len(_steps(tmp_path, peers[0])) > steps + 10, "they did not go on")
    assert admin("pause", JOB, "--at-most", "0.5")["done"]
    steps = len(_steps(tmp_path, peers[0]))
    _wait(lambda: len(_steps(tmp_path, peers[0])) > steps + 100, "the pause did not end by itself")
    history = _check_survivors(tmp_path, peers)
    assert all(total == 2 for *_, total in history)


def test_a_pause_is_over_when_the_coordinator_is_killed(
    coordinator: _Coordinator, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    admin = _Admin(coordinator, capsys)
    peers = _peers(coordinator, tmp_path, 2, capsys)
    assert admin("pause", JOB)["done"]
    _wait(lambda: admin("jobs")["jobs"][0]["paused"] == "yes", "it did not come to rest")
    steps = len(_steps(tmp_path, peers[0]))
    coordinator.process.kill()
    coordinator.process.wait()
    coordinator.start()
    _wait(lambda: len(_steps(tmp_path, peers[0])) > steps + 10, "they did not go on")
    _check_survivors(tmp_path, peers)


def test_a_token_revoked_over_the_pages_is_known_to_the_next_coordinator(
    coordinator: _Coordinator, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    admin = _Admin(coordinator, capsys)
    peers = _peers(coordinator, tmp_path, 1, capsys)
    serial = admin("members", JOB)["members"][0]["token"]
    unknown = admin("revoke", "0" * 32)
    assert "nobody has come into the run" in unknown["error"]
    assert admin("revoke", serial)["done"]
    (outcome,) = finish(peers, 30)
    assert "was revoked" in outcome.output
    assert Path(coordinator.secret + ".revoked").read_text() == serial + "\n"
    (line,) = [a for a in coordinator.audited("admin revoke") if "refused" not in a["why"]]
    assert line["why"] == f"token {serial}: revoked"
    coordinator.process.kill()
    coordinator.process.wait()
    coordinator.start()
    file = next(
        path for path in tmp_path.glob("*.token") if _core.token_serial(path.read_text()) == serial
    )
    env = {"HOLDFAST_TOKEN_FILE": str(file), "URL": f"holdfast://{coordinator.address}/run7"}
    env |= {"MIN_PEERS": "1", "HERE": str(tmp_path)}
    late = start_rank("admin_ranks", "step_by_step", 0, 1, tmp_path, env)
    (outcome,) = finish([late], 30)
    assert "AuthFailed" in outcome.output
    assert "was revoked" in outcome.output


def test_a_member_beyond_the_quota_is_told_the_numbers(
    coordinator: _Coordinator, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    admin = _Admin(coordinator, capsys)
    peers = _peers(coordinator, tmp_path, 3, capsys)
    quota = {"members": 3, "members_used": 3, "groups": None, "groups_used": 1}
    (job,) = admin("jobs")["jobs"]
    assert job["quota"] == quota
    env = {"HOLDFAST_TOKEN_FILE": coordinator.token(capsys=capsys), "MIN_PEERS": "1"}
    env |= {"URL": f"holdfast://{coordinator.address}/run7", "HERE": str(tmp_path)}
    fourth = start_rank("admin_ranks", "step_by_step", 3, 1, tmp_path, env)
    (outcome,) = finish([fourth], 30)
    assert 'the run "run7" may have 3 members, and has 3' in outcome.output
    assert "--quota run7=members:N" in outcome.output
    _check_survivors(tmp_path, peers)


# ---- who may, and in which form ------------------------------------------------------------------


def _connection(pages: str) -> http.client.HTTPConnection:
    host, port = pages.split(":")
    return http.client.HTTPConnection(host, int(port), timeout=10)


def _post(pages: str, path: str, body: str, **headers: str) -> tuple[int, str]:
    connection = _connection(pages)
    try:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        connection.request("POST", path, body, named)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


def test_only_an_admins_credential_acts_and_only_as_json(
    coordinator: _Coordinator, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def bearer(*arguments: str, run: str = "run7") -> str:
        file = coordinator.token(*arguments, capsys=capsys, run=run)
        return f"Bearer {Path(file).read_text().strip()}"

    admin = bearer("--role", "admin")
    order = json.dumps({"job": JOB, "rank": 0})
    expired = bearer("--role", "admin", "--expires", "1s")
    time.sleep(2.1)  # what expires is to have expired
    stranger = admin[:-12] + ("a" if admin[-12] != "a" else "b") + admin[-11:]

    def act(
        authorization: str, kind: str = "application/json", body: str = order
    ) -> tuple[int, str]:
        headers = {"Content_Type": kind}
        if authorization:
            headers["Authorization"] = authorization
        return _post(coordinator.pages, "/admin/kick", body, **headers)

    assert act("")[0] == 403
    assert "must have a credential" in act("")[1]
    assert act(bearer())[0] == 403
    assert act(bearer("--role", "observer"))[0] == 403
    assert act(expired)[0] == 401
    assert "expired" in act(expired)[1]
    assert act(stranger)[0] == 401
    assert act(bearer("--role", "admin", run="run8"))[0] == 403
    assert act(admin, "application/x-www-form-urlencoded")[0] == 415
    assert act(admin, body="{")[0] == 400
    assert act(admin, body="x" * 5000)[0] == 413
    code, text = act(admin)
    assert code == 404
    assert "there are no jobs now" in text
    connection = _connection(coordinator.pages)
    connection.request("GET", "/admin/kick", headers={"Authorization": admin})
    answer = connection.getresponse()
    assert (answer.status, answer.headers["Allow"]) == (405, "POST")
    connection.close()
    refused = coordinator.audited("page refused")
    assert [line["address"] for line in refused] == ["127.0.0.1"] * len(refused)
    assert len(refused) == 7
    assert refused[3]["why"] == "POST /admin/kick: this page is for the role admin"
    # No token is told, in the log or the audit log.
    told = coordinator.log.read_text() + coordinator.audit.read_text()
    for key in (admin, expired):
        assert key.removeprefix("Bearer ") not in told
    assert [line["why"] for line in coordinator.audited("admin kick")][-1].startswith(JOB)


def test_a_user_of_the_credentials_file_acts_on_every_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    credentials = tmp_path / "credentials"
    credentials.touch(0o600)
    credentials.write_text(f"admin basic ada {PASSWORD}\n")
    coordinator = _Coordinator(tmp_path, "--http-credentials", str(credentials))
    peers = _peers(coordinator, tmp_path, 1, capsys)
    at = ["--url", f"http://{coordinator.pages}", "--credentials", str(credentials)]
    assert main(["admin", "pause", JOB, *at]) == 0
    assert main(["admin", "resume", JOB, *at]) == 0
    capsys.readouterr()
    assert main(["admin", "jobs", *at]) == 0
    table = capsys.readouterr().out
    assert table.splitlines()[0].startswith("NAME")
    assert table.splitlines()[1].startswith(JOB)
    assert main(["admin", "kick", JOB, "0", *at]) == 1
    assert "last member" in capsys.readouterr().err
    assert main(["admin", "kick", JOB, "7", *at]) == 1
    assert "accepted: 0" in capsys.readouterr().err
    assert main(["admin", "members", "walk", *at]) == 1
    assert f"accepted: {JOB}" in capsys.readouterr().err
    assert [line["user"] for line in coordinator.audited("admin pause")] == ["ada"]
    assert PASSWORD not in coordinator.audit.read_text()
    assert main(["admin", "jobs", "--url", coordinator.pages, "--credentials", ""]) == 1
    assert "--credentials FILE or --token-file FILE" in capsys.readouterr().err
    _check_survivors(tmp_path, peers)


@pytest.mark.parametrize(
    ("arguments", "status", "error"),
    [
        (("jobs", "--url", "127.0.0.1:1"), 1, "nothing answers at 127.0.0.1:1"),
        (("jobs", "--url", "nowhere"), 2, "accepted: host:port"),
        (("jobs",), 2, "Accepted: --url HOST:PORT or HOLDFAST_COORDINATOR_PAGES"),
        (("pause", "a", "--at-most", "0", "--url", "127.0.0.1:1"), 2, "--at-most 0.0; accepted:"),
        (("drain", "a", "1", "--timeout", "nan", "--url", "127.0.0.1:1"), 2, "--timeout nan"),
        (("revoke", "hf1-abc", "--url", "127.0.0.1:1"), 2, "a token itself is no argument"),
        (("jobs", "--url", "a.example:1", "--token-file", "x"), 2, "is not sent in the clear"),
    ],
)
def test_what_the_command_does_not_accept_is_named(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    arguments: tuple[str, ...],
    status: int,
    error: str,
) -> None:
    monkeypatch.delenv("HOLDFAST_COORDINATOR_PAGES", raising=False)
    assert main(["admin", *arguments]) == status
    assert error in capsys.readouterr().err


@pytest.mark.parametrize("quota", ["run7", "run7=ranks:1", "run7=members:x", "=members:1"])
def test_a_quota_that_is_none_is_refused_at_the_start(
    quota: str, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["coordinator", "--address", "127.0.0.1", "--port", "0", "--quota", quota]
    assert main(command) == 2
    assert "accepted: RUN=members:N" in capsys.readouterr().err
