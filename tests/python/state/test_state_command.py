"""``holdfast state``, and that what it exports loads where Holdfast is not installed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="waits for torch: a state is its tensors")

import torch.distributed.checkpoint as dcp  # noqa: E402
from torch import nn  # noqa: E402

from holdfast import cli, ft  # noqa: E402
from holdfast.ft.state.files import flush  # noqa: E402
from holdfast.ft.state.files.manifest import Manifest  # noqa: E402
from holdfast.ft.state.files.schemes import place  # noqa: E402
from holdfast.ft.state.layout.capture import Capture  # noqa: E402
from holdfast.ft.state.layout.head import layout_digest  # noqa: E402


class Mine:
    """A class that only these tests have."""


class Loader:
    """Something with a position."""

    def __init__(self, position: int) -> None:
        self.position = position

    def state_dict(self) -> dict[str, Any]:
        return {"position": self.position, "seen": torch.arange(self.position)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.position = state["position"]


def state_of(rank: int) -> dict[str, Any]:
    torch.manual_seed(3)
    net = nn.Sequential(nn.Linear(200, 300), nn.Linear(300, 2, dtype=torch.bfloat16))
    optimizer = torch.optim.AdamW(net.parameters(), lr=0.5)
    for parameter in net.parameters():
        parameter.grad = torch.ones_like(parameter)
    optimizer.step()
    waves = torch.randn(4, 2, dtype=torch.complex64)
    parts = {"waves": waves, "names": ["a", ("b", 2)], "data": Loader(rank + 3)}
    return {"model": net, "optim": optimizer, "rng": ft.rng(), **parts}


def flushed(url: str, step: int, **more: Any) -> None:
    """What two replicas flush."""
    root = place(url)
    heads, files = [], []
    for rank in range(2):
        capture = Capture({**state_of(rank), **more}, rank, 2)
        body = bytearray(capture.body_bytes)
        capture.copy(memoryview(body))
        heads.append(capture.head("run7", step, 1))
        files.append(flush.write_body(root, heads[-1], memoryview(body)))
    flush.commit(root, Manifest("run7", step, 1, 2, layout_digest(heads), tuple(files)))


def call(capsys, *arguments: str) -> tuple[int, str]:
    status = cli.main(["state", *arguments])
    told = capsys.readouterr()
    return status, told.out + told.err


def test_states_are_listed_verified_and_removed(tmp_path, capsys):
    url = f"file://{tmp_path}/run"
    assert call(capsys, "ls", url) == (0, f"{url}: no states\n")
    for step in (500, 1000):
        flushed(url, step)
    place(url).write("step-001500-epoch-1", "rank-00000.safetensors", [b"half"])
    status, told = call(capsys, "ls", url)
    assert status == 0
    lines = told.splitlines()
    assert lines[0].startswith("step-001000-epoch-1: step 1000, job run7, 2 ranks, ")
    assert lines[2].startswith("step-001500-epoch-1: unfinished or damaged")
    rows = json.loads(call(capsys, "ls", url, "--json")[1])
    assert [(row["step"], row["manifest"]) for row in rows] == [
        (1000, True),
        (500, True),
        (1500, False),
    ]
    status, told = call(capsys, "verify", url)
    assert (status, told) == (0, f"{url}/step-001000-epoch-1: whole: 2 files\n")
    path = tmp_path / "run/step-001000-epoch-1/rank-00001.safetensors"
    data = bytearray(path.read_bytes())
    data[-3] ^= 1
    path.write_bytes(data)
    status, told = call(capsys, "verify", url)
    assert status == 1
    assert "rank-00001.safetensors: tile 0 of 1 is damaged" in told
    assert json.loads(call(capsys, "verify", url, "--json")[1])["problems"]
    status, told = call(capsys, "rm", url, "--step", "500")
    assert status == 2
    assert "is the newest state that verifies; accepted: --force" in told
    assert call(capsys, "rm", url, "--step", "1000")[0] == 0
    assert call(capsys, "rm", url, "--step", "500", "--force")[0] == 0
    status, told = call(capsys, "verify", url, "--step", "500")
    assert status == 2
    assert "no state of step 500; accepted: []" in told
    assert call(capsys, "rm", url, "--step", "9")[0] == 2


LOADS = """
import json, sys
sys.modules["holdfast"] = None
import torch
import torch.distributed.checkpoint as dcp
out, has_safetensors = sys.argv[1], sys.argv[2] == "True"

def check(state):
    torch.manual_seed(3)
    net = torch.nn.Sequential(
        torch.nn.Linear(200, 300), torch.nn.Linear(300, 2, dtype=torch.bfloat16)
    )
    optimizer = torch.optim.AdamW(net.parameters(), lr=0.5)
    for parameter in net.parameters():
        parameter.grad = torch.ones_like(parameter)
    optimizer.step()
    for name, tensor in net.state_dict().items():
        assert torch.equal(state["model"][name], tensor), name
    names = [name for name, _ in net.named_parameters()]
    for index, kept in optimizer.state_dict()["state"].items():
        for key, tensor in kept.items():
            assert torch.equal(state["optim"]["state"][names[index]][key], tensor), (index, key)

