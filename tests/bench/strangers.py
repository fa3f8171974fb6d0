"""What strangers cost a job of four ranks, and a coordinator: one row an attack.

    python tests/bench/strangers.py                  # a job as it is
    python tests/bench/strangers.py --secret         # one whose processes share a secret
    python tests/bench/strangers.py --token          # one that joined by tokens: its coordinator's
                                                     # port and pages are called as well
    python tests/bench/strangers.py --only silent,garbage

Each attack goes to every rank's port, on this host, for as long as the ranks' all_reduce of 256 KiB
over TCP is counted: the rate beside it as a part of the rate before it, the epochs that began, the
memory that the ranks took (and the coordinator, with --token), how often a second the threads that
hear callers were woken, and what they took of a core. The attackers share the cores, which they
take some of themselves: `garbage elsewhere` calls nobody.
`greeters` and `parkers` go to a coordinator without a secret: the memory that it took for 1,500
processes that merely greet, and for eight that send 64 MiB of a message which never ends.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import itertools
import json
import os
import re
import resource
import socket
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "python/support"))

from ports import held_port
from ranks import Process, all_end_well, start_rank

from holdfast.cli import main as holdfast_command

RANKS = 4
SILENT = 1100
PER_SECOND = 5000
GREETERS = 1500
PARKERS = 8
WAIT_S = 120
# comm/transport/frame.h
HEADER = struct.Struct("<HBBIQIIIIQQ")
HELLO, MEMBERSHIP = 7, 11
MEMBERSHIP_BYTES = 64 << 20
PART_BYTES = 512 << 10


def open_files() -> None:
    """As many as this process may."""
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def silent(ports: list[int], text: bytes) -> None:
    """Connections that say nothing, or one byte of a text a second."""
    calls = []
    for port in ports:
        for _ in range(SILENT):
            call = socket.socket()
            call.setblocking(False)
            call.connect_ex(("127.0.0.1", port))
            calls.append(call)
    for at in itertools.count():
        time.sleep(1)
        for call in calls if text else ():
            try:
                call.send(text[at : at + 1])
            except OSError:
                continue


def flood(ports: list[int], text: bytes) -> None:
    """Connections that begin with nonsense and end at once."""
    begun, made = time.monotonic(), 0
    while True:
        for port in ports:
            with socket.socket() as call:
                try:
                    call.connect(("127.0.0.1", port))
                    call.sendall(text)
                except OSError:
                    continue
            made += 1
        ahead = made / PER_SECOND - (time.monotonic() - begun)
        if ahead > 0:
            time.sleep(ahead)


def flood_nobody(_: list[int]) -> None:
    """The same calls to a listener of the attacker's own: what the attack itself takes."""
    with socket.create_server(("127.0.0.1", 0), backlog=1024) as server:
        begun, made = time.monotonic(), 0
        while True:
            with socket.socket() as call:
                call.connect(server.getsockname())
                call.sendall(b"\0" * 200)
                server.accept()[0].close()
            made += 1
            ahead = made / PER_SECOND - (time.monotonic() - begun)
            if ahead > 0:
                time.sleep(ahead)


ATTACKS: dict[str, Callable[[list[int]], None]] = {
    "silent": lambda ports: silent(ports, b""),
    # As a ClientHello of TLS begins.
    "one byte a second": lambda ports: silent(ports, b"\x16\x03\x01\x02\x00\x01" + bytes(WAIT_S)),
    "garbage": lambda ports: flood(ports, b"\0" * 200),
    "HTTP": lambda ports: flood(ports, b"GET / HTTP/1.1\r\nHost: here\r\n\r\n"),
    "half a record": lambda ports: flood(ports, b"\x16\x03\x01\xff\xff" + b"a" * 4000),
    "garbage elsewhere": flood_nobody,
    "nothing": lambda _: time.sleep(WAIT_S),
}


def listening_port(pid: int) -> int:
    """The one port at which the process listens."""
    sockets = set()
    for entry in Path(f"/proc/{pid}/fd").iterdir():
        try:
            sockets.add(str(entry.readlink()))
        except OSError:
            continue
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]:
            words = line.split()
            if words[3] == "0A" and f"socket:[{words[9]}]" in sockets:
                return int(words[1].rpartition(":")[2], 16)
    raise RuntimeError(f"process {pid} does not listen")


