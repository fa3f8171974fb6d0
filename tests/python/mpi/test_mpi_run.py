"""`holdfast run`: which ABI of MPI a program wants, and what its ranks are given.

Programs are linked with libraries of the names that MPIs have and that hold nothing: what counts is
what their ELF files say.
"""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from compilers import compiler, needs_compiler

from holdfast import _elf, _mpi
from holdfast.errors import ConfigError


def stand_in(folder: Path, name: str, *arguments: str) -> Path:
    """Make a library of this name that has one function."""
    folder.mkdir(exist_ok=True)
    source = folder / "nothing.c"
    source.write_text("int nothing(void) { return 0; }\n")
    library = folder / name
    compiler(
        "cc", "-shared", "-fPIC", str(source), f"-Wl,-soname,{name}", "-o", str(library), *arguments
    )
    return library


def program(folder: Path, *libraries: Path, options: tuple[str, ...] = ()) -> Path:
    """Make a program that needs these libraries, and says where it would look for them."""
    source = folder / "program.c"
    source.write_text(
        "#include <stdio.h>\n#include <stdlib.h>\n"
        'int main(void) { const char* path = getenv("LD_LIBRARY_PATH");\n'
        '  puts(path == NULL ? "" : path); return 0; }\n'
    )
    made = folder / "program"
    compiler(
        "cc", str(source), "-Wl,--no-as-needed", *map(str, libraries), *options, "-o", str(made)
    )
    return made


@pytest.fixture
def installation(tmp_path, monkeypatch) -> Path:
    """A folder as a package has it, with a library for each ABI."""
    folder = tmp_path / "package"
    for abi, names in _mpi.ABIS.items():
        (folder / abi).mkdir(parents=True)
        for name in names:
            (folder / abi / name).touch()
    monkeypatch.setattr(_mpi, "FOLDER", folder)
    return folder


@needs_compiler
@pytest.mark.parametrize(
    ("library", "abi"),
    [
        ("libmpi_abi.so.1", "abi"),
        ("libmpi.so.12", "mpich"),
        ("libmpich.so.12", "mpich"),
        ("libmpi.so.40", "openmpi"),
    ],
)
def test_a_program_is_given_the_library_of_its_abi(library, abi, installation, tmp_path) -> None:
    made = program(tmp_path, stand_in(tmp_path / "other", library))
    given = _mpi.prepare([str(made)], "auto", {"LD_LIBRARY_PATH": "/theirs"})
    assert given.abi == abi
    assert given.environment == {"LD_LIBRARY_PATH": f"{installation / abi}:/theirs"}
    assert _mpi.prepare([str(made)], "off", {}).environment == {}


@needs_compiler
def test_mpi_is_found_behind_a_library_of_the_program(installation, tmp_path) -> None:
    mpi = stand_in(tmp_path / "other", "libmpi.so.40")
    solver = stand_in(tmp_path / "solver", "libsolver.so", "-Wl,--no-as-needed", str(mpi))
    options = (f"-Wl,-rpath,{solver.parent}", f"-Wl,-rpath-link,{mpi.parent}")
    made = program(tmp_path, solver, options=options)
    assert _elf.read(made).needed[0] == "libsolver.so"
    assert _mpi.prepare([str(made)], "auto", {}).abi == "openmpi"


@needs_compiler
def test_a_program_without_mpi_is_given_nothing(installation, tmp_path) -> None:
    made = program(tmp_path)
    assert _mpi.prepare([str(made)], "auto", {}).environment == {}
    # It may load MPI by itself, or start others: who names an ABI is believed.
    assert _mpi.prepare([str(made)], "mpich", {}).environment == {
        "LD_LIBRARY_PATH": str(installation / "mpich")
    }


@needs_compiler
@pytest.mark.parametrize(
    ("library", "told"),
    [
        ("libmpi_mpifh.so.40", "Fortran"),
        ("libmpifort.so.12", "Fortran"),
        ("libmpi_cxx.so.40", "C++ interface"),
        ("libmpi.so.20", "unknown ABI; known: libmpi_abi.so.1"),
    ],
)
def test_a_program_that_cannot_run_is_refused(library, told, installation, tmp_path) -> None:
    made = program(tmp_path, stand_in(tmp_path / "other", library))
    with pytest.raises(ConfigError, match=library.replace(".", r"\.")) as caught:
        _mpi.prepare([str(made)], "auto", {})
    assert told in str(caught.value)
    assert str(made) in str(caught.value)


@needs_compiler
def test_another_abi_than_the_programs_is_refused(installation, tmp_path) -> None:
    made = program(tmp_path, stand_in(tmp_path / "other", "libmpi.so.40"))
    with pytest.raises(ConfigError, match="accepted: auto, openmpi, off"):
        _mpi.prepare([str(made)], "mpich", {})


