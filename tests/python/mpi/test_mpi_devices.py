"""MPI programs whose buffers are memory of a CUDA device: each byte as it would be on the host."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from compilers import needs_compiler
from cuda_driver import CHOSEN
from headers import ROOT
from mpi_programs import build, command

from holdfast import _mpi

pytestmark = pytest.mark.skipif(not _mpi.installed(), reason="waits for an installation with MPI")
HERE = Path(__file__).parent
MESSAGES = HERE / "device_messages.c"
COLLECTIVES = HERE / "device_collectives.c"
# What a driver without devices says, to whom all memory is that of device 0.
TOLD = {
    "cuDeviceGetCount": "int cuDeviceGetCount(int* n) { return *n = 0; }\n",
    "cuPointerGetAttribute": (
        "int cuPointerGetAttribute(int* value, int attribute, unsigned long long at) {\n"
        "  *value = attribute == 2 ? 2 : 0;\n  return 0;\n}\n"
    ),
}


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
def test_a_driver_that_a_program_loads_late_is_asked_from_then_on(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("HOLDFAST_CUDA_DRIVER", "")
    names = re.findall(r"\"(cu[A-Z]\w+)\"", (ROOT / "native/device/driver.cpp").read_text())
    source = tmp_path / "driver.c"
    source.write_text(
        "".join(f"int {name}(void) {{ return 0; }}\n" for name in names if name not in TOLD)
        + "".join(TOLD.values())
    )
    driver = tmp_path / "libcuda.so.1"
    flags = ["-shared", "-fPIC", "-w", "-Wl,-soname,libcuda.so.1"]
    subprocess.run(["cc", *flags, str(source), "-o", str(driver)], check=True, timeout=60)
    made = build("abi", HERE / "late_driver.c", tmp_path)
    done = command("run", "-n", "1", str(made), str(driver))
    assert done.stdout.splitlines() == ["fine"], done.stdout + done.stderr


@needs_compiler
def test_a_large_collective_says_which_ranks_are_on_devices(tmp_path) -> None:
    made = build("abi", COLLECTIVES, tmp_path)
    done = command("run", "-n", "2", str(made), "mixed")
    assert done.stdout.splitlines() == ["told of the mixture"] * 2, done.stdout + done.stderr
