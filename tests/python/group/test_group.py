"""Groups of real processes: every collective, dtype and shape, waiting, errors."""

from __future__ import annotations

import importlib.util

import pytest
from ranks import END_WHOLE, run_ranks
from ucx_library import UCX

SIZES = (1, 2, 3, 4)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("transports", ["shm,tcp", "tcp", UCX])
def test_every_collective(transports, size, tmp_path):
    run_ranks(
        "array_ranks", "every_collective", size, tmp_path, env={"HOLDFAST_TRANSPORTS": transports}
    )


@pytest.mark.parametrize("algorithm", ["ring", "flat", "binomial_tree"])
def test_every_collective_by_a_named_algorithm(algorithm, tmp_path):
    run_ranks("array_ranks", "every_collective", 3, tmp_path, env={"HOLDFAST_ALGORITHM": algorithm})


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize(
    "program",
    [
        "uneven_all_to_all",
        "every_dtype",
        "every_shape",
        "many_in_flight",
        "awaited",
        "bad_arguments",
    ],
)
def test_program(program, size, tmp_path):
    run_ranks("array_ranks", program, size, tmp_path)


@pytest.mark.parametrize("transports", ["shm,tcp", "tcp"])
def test_an_urgent_op_ends_before_bulk_ones_that_were_called_first(transports, tmp_path):
    run_ranks(
        "array_ranks", "urgent_beside_bulk", 2, tmp_path, env={"HOLDFAST_TRANSPORTS": transports}
    )


@pytest.mark.parametrize("size", SIZES[1:])
@pytest.mark.parametrize("program", ["messages", "two_groups_at_once", "closed_group"])
def test_program_of_several_ranks(program, size, tmp_path):
    run_ranks("array_ranks", program, size, tmp_path)


@pytest.mark.parametrize(
    "program",
    [
        "waits_with_limits",
        "mismatched_sizes",
        "mismatched_calls",
        "one_rank_is_late",
        "aborted_group",
        "an_exception_inside_reaches_the_others",
        "interrupted",
    ],
)
@pytest.mark.parametrize("transports", ["shm,tcp", "tcp", UCX])
def test_program_of_two_ranks(transports, program, tmp_path):
    env = {"HOLDFAST_TRANSPORTS": transports}
    run_ranks("array_ranks", program, 2, tmp_path, env=env, timeout_s=60)


@pytest.mark.parametrize("size", SIZES)
def test_torch_tensors(size, tmp_path):
    pytest.importorskip("torch", reason="waits for torch, whose tensors it sends")
    run_ranks("array_ranks", "torch_tensors", size, tmp_path, env=END_WHOLE)


def test_arrays_of_ml_dtypes(tmp_path):
    if importlib.util.find_spec("ml_dtypes") is None:
        pytest.skip("waits for ml_dtypes (pip install ml_dtypes)")
    run_ranks("array_ranks", "ml_dtypes_arrays", 2, tmp_path)
