"""Jobs with a secret: who has it is let in, and nobody else reads or says a byte.

Real processes, real sockets, Debian's openssl as a foreign end, and a capture of all packets
between two hosts.
"""

from __future__ import annotations

import re
import shutil
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from emulated_network import Network, Unavailable
from leftovers import running
from ports import held_port
from ranks import finish, kill, run_ranks, start_rank
from secure_ranks import PATTERN

from holdfast.cli import main

TCP = {"HOLDFAST_TRANSPORTS": "tcp", "HOLDFAST_TIMEOUT": "60"}
# Protocol number of all packets, for raw sockets.
_ALL_PACKETS = 3


@pytest.fixture
def secret(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> str:
    path = tmp_path / "job.secret"
    assert main(["secret", str(path)]) == 0
    assert path.read_text().split()[-1] not in capsys.readouterr().out
    assert path.stat().st_mode & 0o777 == 0o600
    return str(path)


def secret_or_none(secret: str) -> list[str]:
    return ["--secret-file", secret] if secret else ["--insecure"]


def start_coordinator(
    here: Path, secret: str, host: str = "127.0.0.1", before: tuple[str, ...] = ()
) -> str:
    """Start a coordinator with the secret; returns its address."""
    port = held_port() if not before else 29400
    command = ["-m", "holdfast.cli", "coordinator", "--port", str(port), "--address", host]
    command += ["--grace", "0"]
    process = subprocess.Popen(
        [*before, sys.executable, *command, *secret_or_none(secret)],
        stdout=subprocess.PIPE,
        stderr=(here / "coordinator.log").open("a"),
        text=True,
    )
    running.append(process)
    assert process.stdout is not None
    assert "listens" in process.stdout.readline()
    return f"{host}:{port}"


@pytest.mark.parametrize("transports", ["tcp", "shm,tcp"])
def test_collectives_of_a_sealed_job_are_right(
    secret: str, tmp_path: Path, transports: str
) -> None:
    env = {**TCP, "HOLDFAST_SECRET_FILE": secret, "HOLDFAST_TRANSPORTS": transports}
    run_ranks("secure_ranks", "collectives", 3, tmp_path, env=env)


def test_a_sealed_job_outlives_a_rank(secret: str, tmp_path: Path) -> None:
    env = {**TCP, "HOLDFAST_SECRET_FILE": secret, "HOLDFAST_HEARTBEAT": "0.1"}
    ranks = [
        start_rank("secure_ranks", "until_one_is_killed", r, 4, tmp_path, env) for r in range(4)
    ]
    outcomes = finish(ranks, 60)
    assert outcomes[2].status == -9
    for outcome in outcomes[:2] + outcomes[3:]:
        assert outcome.status == 0, outcome.output
        assert "went on" in outcome.output


@pytest.mark.parametrize("other", ["another", "none"])
def test_who_has_not_the_secret_is_told_so(secret: str, tmp_path: Path, other: str) -> None:
    env = {**TCP, "HOLDFAST_SECRET_FILE": secret, "HOLDFAST_CONNECT_TIMEOUT": "3"}
    theirs = dict(env)
    if other == "another":
        theirs["HOLDFAST_SECRET_FILE"] = str(tmp_path / "other.secret")
        assert main(["secret", theirs["HOLDFAST_SECRET_FILE"]]) == 0
    else:
        del theirs["HOLDFAST_SECRET_FILE"]
    outcomes = finish(
        [
            start_rank("secure_ranks", "refused", 0, 2, tmp_path, env),
            start_rank("secure_ranks", "refused", 1, 2, tmp_path, theirs),
        ],
        60,
    )
    said = "\n".join(outcome.output for outcome in outcomes)
    assert "let in" not in said
    expected = "without the job's secret" if other == "another" else "secret_file: set"
    assert expected in said, said
    for path in tmp_path.glob("*.secret"):
        assert path.read_text().split()[-1] not in said


def test_a_file_that_others_can_read_is_refused(secret: str, tmp_path: Path) -> None:
    Path(secret).chmod(0o644)
    env = {**TCP, "HOLDFAST_SECRET_FILE": secret}
    (outcome,) = finish([start_rank("secure_ranks", "refused", 0, 1, tmp_path, env)], 60)
    assert re.search(r"ConfigError: secret_file .*mode 0644.*accepted: 0600", outcome.output)


def test_a_transport_that_does_not_encrypt_is_refused(secret: str, tmp_path: Path) -> None:
    env = {"HOLDFAST_SECRET_FILE": secret, "HOLDFAST_TRANSPORTS": "shm,ucx"}
    (outcome,) = finish([start_rank("secure_ranks", "refused", 0, 1, tmp_path, env)], 60)
    assert "ConfigError" in outcome.output
    assert "ucx does not encrypt" in outcome.output


def test_a_coordinator_with_a_secret_lets_in_who_has_it(secret: str, tmp_path: Path) -> None:
    url = f"holdfast://{start_coordinator(tmp_path, secret)}/run"
    env = {**TCP, "URL": url, "HOLDFAST_CONNECT_TIMEOUT": "10"}
    (stranger,) = finish(
        [start_rank("secure_ranks", "refused_by_coordinator", 0, 1, tmp_path, env)], 60
    )
    assert "it has a secret: set option secret_file here, too" in stranger.output
    env["HOLDFAST_SECRET_FILE"] = secret
    (member,) = finish(
        [start_rank("secure_ranks", "refused_by_coordinator", 0, 1, tmp_path, env)], 60
    )
    assert "let in" in member.output


@pytest.mark.parametrize("address", ["", "203.0.113.7"])
def test_a_coordinator_for_all_to_reach_wants_a_secret(
    address: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["coordinator", "--port", "0", "--address", address]) == 2
    said = capsys.readouterr().err
    for part in (address or "(all interfaces)", "--secret-file", "127.0.0.1", "--insecure"):
        assert part in said


@pytest.mark.skipif(shutil.which("openssl") is None, reason="waits for openssl (Debian: openssl)")
@pytest.mark.parametrize(
    "options",
    [
        ("-tls1_2",),
        ("-tls1_3",),
        ("-tls1_3", "-psk", "00" * 32, "-psk_identity", "guess"),
        ("-tls1_2", "-cipher", "NULL:eNULL:@SECLEVEL=0"),
        ("-tls1_3", "-allow_no_dhe_kex", "-psk", "00" * 32),
    ],
)
def test_a_foreign_end_gets_nowhere(secret: str, tmp_path: Path, options: tuple[str, ...]) -> None:
    address = start_coordinator(tmp_path, secret)
    done = subprocess.run(
        ["openssl", "s_client", "-connect", address, *options],
        input=b"x" * 100,
        capture_output=True,
        timeout=20,
        check=False,
    )
    said = done.stdout + done.stderr
    assert done.returncode != 0, said
    assert b"Cipher is (NONE)" in said, said


class Between:
    """Somebody on the way to an address, who may change what goes by, or cut it off."""

    def __init__(self, address: str) -> None:
        host, port = address.split(":")
        self._there = (host, int(port))
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port = self._server.getsockname()[1]
        self.connections = 0
        self.plan = ""
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                here, _ = self._server.accept()
            except OSError:
                return
            self.connections += 1
            there = socket.create_connection(self._there, 10)
            for source, sink in ((here, there), (there, here)):
                threading.Thread(target=self._pass_on, args=(source, sink), daemon=True).start()

    def _pass_on(self, source: socket.socket, sink: socket.socket) -> None:
        try:
            while data := source.recv(1 << 16):
                plan, self.plan = self.plan, ""
                if plan == "flip":
                    data = data[:-1] + bytes([data[-1] ^ 1])
                if plan == "double":
                    data += data
                if plan == "cut":
                    break
                sink.sendall(data)
        except OSError:
            pass
        for end in (source, sink):
            end.close()

    def end(self) -> None:
        self._server.close()


@pytest.mark.parametrize("plan", ["flip", "double", "cut"])
def test_what_was_changed_on_the_way_ends_the_connection_alone(
    secret: str, tmp_path: Path, plan: str
) -> None:
    between = Between(start_coordinator(tmp_path, secret))
    env = {
        **TCP,
        "HOLDFAST_SECRET_FILE": secret,
        "HOLDFAST_HEARTBEAT": "0.1",
        "URL": f"holdfast://127.0.0.1:{between.port}/run",
    }
    member = start_rank("secure_ranks", "through_others", 0, 1, tmp_path, env)
    running.append(member)
    until = time.monotonic() + 30
    while not (tmp_path / "in").exists():
        assert time.monotonic() < until
        time.sleep(0.02)
    before = between.connections
    between.plan = plan
    while between.connections == before:
        assert time.monotonic() < until, f"no new connection after {plan}"
        time.sleep(0.02)
    (tmp_path / "changed").touch()
    (outcome,) = finish([member], 60)
    between.end()
    assert outcome.status == 0, outcome.output
    assert "went on" in outcome.output


class Capture:
    """All packets at the switch, as long as it runs."""

    def __init__(self, network: Network) -> None:
        code = (
            "import socket, sys, time\n"
            f"s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons({_ALL_PACKETS}))\n"
            "s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 26)\n"
            "sys.stderr.write('ready\\n'); sys.stderr.flush()\n"
            "while True: sys.stdout.buffer.write(s.recv(1 << 17))\n"
        )
        self.process = subprocess.Popen(
            [*network.outside(), sys.executable, "-u", "-c", code],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        running.append(self.process)
        assert self.process.stderr is not None
        assert self.process.stdout is not None
        assert self.process.stderr.readline() == b"ready\n"
        self._pieces: list[bytes] = []
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        while piece := self.process.stdout.read(1 << 20):
            self._pieces.append(piece)

    def end(self) -> bytes:
        time.sleep(0.5)
        kill(self.process)
        self._thread.join(20)
        return b"".join(self._pieces)


@pytest.mark.parametrize("sealed", [True, False])
def test_a_capture_holds_nothing_of_what_was_said(
    secret: str, tmp_path: Path, sealed: bool
) -> None:
    try:
        with Network(2) as network:
            capture = Capture(network)
            env = {**TCP, "HOLDFAST_HOST_ID": "", "HOLDFAST_CONNECT_TIMEOUT": "30"}
            env["HOLDFAST_SECRET_FILE"] = secret if sealed else ""
            host = network.address(0)
            address = start_coordinator(tmp_path, secret if sealed else "", host, network.inside(0))
            env["URL"] = f"holdfast://{address}/telltale-run"
            peers = [
                start_rank(
                    *("secure_ranks", "telltale", r, 2, tmp_path),
                    {**env, "HOLDFAST_ADDRESS": network.address(r), "HOLDFAST_HOST_ID": f"h{r}"},
                    network.inside(r),
                )
                for r in range(2)
            ]
            outcomes = finish(peers, 60)
            wire = capture.end()
    except Unavailable as why:
        pytest.skip(str(why))
    for outcome in outcomes:
        assert outcome.status == 0, outcome.output
        assert "exchanged" in outcome.output
    assert len(wire) > 1_000_000
    if not sealed:
        # A capture may miss a packet, but not all that have this.
        assert PATTERN in wire
        return
    # Tensors, names of tensors and groups, and cards.
    for text in (PATTERN, b"telltale_weights", b"telltale-run", b"addresses=203.0.113."):
        assert text not in wire, text


def test_a_stranger_at_a_rank_changes_nothing(secret: str, tmp_path: Path) -> None:
    """Garbage, HTTP and half a TLS record, again and again, beside a job that counts."""
    port = held_port()
    env = {**TCP, "HOLDFAST_SECRET_FILE": secret, "HOLDFAST_PORT": str(port)}
    others = {**TCP, "HOLDFAST_SECRET_FILE": secret}
    ranks = [
        start_rank("secure_ranks", "collectives", r, 3, tmp_path, env if r == 0 else others)
        for r in range(3)
    ]
    sent = 0
    for _ in range(60):
        for text in (
            b"\x00" * 200,
            b"GET / HTTP/1.1\r\n\r\n",
            b"\x16\x03\x01\xff\xff" + b"a" * 65535,
        ):
            try:
                with socket.create_connection(("127.0.0.1", port), 1) as stranger:
                    stranger.sendall(text)
                    sent += 1
            except OSError:
                time.sleep(0.05)
    for outcome in finish(ranks, 60):
        assert outcome.status == 0, outcome.output
    assert sent > 0
