"""MPI programs whose buffers are memory of a CUDA device: each byte as it would be on the host."""

from __future__ import annotations

from pathlib import Path

import pytest
from cuda_driver import CHOSEN
from headers import needs_compiler
from mpi_programs import build, command

from holdfast import _mpi

pytestmark = pytest.mark.skipif(not _mpi.installed(), reason="waits for an installation with MPI")
HERE = Path(__file__).parent
MESSAGES = HERE / "device_messages.c"
COLLECTIVES = HERE / "device_collectives.c"


@pytest.fixture(autouse=True)
def driver(monkeypatch) -> None:
    for name, value in CHOSEN.items():
        monkeypatch.setenv(name, value)


@needs_compiler
@pytest.mark.parametrize(
    ("abi", "source", "ranks"),
    [
        ("abi", MESSAGES, 2),
        ("mpich", MESSAGES, 2),
        ("openmpi", MESSAGES, 2),
        ("abi", COLLECTIVES, 2),
        ("openmpi", COLLECTIVES, 3),
    ],
)
def test_what_arrives_in_device_memory_is_what_was_sent(abi, source, ranks, tmp_path) -> None:
    done = command("run", "-n", str(ranks), str(build(abi, source, tmp_path)))
    assert done.returncode == 0, done.stdout + done.stderr
    assert sorted(done.stdout.splitlines()) == [f"fine {rank} of {ranks}" for rank in range(ranks)]


@needs_compiler
@pytest.mark.parametrize("source", [MESSAGES, COLLECTIVES])
def test_a_lost_rank_is_an_error_to_who_waits_with_device_memory(source, tmp_path) -> None:
    done = command("run", "-n", "2", str(build("abi", source, tmp_path)), "lost")
    assert done.stdout.splitlines() == ["told of the loss"], done.stdout + done.stderr


@needs_compiler
def test_a_large_collective_says_which_ranks_are_on_devices(tmp_path) -> None:
    made = build("abi", COLLECTIVES, tmp_path)
    done = command("run", "-n", "2", str(made), "mixed")
    assert done.stdout.splitlines() == ["told of the mixture"] * 2, done.stdout + done.stderr
