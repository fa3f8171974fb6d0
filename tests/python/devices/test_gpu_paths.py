"""Collectives on arrays in a GPU's memory, in real processes, as a rule over the
emulated device (cuda_driver.py).
"""

from __future__ import annotations

import json

import pytest
from cuda_driver import CHOSEN
from ranks import finish, run_ranks, segments_of, start_rank

import holdfast
from holdfast import _core
from holdfast.cli import main

DEVICE = {**CHOSEN, "HOLDFAST_CUDA_SLICE_BYTES": "65536"}


def run(function, size, meeting, **more):
    return run_ranks("gpu_ranks", function, size, meeting, env={**DEVICE, **more}, timeout_s=150)


@pytest.mark.parametrize(("size", "transports"), [(2, "shm,tcp"), (3, "tcp")])
def test_every_collective_and_dtype_has_the_bits_of_the_host(size, transports, tmp_path):
    run("same_bits_as_on_the_host", size, tmp_path, HOLDFAST_TRANSPORTS=transports)


def test_arrays_with_gaps_have_the_bits_of_the_host_and_keep_what_is_between(tmp_path):
    run("same_bits_with_gaps", 2, tmp_path)


def test_any_shape_is_packed_and_streams_wait_for_its_result(tmp_path):
    # What ops from device to device keep for the next would be in its way.
    run("pack_any_shape_and_wait_on_streams", 2, tmp_path, HOLDFAST_CUDA_IPC="off")


def test_blocks_may_be_arrays_of_their_own_and_differ(tmp_path):
    run("keep_inputs_and_use_blocks_of_many_arrays", 3, tmp_path)


def test_streams_wait_for_ops_and_hosts_need_not(tmp_path):
    run("go_on_while_ops_run", 2, tmp_path)


def test_codecs_and_residuals_work_on_device_memory(tmp_path):
    run("code_with_error_feedback", 2, tmp_path)


def test_what_cannot_be_done_is_said_and_leaks_nothing(tmp_path):
    outcomes = run("refuse_what_cannot_be", 2, tmp_path)
    assert segments_of(outcomes) == set()


def test_host_memory_here_and_a_gpus_there_is_an_error_on_every_rank(tmp_path):
    run("disagree_about_the_device", 3, tmp_path)


def test_without_a_driver_a_gpus_array_gets_the_reason(tmp_path):
    run("use_no_driver", 2, tmp_path, HOLDFAST_CUDA_DRIVER="none")


def test_slices_that_ranks_cut_differently_are_refused_when_they_meet(tmp_path):
    processes = [
        start_rank(
            "gpu_ranks", "use_no_driver", r, 2, tmp_path, {"HOLDFAST_CUDA_SLICE_BYTES": str(n)}
        )
        for r, n in enumerate((65536, 131072))
    ]
    outcomes = finish(processes, 60)
    assert all(o.status != 0 for o in outcomes)
    assert any("cuda_slice_bytes: 131072" in o.output for o in outcomes), outcomes


@pytest.mark.parametrize("dies_after", ["0", "0.002", "0.006", "0.02"])
def test_survivors_agree_when_a_rank_dies_with_device_memory_under_way(dies_after, tmp_path):
    env = {**DEVICE, "DIES_AFTER": dies_after}
    processes = [start_rank("gpu_ranks", "lose_one", r, 4, tmp_path, env) for r in range(4)]
    outcomes = finish(processes, 100)
    assert outcomes[2].status == -9
    for rank in (0, 1, 3):
        assert outcomes[rank].status == 0, outcomes[rank].output
    assert len({outcomes[rank].output.split()[-1] for rank in (0, 1, 3)}) == 1


@pytest.mark.parametrize("collective", ["all_gather", "all_to_all", "reduce_scatter"])
@pytest.mark.parametrize("dies_after", ["0", "0.01"])
def test_survivors_agree_when_a_rank_dies_with_slices_under_way(collective, dies_after, tmp_path):
    env = {
        **DEVICE,
        "DIES_AFTER": dies_after,
        "COLLECTIVE": collective,
        "HOLDFAST_CUDA_IPC": "off",
    }
    processes = [
        start_rank("gpu_ranks", "lose_one_in_slices", r, 4, tmp_path, env) for r in range(4)
    ]
    outcomes = finish(processes, 100)
    assert outcomes[2].status == -9
    for rank in (0, 1, 3):
        assert outcomes[rank].status == 0, outcomes[rank].output
    assert len({outcomes[rank].output.splitlines()[-1] for rank in (0, 1, 3)}) == 1


@pytest.mark.parametrize(
    ("option", "value"), [("cuda_driver", "mine"), ("cuda_slice_bytes", 12), ("cuda_driver", 3)]
)
def test_bad_options_name_what_is_accepted(option, value):
    with pytest.raises(holdfast.ConfigError, match=f"{option}.*accepted"):
        holdfast.Options(**{option: value})


def test_info_names_the_devices_or_what_is_missing(monkeypatch, capsys):
    assert _core.cuda_devices("emulated") == (12000, ["emulated device"])
    with pytest.raises(holdfast.Unsupported, match="cuda_driver"):
        _core.cuda_devices("none")
    monkeypatch.setenv("HOLDFAST_CUDA_DRIVER", "emulated")
    assert main(["info", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)["parts"]["CUDA"]
    assert told == {
        "on": True,
        "driver": "12.0",
        "devices": ["emulated device"],
        "device_to_device": "from 1048576 bytes",
        "codecs_on_device": "from 1048576 bytes",
    }
    assert main(["info"]) == 0
    text = capsys.readouterr().out
    assert "(driver 12.0: emulated device; device to device from 1048576 bytes; " in text
    assert "codecs on the device from 1048576 bytes)" in text
    built = "on" if _core.kernel_images() else "off: this build was made without nvcc"
    assert f"  GPU kernels      {built}\n" in text
    monkeypatch.setenv("HOLDFAST_CUDA_DRIVER", "none")
    assert main(["info"]) == 0
    assert "off: no CUDA driver: option cuda_driver" in capsys.readouterr().out
