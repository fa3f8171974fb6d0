"""The tables of bindings/mpi against what others publish: the standard's functions, the headers of
MPICH and Open MPI, and what programs bind of their libraries.

Why: docs/decisions/0139-one-mpi-for-three-abis.md
"""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from compilers import compiler, needs_compiler
from headers import ROOT, compiled, unpack

from holdfast import _mpi

MPI = ROOT / "bindings" / "mpi"
sys.path.insert(0, str(MPI))

import header  # noqa: E402
import table  # noqa: E402
import values  # noqa: E402

ABIS = ("standard", "mpich", "openmpi")
FOLDERS = {"standard": "abi", "mpich": "mpich", "openmpi": "openmpi"}


def functions() -> set[str]:
    """Names of all entry points, with MPI_."""
    rows, refused = table.parse(table.TABLE.read_text())
    names = {row.name for row in rows} | set(refused)
    names |= {f"{row.name}_c" for row in rows if row.has_twin()}
    return {f"MPI_{name}" for name in names}


@pytest.fixture(scope="module")
def standard() -> dict[str, str]:
    """The standard's functions by name, as C declares them."""
    pympistandard = pytest.importorskip("pympistandard")
    pympistandard.use_api_version(1, None)
    declared = {}
    for name, procedure in pympistandard.PROCEDURES.items():
        if name in ("mpi_sizeof", "mpi_f_sync_reg"):  # Fortran's
            continue
        given = [procedure.express.iso_c]
        if procedure.has_embiggenment():
            given.append(procedure.express.embiggen.iso_c)
        for one in map(str, given):
            declared[one.split("(")[0].split()[-1].lstrip("*")] = one.rstrip(";")
    return declared


def test_the_table_has_the_standards_functions_and_no_others(standard) -> None:
    assert functions() == set(standard)


@needs_compiler
def test_the_tables_kinds_declare_what_the_standard_declares(standard, tmp_path) -> None:
    """C refuses a second declaration that differs from the first."""
    (tmp_path / "mpi.h").write_text(header.source())
    ours = {line.split("(")[0].split()[-1] for line in header.prototypes()}
    fortran = re.compile(r"_(c2f|f2c)$|f08")
    assert ours == {name for name in standard if not fortran.search(name)}
    # Its own rendering of these two is no C: "char argv[]", and "..." as TeX has it.
    no_c = {"MPI_Info_create_env", "MPI_Pcontrol"}
    lines = [f"{text};" for name, text in standard.items() if name in ours - no_c]
    source = tmp_path / "twice.c"
    source.write_text("\n".join(['#include "mpi.h"', *lines, ""]))
    compiler("cc", "-fsyntax-only", "-Wall", "-Werror", f"-I{tmp_path}", str(source))


@needs_compiler
@pytest.mark.parametrize("abi", ABIS)
def test_constants_are_those_of_the_header(abi, tmp_path) -> None:
    path = unpack(abi, tmp_path)
    column = 2 + ABIS.index(abi)
    rows = {row[1]: row[column] for row in values.table("constants.table")}
    there = {name: value for name, value in rows.items() if value != "-"}
    lines = [f'printf("{name} %lld\\n", (long long)({name}));' for name in there]
    told = dict(line.split() for line in compiled(path, lines, tmp_path).splitlines())
    assert told == there
    text = path.read_text()
    absent = [name for name, value in rows.items() if value == "-"]
    # Variables of MPICH's library, which it reads at run time.
    read = {"MPI_UNWEIGHTED", "MPI_WEIGHTS_EMPTY"} if abi == "mpich" else set()
    # Any mention is of something else: "MPI_ERR_ABI" of MPI_ERR_ABIX, say.
    assert [name for name in absent if re.search(rf"\b{name}\b", text)] == sorted(read)


@needs_compiler
@pytest.mark.parametrize("abi", ["standard", "mpich"])
def test_handles_are_those_of_the_header(abi, tmp_path) -> None:
    path = unpack(abi, tmp_path)
    column = 3 + ABIS.index(abi)
    rows = {row[1]: row[column] for row in values.table("handles.table") if row[1] != "-"}
    there = {name: int(value, 16) for name, value in rows.items() if value != "-"}
    assert len(there) > 100
    lines = [f'printf("{name} %lld\\n", (long long)(unsigned)(long)({name}));' for name in there]
    told = dict(line.split() for line in compiled(path, lines, tmp_path).splitlines())
    assert {name: int(value) for name, value in told.items()} == there


def test_handles_of_open_mpi_are_the_headers_variables(tmp_path) -> None:
    text = unpack("openmpi", tmp_path).read_text()
    defined = dict(
        re.findall(r"define (MPI_\w+)\s+OMPI_PREDEFINED_GLOBAL\(\s*MPI_\w+,\s*(\w+)\)", text)
    )
    ours = {row[1]: row[5] for row in values.table("handles.table") if row[5] != "-"}
    # Other names of the same, and types that the header declares and names nowhere.
    aliases = {*header.ALIASES, "MPI_CXX_COMPLEX"}
    assert {name: ours.get(name) for name in defined if name not in aliases} == {
        name: symbol for name, symbol in defined.items() if name not in aliases
    }
    declared = set(re.findall(r"extern struct ompi_predefined_\w+ (\w+);", text))
    assert declared <= set(ours.values())


