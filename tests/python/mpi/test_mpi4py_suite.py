"""A part of mpi4py's own tests, at two ranks: one module or two of each trade.

All of them are run by `make test-mpi`, at more ranks and over all ABIs; what came out is in
docs/evidence/mpi4py-tests.md.
"""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

from holdfast import _mpi

pytestmark = [
    pytest.mark.skipif(not _mpi.installed(), reason="waits for an installation with MPI"),
    pytest.mark.skipif(importlib.util.find_spec("mpi4py") is None, reason="waits for mpi4py"),
]

SUITE = Path(__file__).resolve().parents[2] / "mpi_suite"
MODULES = ["attributes", "buffer", "cco_buf", "cco_buf_inter", "cco_ngh_buf", "cco_obj", "comm"]
MODULES += ["comm_inter", "comm_topo", "errhandler", "exceptions", "grequest", "group", "handle"]
MODULES += ["objmodel", "p2p_buf", "p2p_buf_matched", "request", "session", "status", "subclass"]


def command(*arguments: str, timeout: int) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, timeout=timeout, check=False
    )


@pytest.fixture(scope="module")
def sources() -> None:
    """The tests, which come with mpi4py's sdist: fetched at the first time."""
    fetched = command(
        "-c",
        f"import sys; sys.path.insert(0, {str(SUITE)!r}); import run; run.fetch()",
        timeout=300,
    )
    if fetched.returncode != 0:
        pytest.skip(f"cannot fetch the sources of mpi4py {version('mpi4py')}: {fetched.stderr}")


def test_mpi4pys_own_tests_pass_at_two_ranks(sources) -> None:
    done = command(str(SUITE / "run.py"), "--ranks", "2", "--only", *MODULES, timeout=300)
    lines = done.stdout.splitlines()
    assert [line.split()[0] for line in lines] == sorted(MODULES), done.stderr
    assert done.returncode == 0, done.stdout + done.stderr
    # Tests that are skipped because the library lacks something are no passes.
    assert all(int(line.split(" s  ")[1].split()[0]) > 0 for line in lines), done.stdout
