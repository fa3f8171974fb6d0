"""PyTorch's parallel stack gives the same numbers on Holdfast as on gloo."""

from __future__ import annotations

import pytest
from ranks import run_ranks

pytest.importorskip("torch", reason="waits for torch: the backend is built against it")


@pytest.mark.parametrize("programs", ["data_parallel", "model_parallel", "around"])
def test_same_numbers_as_gloo(programs, tmp_path):
    run_ranks("stack_ranks", programs, 4, tmp_path, timeout_s=240)


def test_compiled_functional_collectives(tmp_path):
    run_ranks("stack_ranks", "compilation", 2, tmp_path, timeout_s=240)