@needs_compiler
def test_a_path_that_the_loader_looks_at_first_is_told(installation, tmp_path) -> None:
    library = stand_in(tmp_path / "other", "libmpi.so.40")
    first = f"-Wl,--disable-new-dtags,-rpath,{library.parent}"
    with pytest.raises(ConfigError, match="remove-rpath"):
        _mpi.prepare([str(program(tmp_path, library, options=(first,)))], "auto", {})
    # As newer linkers write it the loader looks there last.
    last = f"-Wl,--enable-new-dtags,-rpath,{library.parent}"
    made = program(tmp_path, library, options=(last,))
    assert _mpi.prepare([str(made)], "auto", {}).abi == "openmpi"


@needs_compiler
def test_an_installation_without_mpi_says_so(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(_mpi, "FOLDER", tmp_path / "none")
    made = program(tmp_path, stand_in(tmp_path / "other", "libmpi.so.12"))
    with pytest.raises(ConfigError, match="no library for MPI programs"):
        _mpi.prepare([str(made)], "auto", {})


@pytest.mark.parametrize("head", [b"", b"\x7fELF", b"\x7fELF\x02\x01" + b"\xff" * 90])
def test_a_file_that_is_cut_off_is_no_program(head, tmp_path) -> None:
    path = tmp_path / "cut"
    path.write_bytes(head)
    assert _elf.read(path) is None


# ---- Python -------------------------------------------------------------------------------------


@pytest.fixture
def wheel(tmp_path, monkeypatch) -> Path:
    """An mpi4py with a module for each of two ABIs, as its wheel has it."""
    folder = tmp_path / "site" / "mpi4py"
    folder.mkdir(parents=True)
    (folder / "__init__.py").touch()
    for abi in ("mpich", "openmpi"):
        (folder / f"MPI.{abi}.cpython-311-x86_64-linux-gnu.so").touch()
    monkeypatch.syspath_prepend(str(folder.parent))
    for name in [name for name in sys.modules if name.split(".")[0] == "mpi4py"]:
        monkeypatch.delitem(sys.modules, name)
    return folder


def test_mpi4pys_wheel_is_given_the_name_of_a_library(wheel, installation) -> None:
    given = _mpi.prepare(["program.py"], "auto", {})
    assert given.environment == {"MPI4PY_LIBMPI": str(installation / "mpich" / "libmpi.so.12")}
    given = _mpi.prepare(["-m", "module"], "openmpi", {})
    assert given.environment == {"MPI4PY_LIBMPI": str(installation / "openmpi" / "libmpi.so.40")}
    with pytest.raises(ConfigError, match="mpi4py has modules for mpich, openmpi"):
        _mpi.prepare(["program.py"], "abi", {})


def test_this_interpreter_as_a_program_is_python(wheel, installation) -> None:
    given = _mpi.prepare([sys.executable, "program.py"], "auto", {})
    assert given.environment == {"MPI4PY_LIBMPI": str(installation / "mpich" / "libmpi.so.12")}


def test_this_interpreter_is_known_by_another_path(wheel, installation, tmp_path) -> None:
    linked = tmp_path / "linked"
    linked.symlink_to(Path(sys.executable).parent)
    set_to = {"MPI4PY_LIBMPI": str(installation / "mpich" / "libmpi.so.12")}
    for program in (linked / "python", tmp_path / "site" / ".." / "linked" / "python"):
        assert _mpi.prepare([str(program), "x.py"], "auto", {}).environment == set_to


def test_what_a_user_chose_for_mpi4py_stays(wheel, installation) -> None:
    theirs = {"MPI4PY_LIBMPI": "/opt/mpi/libmpi.so"}
    assert _mpi.prepare(["program.py"], "auto", theirs).environment == {}
    # mpi4py then asks for no library, and its module finds one by the path.
    given = _mpi.prepare(["program.py"], "auto", {"MPI4PY_MPIABI": "openmpi"})
    assert given.environment == {"LD_LIBRARY_PATH": str(installation / "openmpi")}


# ---- the command --------------------------------------------------------------------------------


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "holdfast.cli", "run", "-n", "2", *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={**os.environ, **environment},
    )


def test_a_program_is_looked_up_in_path(tmp_path) -> None:
    script = tmp_path / "of-the-path"
    script.write_text('#!/bin/sh\necho "$RANK $*"\n')
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    path = f"{tmp_path}:{os.environ['PATH']}"
    done = run("of-the-path", "-n", "3", "-m", "x", PATH=path)
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == ["0 -n 3 -m x", "1 -n 3 -m x"]


def test_a_module_runs_with_its_arguments(tmp_path) -> None:
    (tmp_path / "said.py").write_text(
        "import json, os, sys\nprint(json.dumps([os.environ['RANK'], *sys.argv[1:]]))\n"
    )
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    done = run("-m", "said", "--epochs", "3", "-n", "9", PYTHONPATH=path)
    assert done.returncode == 0, done.stderr
    told = sorted(json.loads(line) for line in done.stdout.splitlines())
    assert told == [["0", "--epochs", "3", "-n", "9"], ["1", "--epochs", "3", "-n", "9"]]


def test_nothing_to_run_is_told() -> None:
    done = run()
    assert done.returncode == 2
    assert "accepted: a script, a program, or -m and a module" in done.stderr
    done = run("no-such-program")
    assert done.returncode == 2
    assert "no script 'no-such-program', and no program of that name in PATH" in done.stderr
