"""Runs that are entered by tokens: who is let in, as what, for how long, and who is shown out.

Real processes, a real coordinator, real sockets.
"""

from __future__ import annotations

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
from ranks import finish, kill, start_rank

from holdfast import _core
from holdfast.cli import main


@pytest.fixture
def secret(tmp_path: Path) -> str:
    path = tmp_path / "run.secret"
    assert main(["secret", str(path)]) == 0
    return str(path)


@pytest.fixture
def token(secret: str, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Callable[..., str]:
    """Make a token's file, which others cannot read."""
    made = 0

    def make(*arguments: str, run: str = "run7") -> str:
        nonlocal made
        capsys.readouterr()
        assert main(["token", "new", "--secret-file", secret, "--run", run, *arguments]) == 0
        path = tmp_path / f"{made}.token"
        made += 1
        path.touch(mode=0o600)
        path.write_text(capsys.readouterr().out)
        return str(path)

    return make


class _Coordinator:
    def __init__(self, here: Path, secret: str) -> None:
        self.address = f"127.0.0.1:{held_port()}"
        self.log = here / "coordinator.log"
        self.audit = here / "audit.json"
        self._secret = secret
        self.start()

    def start(self) -> None:
        command = ["-m", "holdfast.cli", "coordinator", "--port", self.address.split(":")[1]]
        command += ["--address", "127.0.0.1", "--grace", "0", "--secret-file", self._secret]
        self.process = subprocess.Popen(
            [sys.executable, *command],
            stdout=subprocess.PIPE,
            stderr=self.log.open("a"),
            text=True,
            env={**os.environ, "HOLDFAST_AUDIT_FILE": str(self.audit)},
        )
        running.append(self.process)
        assert self.process.stdout is not None
        assert "listens" in self.process.stdout.readline()


@pytest.fixture
def coordinator(tmp_path: Path, secret: str) -> _Coordinator:
    return _Coordinator(tmp_path, secret)


def _peer(
    number: int,
    coordinator: _Coordinator,
    token_file: str,
    here: Path,
    min_peers: int,
    run: str = "",
) -> Any:
    env = {
        "HOLDFAST_TRANSPORTS": "tcp",
        "HOLDFAST_HEARTBEAT": "0.1",
        "HOLDFAST_CONNECT_TIMEOUT": "20",
        "HOLDFAST_TOKEN_FILE": token_file,
        "URL": f"holdfast://{coordinator.address}{run}",
        "MIN_PEERS": str(min_peers),
        "HERE": str(here),
    }
    peer = start_rank("secure_ranks", "by_token", number, 1, here, env)
    running.append(peer)
    return peer


def _wait(there: Callable[[], bool], limit: float, what: str) -> float:
    begun = time.monotonic()
    while not there():
        assert time.monotonic() - begun < limit, what
        time.sleep(0.01)
    return time.monotonic() - begun


def _all_see(here: Path, present: int, peers: list[Any]) -> bool:
    """Tell whether each of these processes has last told of a view with so many."""
    seen = {}
    for path in here.glob("view.*"):
        words = path.read_text().split()
        if len(words) == 2:
            seen[int(words[0])] = int(words[1])
    return all(seen.get(peer.pid) == present for peer in peers)


def test_peers_with_tokens_of_their_own_outlive_one_and_a_coordinator(
    token: Callable[..., str], coordinator: _Coordinator, tmp_path: Path
) -> None:
    peers = [
        _peer(n, coordinator, token(), tmp_path, 3, run="/run7" if n else "") for n in range(3)
    ]
    _wait(lambda: _all_see(tmp_path, 3, peers), 30, "the group never began")
    kill(peers[1])
    left = [peers[0], peers[2]]
    _wait(lambda: _all_see(tmp_path, 2, left), 30, "the others did not go on")
    kill(coordinator.process)
    coordinator.process.wait()
    coordinator.start()
    newcomer = _peer(3, coordinator, token(), tmp_path, 3)
    all_of_them = [*left, newcomer]
    _wait(lambda: _all_see(tmp_path, 3, all_of_them), 30, "the newcomer was not admitted")
    (tmp_path / "leave").touch()
    for outcome in finish(all_of_them, 60):
        assert outcome.status == 0, outcome.output
        assert "left" in outcome.output


def test_who_loses_its_token_is_out_within_a_second(
    token: Callable[..., str],
    coordinator: _Coordinator,
    secret: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    tokens = [token() for _ in range(3)]
    peers = [_peer(n, coordinator, tokens[n], tmp_path, 3) for n in range(3)]
    _wait(lambda: _all_see(tmp_path, 3, peers), 30, "the group never began")
    assert main(["token", "revoke", "--secret-file", secret, tokens[1]]) == 0
    taken = _wait((tmp_path / f"out.{peers[1].pid}").exists, 10, "it stayed")
    left = [peers[0], peers[2]]
    _wait(lambda: _all_see(tmp_path, 2, left), 10, "the others did not go on")
    (outcome,) = finish([peers[1]], 30)
    assert "NotMember" in outcome.output
    assert "was revoked" in outcome.output
    # It does not come back.
    (again,) = finish([_peer(3, coordinator, tokens[1], tmp_path, 3)], 30)
    assert "AuthFailed" in again.output
    assert "was revoked" in again.output
    (tmp_path / "leave").touch()
    for outcome in finish(left, 60):
        assert outcome.status == 0, outcome.output
        assert "left" in outcome.output
    serial = _core.token_serial(Path(tokens[1]).read_text())
    assert f"token {serial}: is revoked" in coordinator.log.read_text()
    told = [json.loads(line) for line in coordinator.audit.read_text().splitlines()]
    of_it = [(line["event"], line.get("why", "")) for line in told if line["token"] == serial]
    assert of_it == [
        ("let in", ""),
        ("shown out", "revoked"),
        *([("refused", f"the token {serial} was revoked")] * (len(of_it) - 2)),
    ], told
    assert len(of_it) > 2, told
    # Each came with a key of its own, from this host.
    assert len({line["key"] for line in told if line["event"] == "let in"}) == len(peers)
    assert {line["address"] for line in told} == {"127.0.0.1"}
    # The coordinator looks every quarter of a second; the rest is for a busy machine.
    assert taken < 3, taken
    capsys.readouterr()
    assert main(["token", "list", "--json", "--secret-file", secret]) == 0
    states = {t["serial"]: t["state"] for t in json.loads(capsys.readouterr().out)}
    assert sorted(states.values()) == ["revoked", "valid", "valid"]
    assert states[serial] == "revoked"


@pytest.mark.parametrize(
    ("arguments", "run", "error"),
    [
        ((), "/run8", r'ConfigError: the token is of the run "run7".*names "run8"; accepted: '),
        (("--role", "observer"), "", r"ConfigError: the token's role is observer; accepted, to"),
        (("--expires", "1s"), "", r"ConfigError: the token expired \d+ s ago"),
    ],
)
def test_a_token_that_lets_nobody_in_is_told_before_the_network_is_asked(
    token: Callable[..., str], tmp_path: Path, arguments: tuple[str, ...], run: str, error: str
) -> None:
    file = token(*arguments)
    if "--expires" in arguments:
        time.sleep(2.1)  # what expires is to have expired

    class Nowhere:
        address = "127.0.0.1:1"

    (outcome,) = finish([_peer(0, Nowhere(), file, tmp_path, 1, run)], 30)  # type: ignore[arg-type]
    assert re.search(error, outcome.output), outcome.output


def test_typos_and_files_for_all_to_read_are_told(
    token: Callable[..., str], coordinator: _Coordinator, tmp_path: Path
) -> None:
    file = Path(token())
    text = file.read_text()
    middle = len(text) // 2
    other = "a" if text[middle] != "a" else "b"
    file.write_text(text[:middle] + other + text[middle + 1 :])
    (outcome,) = finish([_peer(0, coordinator, str(file), tmp_path, 1)], 30)
    assert "ConfigError" in outcome.output
    assert "has a typo" in outcome.output
    file.write_text(text)
    file.chmod(0o644)
    (outcome,) = finish([_peer(1, coordinator, str(file), tmp_path, 1)], 30)
    assert re.search(r"token_file .*mode 0644.*accepted: 0600", outcome.output)


def test_a_token_is_used_as_often_as_it_says(
    token: Callable[..., str], coordinator: _Coordinator, tmp_path: Path
) -> None:
    file = token("--uses", "1")
    first = _peer(0, coordinator, file, tmp_path, 1)
    _wait(lambda: _all_see(tmp_path, 1, [first]), 30, "it was not let in")
    (second,) = finish([_peer(1, coordinator, file, tmp_path, 1)], 30)
    assert "AuthFailed" in second.output
    assert "was used 1 times" in second.output
    (tmp_path / "leave").touch()
    (outcome,) = finish([first], 30)
    assert outcome.status == 0, outcome.output


def test_a_token_is_nowhere_to_be_read(
    token: Callable[..., str], coordinator: _Coordinator, secret: str, tmp_path: Path
) -> None:
    file = token()
    peer = _peer(0, coordinator, file, tmp_path, 1)
    _wait(lambda: _all_see(tmp_path, 1, [peer]), 30, "it was not let in")
    key = Path(file).read_text().strip()
    secrets = [key.encode(), Path(secret).read_text().split()[-1].encode()]
    for process in (peer.pid, coordinator.process.pid):
        for name in ("cmdline", "environ"):
            told = Path(f"/proc/{process}/{name}").read_bytes()
            assert not any(text in told for text in secrets)
    (tmp_path / "leave").touch()
    (outcome,) = finish([peer], 30)
    assert not any(text.decode() in outcome.output for text in secrets)
    for path in tmp_path.iterdir():
        if path.suffix in (".token", ".secret") or not path.is_file():
            continue
        assert not any(text in path.read_bytes() for text in secrets), path


def test_ranks_of_a_store_want_the_secret_itself(token: Callable[..., str], tmp_path: Path) -> None:
    env = {"HOLDFAST_TOKEN_FILE": token(), "HOLDFAST_COORDINATOR": "127.0.0.1:29400/run7"}
    (outcome,) = finish([start_rank("secure_ranks", "refused", 0, 1, tmp_path, env)], 30)
    assert "ConfigError" in outcome.output
    assert "accepted: option secret_file in place of token_file" in outcome.output


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (("new", "--run", "a/b"), "letters, digits"),
        (("new", "--run", "holders-of-the-secret"), "for who has the secret itself"),
        (("new", "--run", "r", "--expires", "soon"), "accepted: a number with s, m, h or d"),
        (("new", "--run", "r", "--uses", "-1"), "--uses -1; accepted: 0 (any) and more"),
        (("new", "--run", "r", "--uses", "5000"), "uses 5000; accepted: 0 (any) to 4096"),
        (("revoke", "alice"), "accepted: a file with a token, or a serial of 32"),
        (("revoke", "hf1-abc"), "a token itself is no argument"),
    ],
)
def test_what_the_command_does_not_accept_is_named(
    secret: str, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], error: str
) -> None:
    assert main(["token", *arguments, "--secret-file", secret]) == 2
    assert error in capsys.readouterr().err


def test_tokens_without_a_secret_are_refused(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("HOLDFAST_SECRET_FILE", raising=False)
    assert main(["token", "list"]) == 2
    assert "accepted: --secret-file FILE or HOLDFAST_SECRET_FILE" in capsys.readouterr().err
