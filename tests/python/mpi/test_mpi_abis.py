"""One program, compiled with the header of each ABI, on Holdfast's libraries.

`abi_program.c` asks for what differs between them: numbers, handles, statuses, callbacks.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from compilers import needs_compiler, needs_cpp
from mpi_programs import build, build_text, command

from holdfast import _mpi

pytestmark = pytest.mark.skipif(not _mpi.installed(), reason="waits for an installation with MPI")
SOURCE = Path(__file__).with_name("abi_program.c")


@needs_compiler
@pytest.mark.parametrize("ranks", [1, 2])
@pytest.mark.parametrize("abi", list(_mpi.ABIS))
def test_a_program_is_served_in_its_own_terms(abi, ranks, tmp_path) -> None:
    made = build(abi, SOURCE, tmp_path)
    done = command("run", "-n", str(ranks), str(made))
    assert done.returncode == 0, done.stdout + done.stderr
    assert sorted(done.stdout.splitlines()) == [f"fine {rank} of {ranks}" for rank in range(ranks)]


@needs_compiler
def test_a_program_of_mpicc_runs_alone(tmp_path) -> None:
    made = build("abi", SOURCE, tmp_path)
    done = subprocess.run([made], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (0, "fine 0 of 1\n"), done.stderr


@needs_compiler
@needs_cpp
def test_the_header_is_cs_and_cpps(tmp_path) -> None:
    source = tmp_path / "version.cpp"
    source.write_text(
        "#include <mpi.h>\n#include <cstdio>\n"
        "int main() { int v = 0, s = 0; MPI_Get_version(&v, &s);\n"
        '  std::printf("%d.%d\\n", v, s); }\n'
    )
    made = tmp_path / "version"
    done = command(
        *("mpicc", "--compiler", "c++", "-Wall", "-Werror", str(source), "-o", str(made))
    )
    assert done.returncode == 0, done.stderr
    told = subprocess.run([made], capture_output=True, text=True, timeout=60, check=True)
    assert told.stdout == "5.0\n"


PROFILED = """
#include <mpi.h>
#include <stdio.h>
static int seen;
int MPI_Comm_rank(MPI_Comm comm, int* rank) { ++seen; return PMPI_Comm_rank(comm, rank); }
int main(int argc, char** argv) {
  int rank = -1;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  printf("%d %d\\n", seen, rank);
  return MPI_Finalize();
}
"""


@needs_compiler
@pytest.mark.parametrize("abi", list(_mpi.ABIS))
def test_a_tool_stands_before_a_function(abi, tmp_path) -> None:
    done = command("run", "-n", "1", str(build_text(abi, PROFILED, tmp_path)))
    assert (done.returncode, done.stdout) == (0, "1 0\n"), done.stderr


UNTIMELY = """
#include <mpi.h>
int main(int argc, char** argv) {
  int rank, late = argc > 1;
  if (late) { MPI_Init(&argc, &argv); MPI_Finalize(); }
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  return 0;
}
"""


@needs_compiler
@pytest.mark.parametrize("abi", list(_mpi.ABIS))
def test_a_call_before_init_or_after_finalize_ends_the_program(abi, tmp_path) -> None:
    made = str(build_text(abi, UNTIMELY, tmp_path))
    early, late = command("run", "-n", "1", made), command("run", "-n", "1", made, "late")
    assert early.returncode != 0
    assert "MPI_Comm_rank: called before MPI_Init" in early.stderr
    assert late.returncode != 0
    assert "MPI_Comm_rank: called after MPI_Finalize" in late.stderr
