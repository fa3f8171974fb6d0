"""At which addresses ranks listen: on loopback, where nobody can have to call from elsewhere."""

from __future__ import annotations

from pathlib import Path

import pytest
from ranks import all_end_well, start_rank

from holdfast._one_host import narrowed
from holdfast.options import Options

# As the kernel writes them: the bytes of an address in the host's order.
LOOPBACK, EVERYWHERE = "100007F", "0"


@pytest.mark.parametrize(
    ("env", "expected"),
    [
        ({"LOCAL_WORLD_SIZE": "2"}, LOOPBACK),
        ({"LOCAL_WORLD_SIZE": "1"}, EVERYWHERE),
        ({"OMPI_COMM_WORLD_LOCAL_SIZE": "2", "OMPI_COMM_WORLD_SIZE": "2"}, LOOPBACK),
        ({}, EVERYWHERE),
        ({"LOCAL_WORLD_SIZE": "2", "HOLDFAST_ADDRESS": "127.0.0.1"}, LOOPBACK),
    ],
)
@pytest.mark.parametrize("transports", ["tcp", "shm,tcp"])
def test_ranks_of_one_host_listen_on_loopback(
    env: dict[str, str], expected: str, transports: str, tmp_path: Path
) -> None:
    env = {"HOLDFAST_TRANSPORTS": transports, **env}
    ranks = [start_rank("secure_ranks", "listening", r, 2, tmp_path, env) for r in range(2)]
    for outcome in all_end_well(ranks, 60):
        # On all interfaces of either family, an address is nothing but zeros.
        listens, address = outcome.output.split()
        assert listens == "listens"
        assert (address.strip("0") or "0") == expected


@pytest.mark.parametrize(
    ("coordinator", "address"),
    [
        ("127.0.0.1:29400/run", "127.0.0.1"),
        ("localhost:29400", "127.0.0.1"),
        ("holdfast://[::1]:29400", "127.0.0.1"),
        ("localhost:29400,[::1]:29401/run", "127.0.0.1"),
        ("localhost:29400,203.0.113.7:29400/run", ""),
        ("203.0.113.7:29400", ""),
        ("coordinator.example:29400/run", ""),
    ],
)
def test_a_coordinator_elsewhere_is_for_members_from_elsewhere(
    coordinator: str, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable in ("LOCAL_WORLD_SIZE", "WORLD_SIZE"):
        monkeypatch.setenv(variable, "4")
    assert narrowed(Options(coordinator=coordinator)).address == address


def test_a_launcher_of_one_process_says_nothing_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("LOCAL_WORLD_SIZE", "WORLD_SIZE"):
        monkeypatch.setenv(variable, "1")
    monkeypatch.delenv("MASTER_ADDR", raising=False)
    assert narrowed(Options()).address == ""


@pytest.mark.parametrize(
    ("where", "address"), [("localhost", "127.0.0.1"), ("10.0.0.5", ""), ("node-7", "")]
)
def test_a_store_on_loopback_is_for_this_host(
    where: str, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable in ("LOCAL_WORLD_SIZE", "WORLD_SIZE", "HOLDFAST_STORE"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("MASTER_ADDR", where)
    assert narrowed(Options()).address == address
    assert narrowed(Options(address="10.0.0.9")).address == "10.0.0.9"
