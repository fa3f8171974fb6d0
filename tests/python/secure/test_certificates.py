"""Runs that are entered by X.509 certificates, beside tokens: who is let in, and who is not.

Real processes, a real coordinator, certificates of the openssl command, and it as a foreign end.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from authority import Authority
from leftovers import running
from ports import held_port
from ranks import finish, kill, start_rank
from waiting import eventually

from holdfast.cli import main

pytestmark = pytest.mark.skipif(
    shutil.which("openssl") is None, reason="waits for openssl (Debian: openssl)"
)
ROLES = """# who may join
member run7 CN=alice,O=Example
member * CN=bob,O=Example
observer run7 CN=carol,O=Example
"""
DANS = "member run7 CN=dan,O=Example\n"


class _Site:
    """A secret, an authority, a coordinator with a certificate, and what its members get."""

    def __init__(self, here: Path) -> None:
        self.here = here
        self.secret = here / "run.secret"
        assert main(["secret", str(self.secret)]) == 0
        self.authority = Authority(here / "authority")
        self.roles = here / "roles"
        self.roles.write_text(ROLES + DANS)
        self.own = self.authority.issue("coordinator", usage="serverAuth", hosts="IP:127.0.0.1")
        self.port = held_port()
        self.log = here / "coordinator.log"
        self.audit = here / "audit.json"
        self.start()

    def start(self) -> None:
        command = f"coordinator --port {self.port} --address 127.0.0.1 --grace 0"
        command += f" --secret-file {self.secret} --tls-roles {self.roles}"
        command += f" --tls-crl {self.authority.crl}"
        self.process = subprocess.Popen(
            [sys.executable, "-m", "holdfast.cli", *command.split()],
            stdout=subprocess.PIPE,
            stderr=self.log.open("a"),
            text=True,
            env={**os.environ, **self.own, "HOLDFAST_AUDIT_FILE": str(self.audit)},
        )
        running.append(self.process)
        assert self.process.stdout is not None
        assert "listens" in self.process.stdout.readline(), self.log.read_text()

    def told(self) -> list[dict[str, str]]:
        return [json.loads(line) for line in self.audit.read_text().splitlines()]

    def peer(
        self, number: int, own: Mapping[str, str], least: int = 1, at: str = "", run: str = "/run7"
    ) -> Any:
        """Start a process that stays in the group until it is told to leave."""
        env = {
            "HOLDFAST_TRANSPORTS": "tcp",
            "HOLDFAST_HEARTBEAT": "0.1",
            "HOLDFAST_CONNECT_TIMEOUT": "20",
            "URL": f"holdfast://{at or f'127.0.0.1:{self.port}'}{run}",
            "MIN_PEERS": str(least),
            "HERE": str(self.here),
            **own,
        }
        peer = start_rank("secure_ranks", "by_token", number, 1, self.here, env)
        running.append(peer)
        return peer

    def refusal(self, own: Mapping[str, str], at: str = "", run: str = "/run7") -> str:
        """What a process is told that does not get in; it does not wait for its time limit."""
        begun = time.monotonic()
        (outcome,) = finish([self.peer(9, own, at=at, run=run)], 60)
        assert time.monotonic() - begun < 15, outcome.output
        assert "left" not in outcome.output
        return outcome.output

    def all_see(self, present: int, peers: list[Any], limit: float = 30) -> float:
        """Wait until each of these has last told of a view with so many."""

        def do_they() -> bool:
            seen = {}
            for path in self.here.glob("view.*"):
                words = path.read_text().split()
                if len(words) == 2:
                    seen[int(words[0])] = int(words[1])
            return all(seen.get(peer.pid) == present for peer in peers)

        begun = time.monotonic()
        eventually(do_they, limit)
        return time.monotonic() - begun

    def leave(self, peers: list[Any]) -> None:
        (self.here / "leave").touch()
        for outcome in finish(peers, 60):
            assert outcome.status == 0, outcome.output
            assert "left" in outcome.output


@pytest.fixture
def site(tmp_path: Path) -> _Site:
    return _Site(tmp_path)


@pytest.fixture
def token(site: _Site, capsys: pytest.CaptureFixture[str]) -> Callable[[], dict[str, str]]:
    def make() -> dict[str, str]:
        capsys.readouterr()
        assert main(["token", "new", "--secret-file", str(site.secret), "--run", "run7"]) == 0
        path = site.here / "member.token"
        path.touch(mode=0o600)
        path.write_text(capsys.readouterr().out)
        return {"HOLDFAST_TOKEN_FILE": str(path)}

    return make


def test_certificates_and_tokens_are_in_one_group_that_outlives_peers_and_coordinator(
    site: _Site, token: Callable[[], dict[str, str]]
) -> None:
    alice, bob = site.authority.issue("alice"), site.authority.issue("bob")
    peers = [site.peer(0, alice, 3), site.peer(1, token(), 3), site.peer(2, bob, 3)]
    site.all_see(3, peers)
    kill(peers[2])
    site.all_see(2, peers[:2])
    kill(site.process)
    site.process.wait()
    # Meanwhile one is renewed, and what it had before is revoked.
    numbers = [site.authority.number(name) for name in ("alice", "bob")]
    site.authority.revoke("alice")
    assert site.authority.issue("alice") == alice
    site.start()
    # It has lost the connection, and knows nobody any more: all prove themselves anew.
    newcomer = site.peer(3, bob, 3)
    together = [*peers[:2], newcomer]
    site.all_see(3, together)
    site.leave(together)
    let_in = [line for line in site.told() if line["event"] == "let in"]
    known = {(line.get("subject", ""), line.get("certificate", "")) for line in let_in}
    assert known == {
        ("", ""),
        ("CN=alice,O=Example", numbers[0]),
        ("CN=alice,O=Example", site.authority.number("alice")),
        ("CN=bob,O=Example", numbers[1]),
    }
    for line in let_in:
        assert line["run"] == "run7", line
        assert ("token" in line) != ("subject" in line), line
        assert re.fullmatch("[0-9a-f]+", line["key"]), line


def test_who_is_revoked_or_loses_its_role_is_out_within_a_second(site: _Site) -> None:
    own = {name: site.authority.issue(name) for name in ("alice", "bob", "dan")}
    peers = [site.peer(n, own[name], 3) for n, name in enumerate(own)]
    site.all_see(3, peers)
    site.authority.revoke("alice")
    begun = time.monotonic()
    eventually((site.here / f"out.{peers[0].pid}").exists, 10)
    # A second, and what a busy machine adds to it.
    assert time.monotonic() - begun < 3
    site.all_see(2, peers[1:])
    (outcome,) = finish(peers[:1], 30)
    name = f"the certificate {site.authority.number('alice')} of CN=alice,O=Example"
    assert "NotMember" in outcome.output
    assert f"{name} was revoked" in outcome.output
    # It does not come back.
    again = site.refusal(own["alice"])
    assert re.search("AuthFailed: .*refused: certificate revoked.*option tls_cert", again), again

    site.roles.write_text(ROLES)
    eventually((site.here / f"out.{peers[2].pid}").exists, 10)
    site.all_see(1, peers[1:2])
    (outcome,) = finish(peers[2:], 30)
    assert "CN=dan,O=Example, has no role in the run" in outcome.output
    assert "member run7 CN=dan,O=Example" in site.refusal(own["dan"])
    site.leave(peers[1:2])
    shown_out = [line for line in site.told() if line["event"] == "shown out"]
    assert [line["subject"] for line in shown_out] == ["CN=alice,O=Example", "CN=dan,O=Example"]
    assert shown_out[0]["why"] == f"{name} was revoked"
    assert f"shown out: {name} was revoked" in site.log.read_text()


def test_a_list_that_cannot_be_used_keeps_out_newcomers_alone(site: _Site) -> None:
    alice, bob = site.authority.issue("alice"), site.authority.issue("bob")
    stays = site.peer(0, alice, 1)
    site.all_see(1, [stays])
    kept = site.authority.crl.read_bytes()
    site.authority.crl.write_bytes(b"damaged")
    eventually(lambda: "the revocations are no PEM text" in site.log.read_text(), 10)
    assert "lets nobody in by a certificate until" in site.refusal(bob)
    assert site.log.read_text().count("the revocations are no PEM text") == 1
    site.authority.crl.write_bytes(kept)
    eventually(lambda: "can be used again" in site.log.read_text(), 10)
    both = [stays, site.peer(1, bob, 1)]
    site.all_see(2, both)
    site.leave(both)
    assert not any(line["event"] == "shown out" for line in site.told())


def test_who_may_not_join_is_told_why(site: _Site, tmp_path: Path) -> None:
    other = Authority(tmp_path / "other")
    alice = site.authority.issue("alice")
    for name in ("carol", "eve", "bob"):
        site.authority.issue(name)

    def own(name: str) -> dict[str, str]:
        folder = site.authority.folder
        return {
            **alice,
            "HOLDFAST_TLS_CERT": f"{folder}/{name}.pem",
            "HOLDFAST_TLS_KEY": f"{folder}/{name}.key",
        }

    expected = [
        (own("carol"), "/run7", "AuthFailed: .*has the role observer .*accepted, to join: member"),
        (own("eve"), "/run7", "AuthFailed: .*with the line: member run7 CN=eve,O=Example"),
        (alice, "/run8", "AuthFailed: .*CN=alice,O=Example, has no role in the run .run8."),
        (
            {**other.issue("alice"), "HOLDFAST_TLS_CA": str(site.authority.pem)},
            "/run7",
            "AuthFailed: .*refused: unknown CA.*of CN=alice",
        ),
        (other.issue("alice"), "/run7", "no authority in the option tls_ca has signed it"),
    ]
    for certificate, run, error in expected:
        said = site.refusal(certificate, run=run)
        assert re.search(error, said), said
    refused = [line for line in site.told() if line["event"] == "refused"]
    assert {line.get("subject", "") for line in refused} == {
        "",
        "CN=alice,O=Example",
        "CN=carol,O=Example",
        "CN=eve,O=Example",
    }
    assert any("no authority in the option tls_ca" in line["why"] for line in refused), refused


def test_what_answers_must_be_a_coordinator_at_the_host_that_was_called(
    site: _Site, tmp_path: Path
) -> None:
    alice = site.authority.issue("alice")
    said = site.refusal(alice, at=f"localhost:{site.port}")
    assert "is no Holdfast coordinator" in said, said
    assert "is for IP Address:127.0.0.1; accepted: one with the host" in said
    assert said.rstrip().endswith("localhost"), said
    # A member takes the port, with a certificate of the same authority for that very host.
    member = site.authority.issue("mallory", hosts="IP:127.0.0.1")
    port = held_port()
    server = subprocess.Popen(
        [
            *("openssl", "s_server", "-accept", f"127.0.0.1:{port}", "-quiet"),
            *("-cert", member["HOLDFAST_TLS_CERT"], "-key", member["HOLDFAST_TLS_KEY"]),
            *("-CAfile", str(site.authority.pem), "-Verify", "1"),
        ],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    running.append(server)

    def listens() -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", port)) == 0

    eventually(listens, 10)
    said = site.refusal(alice, at=f"127.0.0.1:{port}")
    assert "is no Holdfast coordinator" in said, said
    assert "serverAuth" in said, said
    kill(server)
    server.wait()


def test_files_that_cannot_work_are_told_before_the_network_is_asked(
    site: _Site, token: Callable[[], dict[str, str]]
) -> None:
    alice = site.authority.issue("alice")
    site.authority.issue("bob")
    late = site.authority.issue("late", begins=-7200, ends=-3600)
    early = site.authority.issue("early", begins=86400, ends=2 * 86400)
    without = {name: value for name, value in alice.items() if name != "HOLDFAST_TLS_KEY"}
    swapped = {**alice, "HOLDFAST_TLS_KEY": str(site.authority.folder / "bob.key")}
    secret = {"HOLDFAST_SECRET_FILE": str(site.secret)}
    open_key = site.authority.issue("open")
    Path(open_key["HOLDFAST_TLS_KEY"]).chmod(0o644)
    expected: list[tuple[dict[str, str], str, str]] = [
        (late, "/run7", r"of CN=late,O=Example holds from 20.* and this host's clock says 20.*"),
        (early, "/run7", "renew it, or set the clock"),
        (without, "/run7", "option tls_cert, tls_ca is set without tls_key; accepted: "),
        (swapped, "/run7", "the key is not the certificate's"),
        (open_key, "/run7", r"tls_key .*mode 0644\); accepted: 0600"),
        ({**alice, **token()}, "/run7", r"together with a token .*; accepted: one of the two"),
        ({**alice, **secret}, "/run7", "together with option secret_file; accepted: one of"),
        (alice, "", "a certificate names no run.*accepted: host:port/RUN"),
    ]
    for own, run, error in expected:
        said = site.refusal(own, at="127.0.0.1:1", run=run)
        assert re.search(f"ConfigError: .*{error}", said), said
    in_store = start_rank(
        "secure_ranks",
        "refused",
        0,
        1,
        site.here,
        {**alice, "HOLDFAST_COORDINATOR": f"127.0.0.1:{site.port}/run7"},
    )
    nowhere = start_rank("secure_ranks", "refused", 0, 1, site.here, alice)
    said, elsewhere = (outcome.output for outcome in finish([in_store, nowhere], 30))
    assert "option secret_file in place of tls_cert, tls_key and tls_ca" in said, said
    assert "and no coordinator that could let this process in" in elsewhere, elsewhere


def test_foreign_ends_get_nowhere_without_a_certificate(site: _Site) -> None:
    alice = site.authority.issue("alice")

    def ask(*options: str) -> tuple[int, str]:
        done = subprocess.run(
            ["openssl", "s_client", "-connect", f"127.0.0.1:{site.port}", *options],
            input=b"x" * 2000,
            capture_output=True,
            timeout=20,
            check=False,
        )
        return done.returncode, (done.stdout + done.stderr).decode(errors="replace")

    shown = ("-cert", alice["HOLDFAST_TLS_CERT"], "-key", alice["HOLDFAST_TLS_KEY"])
    for options in (("-tls1_2",), ("-tls1_2", *shown)):
        code, said = ask(*options)
        assert code != 0, said
        assert "Cipher is (NONE)" in said, said
    for options in (("-tls1_3",), ("-tls1_3", "-psk", "00" * 32, "-psk_identity", "guess")):
        ask(*options)
    # A member's certificate alone says nothing to a coordinator of Holdfast's.
    ask("-tls1_3", *shown)
    eventually(lambda: len(site.told()) >= 5, 10)
    told = site.told()
    assert {line["event"] for line in told} == {"refused"}, told
    # The others prove nothing, and are named by nothing.
    assert not any("subject" in line for line in told[:4]), told


@pytest.mark.parametrize(
    ("left_out", "error"),
    [
        ("--secret-file", "--tls-cert without --secret-file: the secret signs"),
        ("--tls-roles", "option tls_cert is set without tls_roles; accepted: a file with lines"),
        ("--tls-ca", "is set without tls_ca; accepted: tls_cert, tls_key and tls_ca together"),
    ],
)
def test_a_coordinator_says_what_it_lacks(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], left_out: str, error: str
) -> None:
    secret, roles = tmp_path / "s", tmp_path / "roles"
    assert main(["secret", str(secret)]) == 0
    roles.write_text("member run7 alice\n")
    own = Authority(tmp_path / "authority").issue("c", usage="serverAuth", hosts="IP:127.0.0.1")
    arguments = {
        "--secret-file": str(secret),
        "--tls-cert": own["HOLDFAST_TLS_CERT"],
        "--tls-key": own["HOLDFAST_TLS_KEY"],
        "--tls-ca": own["HOLDFAST_TLS_CA"],
        "--tls-roles": str(roles),
        "--address": "127.0.0.1",
        "--port": "0",
    }
    capsys.readouterr()
    given = [word for pair in arguments.items() for word in pair if pair[0] != left_out]
    assert main(["coordinator", *given]) == 2
    assert error in capsys.readouterr().err
    # What is wrong in the file is told by its line.
    everything = [word for pair in arguments.items() for word in pair]
    assert main(["coordinator", *everything]) == 2
    said = capsys.readouterr().err
    assert f"tls_roles {roles}, line 1: " in said
    assert "accepted: ROLE RUN SUBJECT" in said
