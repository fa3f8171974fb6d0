"""MPI programs: which ABI one was built for, and what makes it load Holdfast's library of it.

Nothing is preloaded, and nothing is set but for the ranks of the job. A program finds the library
by LD_LIBRARY_PATH. mpi4py's wheel asks for the name of a library, MPI4PY_LIBMPI, loads it, and
then takes its own module that fits: the loader sees that what that module needs is loaded already.

Why: docs/decisions/0139-one-mpi-for-three-abis.md
"""

from __future__ import annotations

import importlib.util
import itertools
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from holdfast import _elf
from holdfast.errors import ConfigError

FOLDER = Path(__file__).with_name("mpi")
# By folder: the library that programs of the ABI need, and its other names.
ABIS: dict[str, tuple[str, ...]] = {
    "abi": ("libmpi_abi.so.1",),
    "mpich": ("libmpi.so.12", "libmpich.so.12"),
    "openmpi": ("libmpi.so.40",),
}
TITLES = {"abi": "MPI-5's ABI", "mpich": "MPICH", "openmpi": "Open MPI 4 and 5"}
CHOICES = ("auto", *ABIS, "off")
# For mpi4py's wheel, which has a module for each: the ABI with the newer functions comes first.
_OF_THE_WHEEL = ("mpich", "openmpi")
_FORTRAN = ("libmpi_mpifh", "libmpi_usempi", "libmpifort", "libmpichf", "libmpi_abi_fort")
_CXX = ("libmpi_cxx", "libmpicxx", "libmpichcxx")
_SYSTEM = ("/lib64", "/usr/lib64", "/lib", "/usr/lib", "/usr/local/lib")
# A program that is linked with more is not followed further.
_MAX_LIBRARIES = 512


@dataclass(frozen=True, slots=True)
class Found:
    """A library of MPI that something needs.

    Parameters
    ----------
    abi : str
        Its ABI, a folder's name.
    soname : str
        Its name.
    before : tuple of str
        Folders that the loader searches before those of LD_LIBRARY_PATH.
    """

    abi: str
    soname: str
    before: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Setting:
    """What ranks are started with.

    Parameters
    ----------
    abi : str
        The ABI of their program; "": they are no MPI program, as far as can be seen.
    environment : dict
        Variables beside those of the launcher.
    """

    abi: str = ""
    environment: dict[str, str] = field(default_factory=dict)


def library(abi: str) -> Path:
    """Return where Holdfast's library of an ABI lies."""
    return FOLDER / abi / ABIS[abi][0]


def installed() -> list[str]:
    """Return the ABIs that this installation has libraries for."""
    return [abi for abi in ABIS if library(abi).is_file()]


def unsupported() -> list[str]:
    """Return the functions that refuse with MPI_ERR_UNSUPPORTED_OPERATION."""
    return (FOLDER / "unsupported.txt").read_text().split()


def _judge(program: Path, name: str) -> str | None:
    """Return the ABI of a needed library; None: it is not MPI's."""
    for abi, names in ABIS.items():
        if name in names:
            return abi
    if name.startswith(_FORTRAN):
        raise ConfigError(
            f"{program} needs {name}: it is a Fortran program; accepted: programs of MPI's C "
            "interface"
        )
    if name.startswith(_CXX):
        raise ConfigError(
            f"{program} needs {name}, MPI's C++ interface, which MPI-3 has removed; accepted: "
            "programs of the C interface"
        )
    if name.startswith(("libmpi.so", "libmpich.so", "libmpi_abi.so", "libmpi_cray", "libmpi_mt")):
        known = ", ".join(name for names in ABIS.values() for name in names)
        raise ConfigError(f"{program} needs {name}, an MPI of an unknown ABI; known: {known}")
    return None


def _system_folders() -> Iterator[str]:
    for folder in _SYSTEM:
        yield folder
        for nested in sorted(Path(folder).glob("*-linux-gnu")):
            yield str(nested)


def _search(program: Path, environment: Mapping[str, str]) -> Found | None:
    """Look for MPI among what a program needs, and what that needs."""
    given = [folder for folder in environment.get("LD_LIBRARY_PATH", "").split(":") if folder]
    system = list(_system_folders())
    files, seen, found = [program], {program.name}, None
    while files and len(seen) < _MAX_LIBRARIES:
        file = files.pop(0)
        elf = _elf.read(file)
        if elf is None:
            continue
        for name in elf.needed:
            abi = _judge(program, name)
            if abi is None:
                continue
            if found is not None and abi != found.abi:
                raise ConfigError(
                    f"{program} needs two MPIs: {found.soname}, of {TITLES[found.abi]}, and "
                    f"{name}, of {TITLES[abi]}, by {file}; accepted: one, for the program and all "
                    "of its libraries"
                )
            found = found or Found(abi, name, () if elf.runpath else elf.rpath)
        for name in elf.needed:
            if name in seen:
                continue
            seen.add(name)
            if _judge(program, name) is not None:
                continue  # another MPI's own needs are no matter: it is not loaded
            folders = [*elf.rpath, *given, *elf.runpath, *system]
            there = (path for folder in folders if (path := Path(folder, name)).is_file())
            files += itertools.islice(there, 1)
    return found


