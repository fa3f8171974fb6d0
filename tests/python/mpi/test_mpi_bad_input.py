"""What programs do wrong is told, by MPI's error class and a text, and never a crash or a hang.

`bad_input.c` has all that a program can go on from; here are calls that end a program, and what the
launcher refuses.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from compilers import compiler, needs_compiler
from mpi_programs import build, build_text, command

from holdfast import _mpi

pytestmark = pytest.mark.skipif(not _mpi.installed(), reason="waits for an installation with MPI")
SOURCE = Path(__file__).with_name("bad_input.c")
ABIS = list(_mpi.ABIS)


@needs_compiler
@pytest.mark.parametrize("ranks", [1, 2, 3])
@pytest.mark.parametrize("abi", ABIS)
def test_each_mistake_has_its_class_and_its_text(abi, ranks, tmp_path) -> None:
    made = build(abi, SOURCE, tmp_path)
    done = command("run", "-n", str(ranks), str(made))
    assert done.returncode == 0, done.stdout + done.stderr
    assert sorted(done.stdout.splitlines()) == [f"fine {rank} of {ranks}" for rank in range(ranks)]


def alone(abi: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    """Run a program that nobody launched."""
    return subprocess.run(
        list(map(str, arguments)),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={**os.environ, "LD_LIBRARY_PATH": str(_mpi.library(abi).parent)},
    )


# One way to end a program each; "reached" must not be.
ENDS = """
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
int main(int argc, char** argv) {
  const char* way = argv[1];
  int one = 1, rank = -1, provided;
  MPI_Comm comm;
  MPI_Datatype type;
  if (!strcmp(way, "rank-early")) MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (!strcmp(way, "send-early")) MPI_Send(&one, 1, MPI_INT, 0, 0, MPI_COMM_WORLD);
  if (!strcmp(way, "type-early")) MPI_Type_contiguous(2, MPI_INT, &type);
  if (!strcmp(way, "finalize-early")) MPI_Finalize();
  MPI_Init(&argc, &argv);
  if (!strcmp(way, "init-twice")) MPI_Init(&argc, &argv);
  if (!strcmp(way, "default-handler")) MPI_Send(&one, 1, MPI_INT, 77, 0, MPI_COMM_WORLD);
  if (!strcmp(way, "spawn")) {
    MPI_Comm_spawn("p", MPI_ARGV_NULL, 1, MPI_INFO_NULL, 0, MPI_COMM_SELF, &comm,
                   MPI_ERRCODES_IGNORE);
  }
  MPI_Finalize();
  if (!strcmp(way, "barrier-late")) MPI_Barrier(MPI_COMM_WORLD);
  if (!strcmp(way, "dup-late")) MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  if (!strcmp(way, "finalize-twice")) MPI_Finalize();
  if (!strcmp(way, "init-late")) MPI_Init_thread(&argc, &argv, MPI_THREAD_SINGLE, &provided);
  puts("reached");
  return 0;
}
"""
TEXTS = {
    "rank-early": "MPI_Comm_rank: called before MPI_Init",
    "send-early": "MPI_Send: called before MPI_Init",
    "type-early": "MPI_Type_contiguous: called before MPI_Init",
    "finalize-early": "MPI_Finalize: called before MPI_Init",
    "init-twice": "MPI_Init: MPI is initialized already",
    "default-handler": "MPI_Send: dest is 77; accepted: 0 to 0, or MPI_PROC_NULL [MPI_ERR_RANK",
    "spawn": "MPI_Comm_spawn: Holdfast has no such function",
    "barrier-late": "MPI_Barrier: called after MPI_Finalize",
    "dup-late": "MPI_Comm_dup: called after MPI_Finalize",
    "finalize-twice": "MPI_Finalize: called after MPI_Finalize",
    "init-late": "MPI_Init_thread: MPI has been finalized; it cannot be started again",
}


@needs_compiler
@pytest.mark.parametrize("abi", ABIS)
def test_what_ends_a_program_is_told_before(abi, tmp_path) -> None:
    made = build_text(abi, ENDS, tmp_path)
    for way, text in TEXTS.items():
        done = alone(abi, made, way)
        assert done.returncode > 0, (way, done)  # by itself, not by a signal
        assert text in done.stderr, way
        assert "reached" not in done.stdout, way


FORK = """
#define _GNU_SOURCE
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
static int ended(pid_t child) {
  int status = -1;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
int main(int argc, char** argv) {
  int rank, size, one = 1, sum = 0, length, class, flag = 1;
  char text[MPI_MAX_ERROR_STRING];
  if (argc > 1) {  // a program that a rank starts: alone in its world
    MPI_Init(&argc, &argv);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    MPI_Finalize();
    return size == 1 && sum == 1 ? 7 : 1;
  }
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  fflush(stdout);
  pid_t child = fork();
  if (child == 0) {  // the default handler
    MPI_Send(&one, 1, MPI_INT, 0, 0, MPI_COMM_WORLD);
    _exit(0);
  }
  int fine = ended(child) != 0;
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
  child = fork();
  if (child == 0) {
    const int code = MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    MPI_Error_class(code, &class);
    MPI_Error_string(code, text, &length);
    MPI_Initialized(&flag);
    const int told = class == MPI_ERR_OTHER && strstr(text, "MPI_Allreduce: called in a forked");
    exit(told && !flag ? 5 : 1);
  }
  fine = fine && ended(child) == 5;
  child = fork();
  if (child == 0) {
    execl("/proc/self/exe", argv[0], "again", NULL);
    _exit(1);
  }
  fine = fine && ended(child) == 7;
  fine = fine && system("exit 3") == 3 << 8;
  MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  if (fine && sum == size) printf("fine %d\\n", rank);
  MPI_Finalize();
  return 0;
}
"""


@needs_compiler
@pytest.mark.parametrize("abi", ABIS)
def test_a_forked_child_is_told_and_may_execute_programs(abi, tmp_path) -> None:
    done = command("run", "-n", "2", str(build_text(abi, FORK, tmp_path)))
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == ["fine 0", "fine 1"], done.stderr
    assert done.stderr.count("MPI_Send: called in a forked child") == 2


TWO = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <mpi.h>
#include <stdio.h>
int main(int argc, char** argv) {
  if (dlopen(argv[1], RTLD_NOW | RTLD_GLOBAL) == NULL) return puts(dlerror()), 1;
  MPI_Init(&argc, &argv);
  puts("reached");
  return MPI_Finalize();
}
"""


@needs_compiler
@pytest.mark.parametrize("abi", ABIS)
def test_two_mpis_in_one_process_are_told(abi, tmp_path) -> None:
    made = build_text(abi, TWO, tmp_path)
    other = _mpi.library("mpich" if abi == "openmpi" else "openmpi")
    done = alone(abi, made, other)
    assert done.returncode > 0
    assert "MPI_Init: there are two MPIs in this process" in done.stderr
    assert str(other) in done.stderr
    assert _mpi.library(abi).name in done.stderr
    assert done.stdout == ""


# ---- what the launcher refuses ------------------------------------------------------------------


def linked(folder: Path, *libraries: str) -> Path:
    """Make a program that needs libraries of these names, which hold nothing."""
    source = folder / "nothing.c"
    source.write_text("int main(void) { return 0; }\n")
    made = folder / "program"
    paths = []
    for name in libraries:
        (folder / "nowhere.c").write_text("int nothing;\n")
        path = folder / name
        flags = ["-shared", "-fPIC", f"-Wl,-soname,{name}"]
        compiler("cc", *flags, str(folder / "nowhere.c"), "-o", str(path))
        paths.append(str(path))
    compiler("cc", str(source), "-Wl,--no-as-needed", *paths, "-o", str(made))
    return made


@needs_compiler
@pytest.mark.parametrize(
    ("libraries", "text"),
    [
        (["libmpi.so.20"], "needs libmpi.so.20, an MPI of an unknown ABI; known: libmpi_abi.so.1"),
        (["libmpi_mpifh.so.40", "libmpi.so.40"], "it is a Fortran program; accepted: programs of"),
        (["libmpi.so.12", "libmpi.so.40"], "needs two MPIs: libmpi.so.12, of MPICH, and libmpi"),
    ],
)
def test_the_launcher_says_what_it_cannot_run(libraries, text, tmp_path) -> None:
    done = command("run", "-n", "2", str(linked(tmp_path, *libraries)))
    assert done.returncode == 2, done
    assert text in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


def test_a_missing_function_is_listed() -> None:
    done = command("info", "--mpi")
    assert done.returncode == 0, done.stderr
    assert "MPI_Comm_spawn" in done.stdout
