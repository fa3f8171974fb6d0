"""The emulated path that tests of distant sites go over does what it is told."""

from __future__ import annotations

import subprocess
import sys

import pytest
from emulated_path import LongPath, Unavailable

ECHO = """
import socket, sys
server = socket.create_server((sys.argv[1], 0))
print(server.getsockname()[1], flush=True)
peer, _ = server.accept()
while data := peer.recv(1 << 16):
    peer.sendall(data[:1])
"""
# Round trips of a byte, and seconds that so many bytes take.
ASK = """
import socket, sys, time
peer = socket.create_connection((sys.argv[1], int(sys.argv[2])), timeout=20)
peer.settimeout(20)
trips = []
for _ in range(8):
    start = time.monotonic()
    peer.sendall(b"x")
    peer.recv(1)
    trips.append(time.monotonic() - start)
print(min(trips))
"""


@pytest.fixture
def path():
    try:
        with LongPath() as path:
            yield path
    except Unavailable as why:
        pytest.skip(str(why))


def least_round_trip(path: LongPath) -> float:
    echo = subprocess.Popen(
        [*path.inside(1), sys.executable, "-c", ECHO, path.address(1)],
        stdout=subprocess.PIPE,
        text=True,
    )
    with echo:
        assert echo.stdout is not None
        port = echo.stdout.readline().strip()
        command = [*path.inside(0), sys.executable, "-c", ASK, path.address(1), port]
        asked = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        echo.kill()
    assert asked.returncode == 0, asked.stderr
    return float(asked.stdout)


def test_a_round_trip_takes_both_delays(path) -> None:
    path.set("ab", delay_ms=12)
    path.set("ba", delay_ms=8)
    assert 0.020 <= least_round_trip(path) < 0.060
    there, back = path.counts()
    assert there.packets > 8
    assert back.packets > 8
    assert there.lost == back.lost == 0


def test_nothing_arrives_while_the_path_is_still(path) -> None:
    path.set("ab", still=1)
    command = [*path.inside(0), sys.executable, "-c", ASK, path.address(1), "9"]
    with pytest.raises(subprocess.TimeoutExpired):
        subprocess.run(command, capture_output=True, timeout=2, check=False)
    there, back = path.counts()
    assert there.packets == back.packets == 0
    assert there.lost > 0


def test_losses_are_counted(path) -> None:
    path.set("both", delay_ms=1, loss=0.2)
    least_round_trip(path)
    there, back = path.counts()
    assert there.lost + back.lost > 0
