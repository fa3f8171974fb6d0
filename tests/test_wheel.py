"""The wheel: what is in it, what is not, and that it is what the tests import."""

from __future__ import annotations

import importlib.metadata
import json
import re
import subprocess
import zipfile
from email.parser import Parser
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = {
    "holdfast": "bindings/holdfast",
    "holdfast/comm": "comm",
    "holdfast/ft": "ft",
    "holdfast/compress": "compress",
    "holdfast/topology": "topology",
}
# Built, not copied: the core, the modules that link it.
MPI_LIBRARIES = {
    "holdfast/mpi/abi/libmpi_abi.so.1",
    "holdfast/mpi/mpich/libmpi.so.12",
    "holdfast/mpi/mpich/libmpich.so.12",
    "holdfast/mpi/openmpi/libmpi.so.40",
}
BUILT = re.compile(
    r"holdfast/(libholdfast\.so|_core\.[^/]*\.so|_c10d_\d+_\d+\.[^/]*\.so|mpi/\w+/libmpi[^/]*)"
)
# What an image for GPUs begins with: a number, a version, and the size of its header.
FAT_BINARY = bytes.fromhex("50ed55ba 0100 1000")
METADATA = re.compile(
    r"holdfast-[^/]+\.dist-info/"
    r"(METADATA|WHEEL|RECORD|entry_points\.txt|licenses/(LICENSE|THIRD-PARTY\.md))"
)


@pytest.fixture(scope="module")
def wheel() -> zipfile.ZipFile:
    found = sorted((ROOT / "dist").glob("holdfast-*.whl"))
    if not found:
        pytest.skip("no wheel in dist/: `make wheel` builds it")
    assert len(found) == 1, "dist/ holds old wheels"
    return zipfile.ZipFile(found[0])


def expected_sources() -> set[str]:
    return {
        f"{package}/{path.relative_to(ROOT / folder).as_posix()}"
        for package, folder in PACKAGES.items()
        for path in (ROOT / folder).rglob("*")
        if path.suffix in (".py", ".pyi", ".yml", ".json", ".c", ".h") or path.name == "py.typed"
    }


def test_the_wheel_holds_every_source_it_must_and_nothing_else(wheel: zipfile.ZipFile) -> None:
    names = {name for name in wheel.namelist() if not name.endswith("/")}
    sources = {name for name in names if not (BUILT.fullmatch(name) or METADATA.fullmatch(name))}
    headers = {f"holdfast/include/holdfast/{name}.h" for name in ("holdfast", "holdfast_device")}
    # Written by the build, of the tables in bindings/mpi.
    made = {"holdfast/mpi/include/mpi.h", "holdfast/mpi/unsupported.txt"}
    assert sources == expected_sources() | headers | made
    assert {name for name in names if name.startswith("holdfast/mpi/")} == made | MPI_LIBRARIES


def test_the_wheel_holds_the_core_once_and_the_module_of_one_torch(wheel: zipfile.ZipFile) -> None:
    """That of the torch it was built beside; `make wheels` makes those with a module for each."""
    libraries = {name for name in wheel.namelist() if ".so" in name} - MPI_LIBRARIES
    built = sorted(name.split("/")[1].split(".")[0] for name in libraries)
    assert [re.sub(r"_\d+_\d+$", "", name) for name in built] == ["_c10d", "_core", "libholdfast"]


def test_the_wheel_holds_the_kernels_of_every_file(wheel: zipfile.ZipFile) -> None:
    core = next(name for name in wheel.namelist() if name.endswith("/libholdfast.so"))
    images = wheel.read(core).count(FAT_BINARY)
    if images == 0:
        pytest.skip("no images: the wheel was built without nvcc (CUDA=OFF)")
    assert images == len(list((ROOT / "native").rglob("*.cu")))


def test_the_wheel_is_bound_to_this_platform_and_needs_no_torch(wheel: zipfile.ZipFile) -> None:
    info = next(name for name in wheel.namelist() if name.endswith("/METADATA"))
    metadata = Parser().parsestr(wheel.read(info).decode())
    assert metadata["License-Expression"] == "Apache-2.0"
    hard = [r for r in metadata.get_all("Requires-Dist", []) if "extra ==" not in r]
    assert [re.split(r"[^\w-]", r)[0] for r in hard] == ["numpy", "xxhash"]
    assert "none-any" not in Path(wheel.filename or "").name


def test_libraries_find_each_other_beside_themselves(
    wheel: zipfile.ZipFile, tmp_path: Path
) -> None:
    """No path of the machine that built them: moved anywhere, they still load."""
    for name in wheel.namelist():
        if ".so" not in name:
            continue
        library = wheel.extract(name, tmp_path)
        dynamic = subprocess.run(
            ["readelf", "--dynamic", "--wide", library],
            capture_output=True, text=True, check=True, timeout=60,
        ).stdout  # fmt: skip
        paths = re.findall(r"\((?:RPATH|RUNPATH)\).*\[(.*)\]", dynamic)
        core = "$ORIGIN/../.." if name in MPI_LIBRARIES else "$ORIGIN"
        assert paths == ["$ORIGIN" if name.endswith("/libmpich.so.12") else core], name


def test_the_tests_import_the_wheel() -> None:
    """Not the working tree: a file that the wheel forgot must be missed."""
    try:
        distribution = importlib.metadata.distribution("holdfast")
    except importlib.metadata.PackageNotFoundError:
        pytest.skip("holdfast is not installed: `make test` installs the wheel")
    origin = json.loads(distribution.read_text("direct_url.json") or "{}")
    if origin.get("dir_info", {}).get("editable"):
        pytest.skip("an editable install; `make test` tests the wheel")
    import holdfast

    assert ROOT / "bindings" not in Path(holdfast.__file__).resolve().parents
    groups = {(e.group, e.name, e.value) for e in distribution.entry_points}
    assert ("torch.backends", "holdfast", "holdfast.torch:_autoload") in groups
    assert ("console_scripts", "holdfast", "holdfast.cli:main") in groups