def await_files(here: Path, phase: str) -> None:
    until = time.monotonic() + WAIT_S
    while not all((here / f"{phase}.{r}").exists() for r in range(RANKS)):
        if time.monotonic() > until:
            raise TimeoutError(f"the ranks did not end phase {phase}")
        time.sleep(0.02)


def door_time(pids: list[int]) -> tuple[float, int]:
    """The seconds that the threads which hear callers have run, and how often they were woken."""
    ran, woken = 0, 0
    for pid in pids:
        for thread in Path(f"/proc/{pid}/task").iterdir():
            if (thread / "comm").read_text() == "holdfast-door\n":
                words = (thread / "schedstat").read_text().split()
                ran, woken = ran + int(words[0]), woken + int(words[2])
    return ran / 1e9, woken


@contextlib.contextmanager
def no_coordinator(_: str) -> Iterator[tuple[dict[str, str], int, list[int]]]:
    """For a job that meets in a store: no more environment, no process, no ports."""
    yield {}, 0, []


@contextlib.contextmanager
def coordinator(secret: str) -> Iterator[tuple[dict[str, str], int, list[int]]]:
    """Of a group that is joined by tokens: what its members' environment says, the process, and the
    ports of the coordinator and of its pages.
    """
    token = Path(secret).with_suffix(".token")
    with contextlib.redirect_stdout(io.StringIO()) as minted:
        holdfast_command(["token", "new", "--run", "bench", "--secret-file", secret])
    token.touch(mode=0o600)
    token.write_text(minted.getvalue())
    port, pages = held_port(), held_port()
    command = ["-m", "holdfast.cli", "coordinator", "--address", "127.0.0.1"]
    command += ["--secret-file", secret, "--http", f"127.0.0.1:{pages}", "--port", str(port)]
    with subprocess.Popen(
        [sys.executable, *command],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        preexec_fn=open_files,
        text=True,
    ) as process:
        try:
            assert process.stdout is not None
            assert "listens" in process.stdout.readline()
            url = f"holdfast://127.0.0.1:{port}/bench"
            env = {"URL": url, "HOLDFAST_TOKEN_FILE": str(token)}
            yield env, process.pid, [port, pages]
        finally:
            process.kill()


def attacked_job(name: str, secret: str, by_token: bool) -> dict[str, float]:
    """One row: the job beside the attack."""
    meets = coordinator if by_token else no_coordinator
    with tempfile.TemporaryDirectory() as folder, meets(secret) as (more, server, ports):
        here = Path(folder)
        env = {"HOLDFAST_TRANSPORTS": "tcp", "LOCAL_WORLD_SIZE": str(RANKS), **more}
        if secret and not by_token:
            env["HOLDFAST_SECRET_FILE"] = secret
        ranks: list[Process] = [
            start_rank("secure_ranks", "rates", r, RANKS, here, env) for r in range(RANKS)
        ]
        attacker = 0
        try:
            for phase in ("warm", "before"):
                (here / phase).touch()
                await_files(here, phase)
            pids = [rank.pid for rank in ranks] + [server] * by_token
            ports = [listening_port(rank.pid) for rank in ranks] + ports
            server_before = resident(server) if by_token else 0
            attacker = os.fork()
            if attacker == 0:
                open_files()
                ATTACKS[name](ports)
                os._exit(0)
            time.sleep(3)
            (here / "attacked").touch()
            begun, doors = time.monotonic(), door_time(pids)
            await_files(here, "attacked")
            took = time.monotonic() - begun
            doors = tuple(b - a for a, b in zip(doors, door_time(pids), strict=True))
            server_mib = resident(server) - server_before if by_token else 0
        finally:
            if attacker > 0:
                os.kill(attacker, 9)
                os.waitpid(attacker, 0)
            (here / "after").touch()
        told = [json.loads(o.output.splitlines()[-1]) for o in all_end_well(ranks, WAIT_S)]
    return {
        "before": told[0]["before"],
        "ratio": told[0]["attacked"] / told[0]["before"],
        "ratio_after": told[0]["after"] / told[0]["before"],
        "epochs": told[0]["after_epoch"] - told[0]["before_epoch"],
        "mib": max(server_mib, *(t["attacked_mib"] - t["before_mib"] for t in told)),
        "woken": doors[1] / took,
        "core": doors[0] / took,
    }


