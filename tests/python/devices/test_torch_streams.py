"""Futures of works on CUDA tensors, over the emulated device: torch's part is fake_cuda.cpp."""

from __future__ import annotations

import sysconfig
from pathlib import Path

import pytest
import torch
from compilers import compiler, needs_cpp
from ranks import run_ranks

pytestmark = [
    needs_cpp,
    pytest.mark.skipif(
        torch.backends.cuda.is_built(), reason="torch has a CUDA of its own; test_torch_cuda.py"
    ),
]

_SOURCE = Path(__file__).parent / "fake_cuda.cpp"


@pytest.fixture(scope="module")
def fake(tmp_path_factory):
    """The library that stands in for torch's CUDA."""
    library = tmp_path_factory.mktemp("fake") / "fake_cuda.so"
    there = Path(torch.__file__).parent
    includes = [there / "include", there / "include/torch/csrc/api/include"]
    includes.append(Path(sysconfig.get_path("include")))
    compiler(
        *("c++", "-std=c++20", "-O0", "-w", "-shared", "-fPIC"),
        *(f"-I{folder}" for folder in includes),
        *(str(_SOURCE), "-o", str(library)),
        *(f"-L{there / 'lib'}", "-ltorch_cpu", "-lc10", "-ltorch_python"),
        seconds=400,
    )
    return library


def run(function: str, fake: Path, meeting: Path, **env: str) -> None:
    whole = {
        "HOLDFAST_CUDA_DRIVER": "emulated",
        "HOLDFAST_CUDA_SLICE_BYTES": "65536",
        "HOLDFAST_CUDA_IPC_MIN_BYTES": "100000",
        "FAKE_CUDA": str(fake),
        **env,
    }
    run_ranks("torch_stream_ranks", function, 2, meeting, env=whole)


@pytest.mark.parametrize("ipc", ["auto", "off"])
def test_futures_complete_when_the_op_has_ended(ipc, fake, tmp_path):
    run("futures_complete_when_the_op_has_ended", fake, tmp_path, HOLDFAST_CUDA_IPC=ipc)


@pytest.mark.parametrize("ipc", ["auto", "off"])
def test_the_host_waits_until_the_result_is_on_its_way(ipc, fake, tmp_path):
    run("the_host_waits_until_the_result_is_on_its_way", fake, tmp_path, HOLDFAST_CUDA_IPC=ipc)


def test_the_host_waits_for_a_gather_where_a_hole_is_an_error(fake, tmp_path):
    run("a_gather_that_may_have_a_hole_is_waited_for", fake, tmp_path)


def test_a_failed_op_is_told_of_by_wait_and_by_later_ops(fake, tmp_path):
    run("a_failure_is_told_by_wait", fake, tmp_path)