@needs_compiler
@pytest.mark.parametrize("abi", ABIS)
def test_the_status_lies_as_the_header_has_it(abi, tmp_path) -> None:
    path = unpack(abi, tmp_path)
    fields = ("MPI_SOURCE", "MPI_TAG", "MPI_ERROR")
    asked = ["sizeof(MPI_Status)", *(f"offsetof(MPI_Status, {name})" for name in fields)]
    lines = [f'printf("%d\\n", (int)({text}));' for text in asked]
    size, *offsets = compiled(path, lines, tmp_path).split()
    checks = [f"static_assert(sizeof(StatusLayout) == {size});"]
    for name, offset in zip(("source", "tag", "error"), offsets, strict=True):
        checks.append(f"static_assert(offsetof(StatusLayout, {name}) == {offset});")
    source = tmp_path / "layout.cpp"
    source.write_text(
        f'#include "mpi/abi/{abi}/abi.h"\nusing holdfast::mpi::entry::StatusLayout;\n'
        + "\n".join(checks)
    )
    folders = [f"-I{MPI.parent}", f"-I{ROOT / 'native'}"]
    compiler("c++", "-std=c++20", "-fsyntax-only", *folders, str(source))


def test_nothing_of_another_mpi_is_needed_to_build() -> None:
    sources = [path for path in MPI.rglob("*") if path.suffix in (".cpp", ".h", ".py")]
    assert len(sources) > 20
    foreign = re.compile(r"#\s*include\s*[<\"]mpi(_abi)?\.h")
    assert [path.name for path in sources if foreign.search(path.read_text())] == []
    assert "find_package(MPI" not in (ROOT / "cmake" / "mpi.cmake").read_text()


# ---- what the libraries export ------------------------------------------------------------------

needs_libraries = pytest.mark.skipif(
    not _mpi.installed() or shutil.which("nm") is None,
    reason="waits for an installation with MPI, and for nm",
)


def symbols(path: Path, *options: str) -> dict[str, tuple[str, int]]:
    """Kind and size of a file's dynamic symbols, by name."""
    command = ["nm", "-D", "-S", *options, str(path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    found = {}
    for line in done.stdout.splitlines():
        *numbers, kind, name = line.split()
        found[name.split("@")[0]] = (kind, int(numbers[1], 16) if len(numbers) == 2 else 0)
    return found


@needs_libraries
@pytest.mark.parametrize("abi", ABIS)
def test_every_function_is_exported_with_its_pmpi_name(abi) -> None:
    exported = symbols(_mpi.library(FOLDERS[abi]), "--defined-only")
    names = functions()
    assert names <= set(exported)
    assert {f"P{name}" for name in names} <= set(exported)
    # A tool's MPI_Send stands before ours, and calls PMPI_Send.
    assert {exported[name][0] for name in names} == {"W"}
    assert {exported[f"P{name}"][0] for name in names} == {"T"}
    # The last two: an extension of both other MPIs, and for programs that use Holdfast's C
    # interface beside MPI.
    ours = re.compile(r"P?MPI_|MPIR_|OMPI_C_|ompi_|MPIX_Query_cuda_support$|hf_mpi_node$")
    assert [name for name in exported if not ours.match(name)] == []


@needs_libraries
@pytest.mark.parametrize("abi", ["mpich", "openmpi"])
def test_what_mpi4pys_wheel_binds_is_there(abi) -> None:
    spec = importlib.util.find_spec("mpi4py")
    if spec is None or not spec.submodule_search_locations:
        pytest.skip("waits for mpi4py")
    modules = sorted(Path(spec.submodule_search_locations[0]).glob(f"MPI.{abi}.*.so"))
    if not modules:
        pytest.skip(f"waits for mpi4py's wheel, with a module for {abi}")
    wanted = symbols(modules[0], "--undefined-only")
    needed = {
        name
        for name in wanted
        if name.startswith(("MPI_", "PMPI_", "ompi_", "OMPI_")) and not name.startswith("MPIX_")
    }
    assert len(needed) > 600
    exported = symbols(_mpi.library(abi), "--defined-only")
    assert needed <= set(exported)


def bound() -> dict[str, tuple[str, dict[str, int]]]:
    """What programs of Debian bind: ABI, and names with the bytes that are copied (0: none)."""
    programs: dict[str, tuple[str, dict[str, int]]] = {}
    names: dict[str, int] = {}
    for line in (Path(__file__).with_name("bound.txt")).read_text().splitlines():
        if line.startswith("#"):
            continue
        if line.startswith(" "):
            for word in line.split():
                name, _, size = word.partition("=")
                names[name] = int(size or 0)
        else:
            abi, _, program = line.partition(" ")
            names = {}
            programs[program] = (abi, names)
    return programs


@needs_libraries
@pytest.mark.parametrize("program", bound())
def test_what_programs_of_debian_bind_is_there_and_as_large(program) -> None:
    """The loader warns of a variable whose size is not what the program was linked with."""
    abi, names = bound()[program]
    assert names
    exported = symbols(_mpi.library(abi), "--defined-only")
    assert set(names) <= set(exported)
    copied = {name: size for name, size in names.items() if size}
    assert {name: exported[name][1] for name in copied} == copied


@needs_libraries
def test_the_libraries_are_found_by_their_names_and_find_the_core() -> None:
    for abi, names in _mpi.ABIS.items():
        for name in names:
            path = _mpi.FOLDER / abi / name
            done = subprocess.run(
                ["readelf", "-d", str(path)], capture_output=True, text=True, timeout=60, check=True
            )
            assert f"Library soname: [{name}]" in done.stdout
            assert "SYMBOLIC" not in done.stdout
            assert "$ORIGIN" in done.stdout


@needs_libraries
def test_no_function_is_left_without_a_body() -> None:
    _, refused = table.parse(table.TABLE.read_text())
    assert _mpi.unsupported() == sorted(f"MPI_{name}" for name in refused)