whole = torch.load(f"{out}/whole.pt", weights_only=False)
check(whole)
assert whole["names"] == ["a", ("b", 2)] and whole["waves"].dtype == torch.complex64
assert whole["optim"]["param_groups"][0]["lr"] == 0.5
assert [whole["ranks"][r]["data"]["position"] for r in "01"] == [3, 4]
assert whole["ranks"]["1"]["data"]["seen"].tolist() == [0, 1, 2, 3]
torch.set_rng_state(whole["ranks"]["0"]["rng"]["torch"])

def emptied(tree):
    if isinstance(tree, torch.Tensor):
        return torch.zeros_like(tree)
    return {k: emptied(v) for k, v in tree.items()} if isinstance(tree, dict) else tree

state = {"model": emptied(whole["model"]), "optim": {"state": emptied(whole["optim"]["state"])}}
dcp.load(state, checkpoint_id=f"{out}/dcp", no_dist=True)
check(state)
if has_safetensors:
    from safetensors.torch import load_file
    model = load_file(f"{out}/model.safetensors")
    assert model.keys() == whole["model"].keys()
    check({"model": model, "optim": whole["optim"]})
    assert load_file(f"{out}/all.safetensors")["waves"].shape == (4, 2, 2)
"""


def test_what_is_exported_loads_where_holdfast_is_not_installed(tmp_path, capsys):
    url = f"file://{tmp_path}/run"
    flushed(url, 500)
    out = tmp_path / "out"
    for to, name, *more in (
        ("torch", "whole.pt"),
        ("dcp", "dcp"),
        ("safetensors", "model.safetensors", "--part", "model"),
        ("safetensors", "all.safetensors"),
    ):
        arguments = ("export", url, "--to", to, "--out", str(out / name), *more)
        status, told = call(capsys, *arguments)
        assert status == 0, told
    try:
        import safetensors  # noqa: F401

        has_safetensors = True
    except ImportError:
        has_safetensors = False
    # Torch imports the backend's module on its own import, where it is installed.
    env = {**os.environ, "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}
    command = [sys.executable, "-c", LOADS, str(out), str(has_safetensors)]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    status, told = call(capsys, "export", url, "--to", "dcp", "--out", str(out / "dcp"))
    assert status == 2
    assert "is there already" in told
    status, told = call(
        capsys, "export", url, "--to", "torch", "--out", str(out / "x"), "--part", "nothing"
    )
    assert status == 2
    assert "nothing below 'nothing'" in told


def test_classes_of_others_are_unpickled_with_trust_alone(tmp_path, capsys):
    url = f"file://{tmp_path}/run"
    flushed(url, 1, config={"mine": Mine()})
    arguments = ("export", url, "--to", "torch", "--out", str(tmp_path / "a.pt"))
    status, told = call(capsys, *arguments)
    assert status == 2
    assert "test_state_command.Mine; accepted: containers, numbers" in told
    assert call(capsys, *arguments, "--trust")[0] == 0
    assert isinstance(torch.load(tmp_path / "a.pt", weights_only=False)["config"]["mine"], Mine)


def test_what_the_writer_of_dcp_has_saved_is_exported_as_well(tmp_path, capsys):
    url = f"file://{tmp_path}/run"
    state = {"a": torch.arange(5), "b": {"c": [torch.ones(2), 3]}, "n": 7}
    dcp.save(state, storage_writer=ft.StateWriter(url, step=4), no_dist=True)
    out = tmp_path / "a.pt"
    assert call(capsys, "export", url, "--to", "torch", "--out", str(out))[0] == 0
    found = torch.load(out)
    assert torch.equal(found["a"], torch.arange(5))
    assert torch.equal(found["b"]["c"][0], torch.ones(2))
    assert (found["b"]["c"][1], found["n"]) == (3, 7)


def test_states_of_snapshots_are_read_by_dcp_load_by_their_dotted_names(tmp_path):
    url = f"file://{tmp_path}/run"
    flushed(url, 2)
    wanted = state_of(0)["model"].state_dict()
    there = {"model": {name: torch.zeros_like(tensor) for name, tensor in wanted.items()}}
    dcp.load(there, storage_reader=ft.StateReader(url), no_dist=True)
    assert all(torch.equal(there["model"][name], tensor) for name, tensor in wanted.items())


@pytest.mark.parametrize("command", ["ls", "verify", "export", "rm"])
def test_every_command_has_help_with_an_example(command, capsys):
    with pytest.raises(SystemExit):
        cli.main(["state", command, "--help"])
    assert f"example: holdfast state {command}" in capsys.readouterr().out