def _check_installed(abi: str) -> Path:
    found = library(abi)
    if not found.is_file():
        raise ConfigError(f"this installation has no library for MPI programs: no {found}")
    return found


def _by_path(abi: str, environment: Mapping[str, str]) -> Setting:
    folder = str(_check_installed(abi).parent)
    before = environment.get("LD_LIBRARY_PATH", "")
    return Setting(abi, {"LD_LIBRARY_PATH": f"{folder}:{before}" if before else folder})


def _of_program(program: Path, mpi: str, environment: Mapping[str, str]) -> Setting:
    found = _search(program, environment)
    if found is None:
        # Perhaps it loads MPI while it runs, or starts who does: it is as the user says.
        return Setting() if mpi == "auto" else _by_path(mpi, environment)
    if mpi not in ("auto", found.abi):
        raise ConfigError(
            f"--mpi {mpi}: {program} needs {found.soname}, of {TITLES[found.abi]}; "
            f"accepted: auto, {found.abi}, off"
        )
    for folder in found.before:
        if Path(folder, found.soname).exists():
            raise ConfigError(
                f"{program} has {folder} built in as the place of {found.soname}, where the "
                "loader looks first; link it without that, or remove it: patchelf --remove-rpath"
            )
    return _by_path(found.abi, environment)


def _modules() -> dict[str, Path]:
    """Return mpi4py's modules by what stands for the ABI in their names; "": one for all."""
    spec = importlib.util.find_spec("mpi4py")
    if spec is None or not spec.submodule_search_locations:
        return {}
    modules = {}
    for path in sorted(Path(spec.submodule_search_locations[0]).glob("MPI.*.so")):
        parts = path.name.split(".")
        modules[parts[1] if len(parts) > 3 else ""] = path
    return modules


def _of_python(mpi: str, environment: Mapping[str, str]) -> Setting:
    modules = _modules()
    if mpi == "auto" and environment.get("MPI4PY_LIBMPI"):
        return Setting()  # the user has chosen another MPI
    if "" in modules:
        return _of_program(modules[""], mpi, environment)
    chosen = environment.get("MPI4PY_MPIABI", "").lower()
    wanted = [abi for abi in _OF_THE_WHEEL if abi in modules]
    if mpi == "auto" and chosen:
        # mpi4py then loads no library by name, but its module what it needs.
        return _by_path(chosen, environment) if chosen in wanted else Setting()
    if mpi != "auto":
        if wanted and mpi not in wanted:
            raise ConfigError(f"--mpi {mpi}: mpi4py has modules for {', '.join(wanted)}")
        wanted = [mpi]
    if not wanted:
        return Setting()
    return Setting(wanted[0], {"MPI4PY_LIBMPI": str(_check_installed(wanted[0]))})


def _is_python(program: Path) -> bool:
    """Whether it is this interpreter, whose modules are those that the launcher finds, or its."""
    if program.name.startswith("python"):
        # By what they are, not by their names: a path may hold ".." or a link to a folder. The file
        # itself is not followed: a virtual environment's is a link to the interpreter outside.
        return program.parent.samefile(Path(sys.executable).parent)
    with program.open("rb") as opened:
        first = opened.readline(256)
    return first.startswith(b"#!") and b"python" in first


def prepare(command: Sequence[str], mpi: str, environment: Mapping[str, str]) -> Setting:
    """Find out what a program needs to run on Holdfast's MPI.

    Parameters
    ----------
    command : sequence of str
        The program as it is started, a path or "-m", and its arguments.
    mpi : str
        One of CHOICES.
    environment : mapping
        Variables that it is started with.

    Returns
    -------
    Setting

    Raises
    ------
    ConfigError
        When the program cannot run on it, or not as `mpi` says.
    """
    if mpi == "off":
        return Setting()
    if command[0] == "-m" or command[0].endswith(".py"):
        return _of_python(mpi, environment)
    program = Path(command[0])
    if not os.access(program, os.X_OK) or _is_python(program):
        return _of_python(mpi, environment)
    return _of_program(program, mpi, environment)


def compiler_command(compiler: str, arguments: Sequence[str]) -> list[str]:
    """Return the command that compiles or links a program of MPI-5's ABI.

    Parameters
    ----------
    compiler : str
        The compiler of C or C++.
    arguments : sequence of str
        What it is given beside.

    Returns
    -------
    list of str
    """
    built = _check_installed("abi")
    command = [compiler, f"-I{FOLDER / 'include'}", *arguments]
    # Where nothing is linked, compilers warn of libraries; asked for a version, they take no file.
    links = not {"-c", "-S", "-E", "-M", "-MM", "-fsyntax-only"} & set(arguments)
    if links and not all(argument.startswith("-") for argument in arguments):
        command += [str(built), f"-Wl,-rpath,{built.parent}"]
    return command
