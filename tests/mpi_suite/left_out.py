"""What of mpi4py's tests is left out, and why: modules, single tests, and lines changed."""

from __future__ import annotations

from dataclasses import dataclass

# What our libmpi does not have: one-sided communication, files, dynamic processes.
MODULES = ("win", "rma", "rma_nb", "file", "io", "spawn", "dynproc")


@dataclass(frozen=True)
class Left:
    """Tests whose full name has `name` in it; `abis`: over these libraries alone."""

    name: str
    why: str
    abis: tuple[str, ...] = ("abi", "mpich", "openmpi")


_FILES = "opens a file"
_WINDOWS = "makes a window"
TESTS = (
    Left("test_errhandler.TestErrhandlerFile", _FILES),
    Left("test_errhandler.TestErrhandlerWin", _WINDOWS),
    Left("test_handle.TestHandleFile", _FILES),
    Left("test_handle.TestHandleWin", _WINDOWS),
    Left("test_msgspec.TestMessageRMA", _WINDOWS),
    Left("test_msgspec.TestMessageVectorRMA", _WINDOWS),
    Left("test_objmodel.TestObjModel.testSafeFreeCreated", _FILES),
    Left("test_util_sync.TestSequential", "counts its turns in a window"),
    Left("test_util_sync.TestCounter", "counts in a window"),
    Left("test_util_pool.TestProcessPool", "spawns its workers"),
    Left(
        "test_ulfm.TestULFMWorld.testIAgree",
        "without MPIX_Comm_iagree mpi4py calls MPI_Iallreduce, and the test calls it before a "
        "barrier at one rank and after it at the others, which MPI forbids (MPI-4.1, 6.14); "
        "Holdfast says so on all ranks",
    ),
    Left(
        "test_datatype.TestDatatype.testContiguousBigMPI",
        "expects that a library of MPI 3.1, as Open MPI's header says, has no "
        "MPI_Type_contiguous_c; ours has",
        ("openmpi",),
    ),
)


@dataclass(frozen=True)
class Change:
    """Lines of a test module that are others here."""

    file: str
    before: str
    after: str
    why: str


CHANGES = (
    Change(
        "test_subclass.py",
        "    BaseTestMyFile().openfile().Close()\nexcept NotImplementedError:",
        "    BaseTestMyFile().openfile().Close()\nexcept (NotImplementedError, MPI.Exception):",
        "opens a file while it is imported, to see whether there are files; a function that is "
        "missing is told from one that refuses, though not for windows a few lines above",
    ),
)


def patterns(abi: str) -> list[str]:
    """Return what is left out over this library."""
    return [left.name for left in TESTS if abi in left.abis]
