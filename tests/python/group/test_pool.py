"""Memory of the pool: arrays like any other, which the ranks beside read where they lie."""

from __future__ import annotations

import gc
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from ranks import finish, run_ranks, start_rank

import holdfast


def test_arrays_have_the_shape_and_dtype_that_was_asked_for():
    a = holdfast.empty((3, 5), np.int16)
    a[:] = np.arange(15).reshape(3, 5)
    assert a.shape == (3, 5)
    assert a.flags.c_contiguous
    assert a.flags.writeable
    assert a.ctypes.data % 64 == 0
    assert a.sum() == 105
    assert holdfast.empty(0).size == 0
    assert holdfast.empty(7).dtype == np.float32
    assert holdfast.empty((), np.float64).shape == ()


def test_memory_lives_as_long_as_a_view_of_it_and_comes_back():
    first = holdfast.empty(1 << 20, np.uint8)
    address = first.ctypes.data
    part = first[10:20]
    part[:] = 7
    del first
    gc.collect()
    others = [holdfast.empty(1 << 20, np.uint8) for _ in range(4)]
    for other in others:
        other[:] = 1
    assert (part == 7).all()
    del part, other, others
    gc.collect()
    assert holdfast.empty(1 << 20, np.uint8).ctypes.data == address


@pytest.mark.parametrize(
    ("shape", "dtype", "named"),
    [
        (-1, np.float32, "-1"),
        ((2, 1.5), np.float32, "1.5"),
        (3, "what", "what"),
        (3, object, "object"),
    ],
)
def test_what_cannot_be_made_is_refused(shape, dtype, named):
    with pytest.raises(holdfast.ConfigError, match=named):
        holdfast.empty(shape, dtype)


def test_more_than_there_is_raises_memory_error():
    with pytest.raises(MemoryError):
        holdfast.empty(1 << 60, np.uint8)


@pytest.mark.parametrize("size", [2, 4])
def test_every_collective_gives_the_bits_that_ordinary_arrays_give(size, tmp_path):
    for outcome in run_ranks("pool_ranks", "same_bits", size, tmp_path, timeout_s=100):
        assert outcome.status == 0, outcome.output


def test_survivors_agree_when_a_rank_dies_that_lent_its_memory(tmp_path):
    processes = [start_rank("pool_ranks", "lose_one", r, 4, tmp_path, {}) for r in range(4)]
    outcomes = finish(processes, 100)
    assert outcomes[2].status == -9
    for rank in (0, 1, 3):
        assert outcomes[rank].status == 0, outcomes[rank].output
    assert len({outcomes[rank].output for rank in (0, 1, 3)}) == 1


def test_torch_process_groups_allocate_from_the_pool(tmp_path):
    pytest.importorskip("torch", reason="waits for torch")
    for outcome in run_ranks("pool_ranks", "torch_tensors", 2, tmp_path, timeout_s=100):
        assert outcome.status == 0, outcome.output


def test_a_process_that_ends_leaves_no_segment():
    code = "import holdfast; holdfast.empty(1 << 20); import os; print(os.getpid())"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    pid = done.stdout.strip()
    assert not [path for path in Path("/dev/shm").iterdir() if f".{pid}." in path.name]


def test_a_forked_child_leaves_the_parents_memory_alone(tmp_path):
    code = (
        "import os, holdfast, numpy as np\n"
        "a = holdfast.empty(1 << 20, np.uint8); a[:] = 3\n"
        "before = {n for n in os.listdir('/dev/shm') if f'.{os.getpid()}.' in n}\n"
        "child = os.fork()\n"
        "if child == 0:\n"
        "    b = holdfast.empty(100); b[:] = 1\n"
        "    del a, b\n"
        "    raise SystemExit(0)\n"
        "assert os.waitpid(child, 0)[1] == 0\n"
        "assert before <= set(os.listdir('/dev/shm')), before\n"
        "assert (a == 3).all()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        cwd=Path(tmp_path),
    )
    assert done.returncode == 0, done.stderr