@contextlib.contextmanager
def recorded_hello() -> Iterator[bytes]:
    """What a process says first that would join an elastic group; it lives as long as this."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        url = f"holdfast://127.0.0.1:{server.getsockname()[1]}/run"
        code = f"import holdfast; holdfast.join({url!r}, min_peers=1)"
        with subprocess.Popen(
            [sys.executable, "-c", code], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        ) as caller:
            try:
                call, _ = server.accept()
                with call:
                    said = call.recv(HEADER.size)
                    assert HEADER.unpack(said)[2] == HELLO
                    yield said + call.recv(HEADER.unpack(said)[3])
            finally:
                caller.kill()


def greet(port: int, hello: bytes, number: int) -> socket.socket:
    """Call as a process of an id of its own, and wait for the answer."""
    call = socket.create_connection(("127.0.0.1", port), 10)
    own = struct.pack("<Q", 1_000_000 + number)
    call.sendall(hello[: HEADER.size] + own + hello[HEADER.size + 8 :])
    call.recv(HEADER.size)
    return call


def resident(pid: int) -> float:
    text = Path(f"/proc/{pid}/status").read_text()
    found = re.search(r"VmRSS:\s+(\d+)", text)
    return int(found[1]) / 1024 if found else 0.0


def coordinators(hello: bytes) -> Iterator[tuple[str, float]]:
    """Rows: what greeters, and those that park messages, cost a coordinator, in MiB."""
    open_files()
    for name, count in (("greeters", GREETERS), ("parkers", PARKERS)):
        port = held_port()
        command = ["-m", "holdfast.cli", "coordinator", "--address", "127.0.0.1"]
        with subprocess.Popen(
            [sys.executable, *command, "--port", str(port)],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            preexec_fn=open_files,
            text=True,
        ) as process:
            try:
                assert process.stdout is not None
                assert "listens" in process.stdout.readline()
                calls = [greet(port, hello, i) for i in range(2)]
                time.sleep(1)
                before = resident(process.pid)
                calls += [greet(port, hello, i) for i in range(2, count + 2)]
                most = resident(process.pid)
                for at in range(0, MEMBERSHIP_BYTES - PART_BYTES, PART_BYTES):
                    if name != "parkers":
                        break
                    header = (PART_BYTES, 0, 0, 0, 0, 0, at, MEMBERSHIP_BYTES)
                    version = hello[2]
                    frame = HEADER.pack(0x4648, version, MEMBERSHIP, *header) + bytes(PART_BYTES)
                    for call in calls:
                        try:
                            call.sendall(frame)
                        except OSError:
                            continue
                    most = max(most, resident(process.pid))
                time.sleep(1)
                yield name, max(most, resident(process.pid)) - before
            finally:
                process.kill()


def main() -> int:
    """Print the rows."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--secret", action="store_true", help="the job's processes share one")
    parser.add_argument("--token", action="store_true", help="the job's processes join by tokens")
    names = [*ATTACKS, "greeters", "parkers"]
    parser.add_argument("--only", default=",".join(names), metavar="NAME,...")
    chosen = parser.parse_args()
    wanted = chosen.only.split(",")
    if unknown := set(wanted) - set(names):
        parser.error(f"--only {sorted(unknown)}; accepted: {', '.join(names)}")
    with tempfile.TemporaryDirectory() as folder:
        secret = f"{folder}/secret" if chosen.secret or chosen.token else ""
        if secret:
            holdfast_command(["secret", secret])
        heads = ("before/s", "beside", "after", "epochs", "MiB", "woken/s", "core")
        print(f"{'attack':>18} " + " ".join(f"{head:>8}" for head in heads))
        for name in filter(ATTACKS.__contains__, wanted):
            row = attacked_job(name, secret, chosen.token)
            print(
                f"{name:>18} {row['before']:8.0f} {row['ratio']:8.2f} {row['ratio_after']:8.2f} "
                f"{row['epochs']:8.0f} {row['mib']:8.1f} {row['woken']:8.0f} {row['core']:8.2f}",
                flush=True,
            )
    if {"greeters", "parkers"} & set(wanted):
        with recorded_hello() as hello:
            for name, mib in coordinators(hello):
                if name in wanted:
                    print(f"{name:>18} {'':8} {'':8} {'':8} {'':8} {mib:8.1f}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
