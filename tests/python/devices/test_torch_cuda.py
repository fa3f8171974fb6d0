"""torch's CUDA tensors. What needs a GPU says so; the path below is tested by test_gpu_paths.py."""

from __future__ import annotations

import pytest
import torch
from ranks import run_ranks

needs_cuda = pytest.mark.skipif(
    not torch.cuda.is_available(), reason="waits for a CUDA device, and a torch that has CUDA"
)


def test_one_backend_serves_both_devices(tmp_path):
    run_ranks("torch_cuda_ranks", "serve_both_devices_with_one_backend", 2, tmp_path)


@needs_cuda
@pytest.mark.gpu
@pytest.mark.parametrize("size", [2, 4])
def test_collectives_follow_the_current_stream(size, tmp_path):
    run_ranks("torch_cuda_ranks", "reduce_on_the_current_stream", size, tmp_path, fresh=True)


@needs_cuda
@pytest.mark.gpu
def test_what_cannot_be_done_on_a_device_is_said(tmp_path):
    run_ranks("torch_cuda_ranks", "refuse_on_a_device", 2, tmp_path, fresh=True)


@needs_cuda
@pytest.mark.gpu
def test_a_sync_compares_states_on_a_gpu_with_those_of_the_host(tmp_path):
    run_ranks("torch_cuda_ranks", "sync_a_model_where_it_is", 3, tmp_path, fresh=True)


@needs_cuda
@pytest.mark.gpu
@pytest.mark.parametrize("size", [2, 4, 8])
def test_ddp_on_one_shared_gpu_learns_what_it_learns_on_the_cpu(size, tmp_path):
    run_ranks("torch_cuda_ranks", "train_as_on_the_cpu", size, tmp_path, fresh=True)
