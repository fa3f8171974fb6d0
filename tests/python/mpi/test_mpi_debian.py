"""Programs as Debian has built them, hpcc for Open MPI 4, NetPIPE for it and for MPICH, unmodified.

What they find themselves is judged: hpcc solves, transposes and sorts, and says whether the result
is right; NetPIPE sends patterns back and forth and looks for a byte that is wrong.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast import _mpi

pytestmark = pytest.mark.skipif(not _mpi.installed(), reason="waits for an installation with MPI")
NETPIPES = {"NPopenmpi": "netpipe-openmpi", "NPmpich2": "netpipe-mpich2"}
# What other MPIs bring into a process.
OF_MPIS = re.compile(r"lib(mpi|mpich|open-rte|open-pal|pmix|pmi|ucp|uct|fabric|hwloc)\b[^/]*$")

# hpcc's own example, small: seconds on two cores.
HPCC_INPUT = """HPLinpack benchmark input file
Innovative Computing Laboratory, University of Tennessee
HPL.out      output file name (if any)
8            device out (6=stdout,7=stderr,file)
1            # of problems sizes (N)
240          Ns
1            # of NBs
32           NBs
0            PMAP process mapping (0=Row-,1=Column-major)
1            # of process grids (P x Q)
{rows}            Ps
2            Qs
16.0         threshold
1            # of panel fact
2            PFACTs (0=left, 1=Crout, 2=Right)
1            # of recursive stopping criterium
4            NBMINs (>= 1)
1            # of panels in recursion
2            NDIVs
1            # of recursive panel fact.
1            RFACTs (0=left, 1=Crout, 2=Right)
1            # of broadcast
1            BCASTs (0=1rg,1=1rM,2=2rg,3=2rM,4=Lng,5=LnM)
1            # of lookahead depth
1            DEPTHs (>=0)
2            SWAP (0=bin-exch,1=long,2=mix)
64           swapping threshold
0            L1 in (0=transposed,1=no-transposed) form
0            U  in (0=transposed,1=no-transposed) form
1            Equilibration (0=no,1=yes)
8            memory alignment in double (> 0)
##### This line (no. 32) is ignored (it serves as a separator). ######
0                      Number of additional problem sizes for PTRANS
1200 10000 30000       values of N
0                      number of additional blocking sizes for PTRANS
40 9 8 13              values of NB
"""


def program(name: str, package: str) -> str:
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"waits for `apt install {package}`")
    return found


def run(folder: Path, start: list[str], *arguments: str) -> str:
    """Run it in a folder; the loader says there what it loads."""
    done = subprocess.run(
        [*start, *arguments],
        cwd=folder,
        env={**os.environ, "LD_DEBUG": "libs", "LD_DEBUG_OUTPUT": str(folder / "loaded")},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return done.stdout + done.stderr


def ours(ranks: int) -> list[str]:
    return [sys.executable, "-m", "holdfast.cli", "run", "-n", str(ranks)]


def check_that_no_other_mpi_is_loaded(folder: Path, name: str, ranks: int) -> None:
    of_ranks = [
        text
        for path in folder.glob("loaded.*")
        if f"initialize program: {name}" in (text := path.read_text())
    ]
    assert len(of_ranks) == ranks
    for text in of_ranks:
        begun = re.findall(r"calling init: (\S+)", text)
        of_mpi = [path for path in begun if OF_MPIS.search(path)]
        assert of_mpi
        assert all(Path(path).is_relative_to(_mpi.FOLDER) for path in of_mpi), of_mpi


def digits(folder: Path) -> list[str]:
    """Return what hpcc computed; its matrix products begin with the time of day."""
    told = (folder / "hpccoutf.txt").read_text()
    kinds = (
        r"\|\|Ax-b\|\|_oo/\(.*\)= *(\S+ \.+ \w+)",
        r"(\d+ errors in \d+ locations)",
        r"(Node\(s\) with error \d+)",
        r"^(\w*(?:residual|Success|_N)=\S+)",
    )
    return [found for kind in kinds for found in re.findall(kind, told, re.MULTILINE)]


@pytest.mark.parametrize("ranks", [2, 4])
def test_hpcc_passes_its_own_checks(ranks, tmp_path) -> None:
    hpcc = program("hpcc", "hpcc")
    (tmp_path / "hpccinf.txt").write_text(HPCC_INPUT.format(rows=ranks // 2))
    run(tmp_path, ours(ranks), hpcc)
    told = (tmp_path / "hpccoutf.txt").read_text()
    assert "Success=1" in told
    assert re.search(r"1 tests completed and passed residual checks", told)
    assert "FAILED" not in told
    errors = re.findall(r"Found (\d+) errors", told)
    assert errors
    assert set(errors) == {"0"}
    check_that_no_other_mpi_is_loaded(tmp_path, hpcc, ranks)


@pytest.mark.parametrize("ranks", [2, 4])
def test_hpcc_has_the_digits_of_its_own_mpi(ranks, tmp_path) -> None:
    hpcc = program("hpcc", "hpcc")
    launcher = program("mpiexec.openmpi", "openmpi-bin")
    own = [launcher, "--allow-run-as-root", "--oversubscribe", "-n", str(ranks)]
    told = {}
    for name, start in (("ours", ours(ranks)), ("own", own)):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "hpccinf.txt").write_text(HPCC_INPUT.format(rows=ranks // 2))
        run(folder, start, hpcc)
        told[name] = digits(folder)
    assert len(told["ours"]) > 10
    assert told["ours"] == told["own"]


@pytest.mark.parametrize("name", NETPIPES)
def test_netpipe_finds_no_wrong_byte(name, tmp_path) -> None:
    netpipe = program(name, NETPIPES[name])
    told = run(tmp_path, ours(2), netpipe, "-i", "-u", "8192", "-o", "np.out")
    assert "Integrity check passed" in told
    assert "failed" not in told.lower()
    check_that_no_other_mpi_is_loaded(tmp_path, netpipe, 2)
