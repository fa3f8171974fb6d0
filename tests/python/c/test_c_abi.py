"""The C interface: the header in C and C++, the example, ctypes, and what the library exports."""

from __future__ import annotations

import ctypes
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from compilers import compiler, needs_compiler, needs_cpp
from ranks import finish, run_ranks, start_rank

import holdfast

PACKAGE = Path(holdfast.__file__).parent
HEADERS = [PACKAGE / "include" / "holdfast" / n for n in ("holdfast.h", "holdfast_device.h")]
EXAMPLES = Path(__file__).parents[3] / "examples" / "c"
BENCHMARK = Path(__file__).parents[2] / "bench/c_collectives.c"
LIBRARY = PACKAGE / "libholdfast.so"


def flags(*which: str) -> list[str]:
    command = [sys.executable, "-m", "holdfast.cli", "info", *which]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    return done.stdout.split()


def build(source: Path, folder: Path) -> Path:
    program = folder / source.stem
    strict = ["-std=c11", "-Wall", "-Wextra", "-Wpedantic", "-Werror"]
    compiler("cc", *strict, str(source), *flags("--cflags", "--libs"), "-o", str(program))
    return program


def test_every_status_of_the_header_has_a_name() -> None:
    library = ctypes.CDLL(str(LIBRARY))
    library.hf_status_name.restype = ctypes.c_char_p
    numbers = re.findall(r"(?m)^  HF_[A-Z_]+ = (\d+),? ", HEADERS[0].read_text())
    assert "10" in numbers
    assert b"unknown" not in {library.hf_status_name(int(number)) for number in numbers}
    assert library.hf_status_name(int(numbers[-1]) + 1) == b"unknown"


@needs_compiler
def test_the_benchmark_runs(tmp_path):
    program = build(BENCHMARK, tmp_path)
    done = subprocess.run(
        [
            *(sys.executable, "-m", "holdfast.cli", "run", "-n", "2", str(program)),
            *("all_reduce,broadcast,all_gather,reduce_scatter,all_to_all", "64"),
        ],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    names = [line.split()[1] for line in done.stdout.splitlines()]
    assert names == ["all_reduce", "broadcast", "all_gather", "reduce_scatter", "all_to_all"]


@needs_compiler
def test_the_example_builds_without_warnings_and_runs(tmp_path):
    program = build(EXAMPLES / "all_reduce.c", tmp_path)
    done = subprocess.run(
        [sys.executable, "-m", "holdfast.cli", "run", "-n", "4", str(program)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == [
        f"rank {rank} of 4: the sum is 10" for rank in range(4)
    ]
    alone = subprocess.run(
        [str(program)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={k: v for k, v in os.environ.items() if k != "RANK"},
    )
    assert alone.returncode == 1
    assert "holdfast run -n 4" in alone.stderr


@needs_compiler
def test_the_example_that_loses_a_rank_goes_on(tmp_path):
    program = build(EXAMPLES / "survive.c", tmp_path)
    done = subprocess.run(
        [sys.executable, "-m", "holdfast.cli", "run", "-n", "3", "--respawn", str(program)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    gone, back = done.stdout.splitlines()
    assert gone == "all_gather: PeerLost: rank 2 is away; the group goes on"
    assert re.fullmatch(r"[1-9]\d* steps without a rank, then all 3 again: the sum is 6", back)


@needs_cpp
def test_the_header_is_cpp_too(tmp_path):
    source = tmp_path / "use.cpp"
    source.write_text(
        "#include <holdfast/holdfast_device.h>\nint main() { return hf_abi_version(); }\n"
    )
    strict = ["-std=c++11", "-Wall", "-Wextra", "-Werror", "-fsyntax-only"]
    compiler("c++", *strict, str(source), *flags("--cflags"))


@pytest.mark.skipif(shutil.which("nm") is None, reason="waits for nm (binutils)")
def test_exactly_the_declared_functions_are_exported_with_a_version():
    whole = "".join(header.read_text() for header in HEADERS)
    text = re.sub(r"/\*.*?\*/", "", whole, flags=re.DOTALL)
    declared = set(re.findall(r"\b(hf_\w+)\(", text))
    listed = subprocess.run(
        ["nm", "-D", "--defined-only", "--with-symbol-versions", str(LIBRARY)],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    ).stdout
    exported = set(re.findall(r" T (hf_\w+@@HOLDFAST_1)$", listed, flags=re.MULTILINE))
    assert len(declared) >= 40
    assert exported == {f"{function}@@HOLDFAST_1" for function in declared}
    assert not re.findall(r" hf_\w+$", listed, flags=re.MULTILINE)


ENV = {"LIBHOLDFAST": str(LIBRARY)}


def environment(path: Path, transport: str) -> dict[str, str]:
    return {**ENV, "HOLDFAST_TRANSPORTS": transport, "HOLDFAST_STORE": f"file://{path}/meet"}


@pytest.mark.parametrize("transport", ["shm", "tcp"])
@pytest.mark.parametrize("program", ["every_collective", "ops_in_flight"])
def test_collectives_by_ctypes(program, transport, tmp_path):
    env = environment(tmp_path, transport)
    run_ranks("c_abi_ranks", program, 3, tmp_path, env=env, fresh=True)


@pytest.mark.parametrize("program", ["refusals", "other_calls", "own_store"])
def test_refusals_mismatches_and_stores(program, tmp_path):
    env = environment(tmp_path, "shm,tcp")
    run_ranks("c_abi_ranks", program, 2, tmp_path, env=env, fresh=True)


def test_survivors_learn_who_was_lost(tmp_path):
    env = {**environment(tmp_path, "shm"), "HOLDFAST_ON_PEER_LOSS": "raise"}
    processes = [
        start_rank("c_abi_ranks", "lose_a_rank", r, 3, tmp_path, env, fresh=True) for r in range(3)
    ]
    outcomes = finish(processes, 60)
    assert outcomes[1].status == -signal.SIGKILL
    for outcome in outcomes:
        assert outcome.rank == 1 or outcome.status == 0, outcome.output


def test_survivors_go_on_and_are_told_who_is_missing(tmp_path):
    env = environment(tmp_path, "shm")
    processes = [
        start_rank("c_abi_ranks", "go_on", r, 3, tmp_path, env, fresh=True) for r in range(3)
    ]
    for outcome in finish(processes, 60):
        assert outcome.rank == 1 or outcome.status == 0, outcome.output
