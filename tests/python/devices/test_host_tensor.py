"""Tables in host memory: gathered by the host here, by a device in a process each."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest
import torch
from cuda_driver import DRIVER
from ranks import importing

import holdfast
from holdfast.comm import HostTensor


def _on_the_device(function: str, driver: str = DRIVER) -> None:
    done = subprocess.run(
        [sys.executable, "-c", f"{importing('host_tensor_ranks')}; host_tensor_ranks.{function}()"],
        env={**os.environ, "HOLDFAST_CUDA_DRIVER": driver},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    "function",
    [
        "gather_on_the_device",
        "gather_beside_the_current_stream",
        "see_the_table_as_it_is",
        "tell_of_numbers_out_of_range",
        "refuse_what_does_not_fit",
        "give_back_what_was_pinned",
    ],
)
def test_on_the_device(function):
    _on_the_device(function)


def test_without_a_driver_the_host_gathers():
    _on_the_device("gather_without_a_driver", "none")


@pytest.mark.parametrize("shape", [(7,), (0,), (2, 3), ()])
@pytest.mark.parametrize("kind", [np.int64, np.int32, np.uint8])
def test_the_host_takes_what_numpy_and_torch_take(shape, kind):
    values = np.arange(120, dtype=np.float32).reshape(20, 3, 2)
    index = np.random.default_rng(1).integers(0, 20, shape).astype(kind)
    np.testing.assert_array_equal(HostTensor(values)[index], values[index])
    tensor = torch.from_numpy(values).to(torch.bfloat16)
    rows = HostTensor(tensor)[torch.from_numpy(np.asarray(index))]
    assert rows.dtype == torch.bfloat16
    torch.testing.assert_close(rows, tensor[index.astype(np.int64)])


def test_rows_go_where_out_says():
    values = np.arange(12.0).reshape(4, 3)
    out = np.zeros((2, 3))
    assert HostTensor(values).gather([-1, 0], out) is out
    np.testing.assert_array_equal(out, values[[-1, 0]])
    place = torch.zeros(2, 3, dtype=torch.float64)
    assert HostTensor(torch.from_numpy(values)).gather([1, 2], place) is place
    torch.testing.assert_close(place, torch.from_numpy(values[[1, 2]]))
    np.testing.assert_array_equal(HostTensor(values).prefetch([3]).wait(), values[[3]])


def test_bad_input_is_named():
    values = np.arange(12.0).reshape(4, 3)
    table = HostTensor(values)
    for index in ([4], [0, -5], [[1], [99]]):
        with pytest.raises(IndexError, match=r"index (4|-5|99) is out of range; .* 4 rows"):
            table[index]
    for index in ([0.5], [True, False, True, False], ["a"]):
        with pytest.raises(holdfast.ConfigError, match="accepted: integers"):
            table[index]
    for out in (np.zeros((2, 2)), np.zeros((2, 3), np.float32), torch.zeros(2, 3)):
        with pytest.raises(holdfast.ConfigError, match=r"accepted: a ndarray of shape \(2, 3\)"):
            table.gather([0, 1], out)
    for empty in (np.zeros((0, 3)), np.zeros((3, 0)), np.array(1.0)):
        with pytest.raises(holdfast.ConfigError, match="at least one row"):
            HostTensor(empty)
    with pytest.raises(holdfast.ConfigError, match="accepted: a NumPy array"):
        HostTensor([[1.0]])


@pytest.mark.skipif(not torch.cuda.is_available(), reason="waits for a CUDA device")
def test_a_real_gpu_reads_the_rows():
    values = torch.randn(10_000, 129)
    table = HostTensor(values)
    index = torch.randint(-10_000, 10_000, (4096,), device="cuda")
    torch.testing.assert_close(table[index].cpu(), values[index.cpu()])
    ahead = table.prefetch(index)
    torch.testing.assert_close(ahead.wait().cpu(), values[index.cpu()])
