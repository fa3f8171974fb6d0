"""torch's dcp.save, dcp.async_save and dcp.load over our files."""

from __future__ import annotations

import json

import pytest

torch = pytest.importorskip("torch", reason="waits for torch: dcp is torch's")

import torch.distributed.checkpoint as dcp  # noqa: E402
from ranks import run_ranks  # noqa: E402

from holdfast import ft  # noqa: E402
from holdfast.errors import ConfigError  # noqa: E402
from holdfast.ft.state.files import flush  # noqa: E402
from holdfast.ft.state.files.schemes import place  # noqa: E402


def found_by(function: str, size: int, here, **env: str) -> list[dict]:
    (here / "torch").unlink(missing_ok=True)
    outcomes = run_ranks("image_ranks", function, size, here, env=env)
    lines = [line for one in outcomes for line in one.output.splitlines()]
    return [json.loads(line[len("FOUND ") :]) for line in lines if line.startswith("FOUND ")]


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["gloo", "holdfast"])
def test_four_ranks_save_and_any_number_loads_the_same_bits(backend, tmp_path):
    env = {"URL": f"file://{tmp_path}/run", "BACKEND": backend}
    kinds = [1, 2]
    saved = found_by("dcp_save", 4, tmp_path, LAYOUT="fsdp", **env)
    assert len(saved) == 4
    assert flush.newest(place(env["URL"]), "run7").manifest.step == kinds[-1]
    first = True
    for layout, size in [("fsdp", 1), ("fsdp", 2), ("fsdp", 3), ("fsdp", 5), ("hsdp", 4)]:
        steps = kinds if first else kinds[:1]
        first = False
        loaded = found_by("dcp_load", size, tmp_path, LAYOUT=layout, FROM=json.dumps(steps), **env)
        assert len(loaded) == size * len(steps)
        for one in loaded:
            theirs = {k: v for k, v in one["sums"].items() if k != "lr"}
            assert theirs == {k: v for k, v in saved[0]["sums"].items() if k != "lr"}


@pytest.mark.parametrize("scheme", ["file", "memory"])
def test_one_process_saves_and_loads_and_old_states_go(scheme, tmp_path):
    if scheme == "memory":
        pytest.importorskip("fsspec", reason="storage that is no folder is fsspec's")
    url = f"{scheme}://{tmp_path}/run"
    for step in (1, 2, 3):
        state = {"a": torch.arange(7) * step, "b": {"c": torch.ones(2, 3).t() * step, "n": step}}
        dcp.save(state, storage_writer=ft.StateWriter(url, step=step, keep=2), no_dist=True)
    for step, reader in ((3, ft.StateReader(url)), (2, ft.StateReader(url, step=2))):
        there = {"a": torch.zeros(7, dtype=torch.int64), "b": {"c": torch.zeros(3, 2), "n": 0}}
        dcp.load(there, storage_reader=reader, no_dist=True)
        assert torch.equal(there["a"], torch.arange(7) * step)
        assert torch.equal(there["b"]["c"], torch.ones(3, 2) * step)
        assert there["b"]["n"] == step
    with pytest.raises(
        dcp.api.CheckpointException, match=r"no state of step 1; accepted: \[3, 2\]"
    ):
        dcp.load(there, storage_reader=ft.StateReader(url, step=1), no_dist=True)


def test_a_damaged_tile_is_named_by_the_load(tmp_path):
    url = f"file://{tmp_path}/run"
    dcp.save({"a": torch.ones(1 << 20)}, storage_writer=ft.StateWriter(url), no_dist=True)
    (path,) = (tmp_path / "run").glob("*/rank-00000.safetensors")
    data = bytearray(path.read_bytes())
    data[-5] ^= 4
    path.write_bytes(data)
    with pytest.raises(dcp.api.CheckpointException, match=r"tile 3 of 4 is damaged"):
        dcp.load({"a": torch.zeros(1 << 20)}, storage_reader=ft.StateReader(url), no_dist=True)


def test_a_scheme_that_is_unknown_is_refused_before_anything_is_saved():
    with pytest.raises(ConfigError, match="nope:// is unknown"):
        ft.StateWriter("nope://x")
    with pytest.raises(ConfigError, match="nope:// is unknown"):
        ft.StateReader("nope://x")
    assert not ft.StateReader.validate_checkpoint_id("nope://x")
