"""Every example runs, on few ranks and small sizes, and says its line; the index has all of them.

The examples check their results themselves. Here their ranks are forks (`programs.py`); a kill
under `holdfast run --respawn` is tested as a user starts it, once.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import runpy
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from programs import run_program

from holdfast import cli

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"
# Where each file of examples/ is run, below tests/python/.
HERE = "examples/test_examples.py"
RUN_BY = {
    **dict.fromkeys(
        (
            *("arrays.py", "char_gpt.py", "comm_hook.py", "ddp.py"),
            *("decentralised_experts.py", "elastic.py"),
            *("expert_all_to_all.py", "fsdp2_kill.py", "host_table.py", "pipeline.py"),
            *("overlapped_tp.py", "priorities.py", "ring_attention.py", "snapshots.py"),
            *("three_levels.py", "wan_char_gpt.py"),
        ),
        HERE,
    ),
    "mpi_heat.py": "mpi/test_mpi_programs.py",
    **dict.fromkeys(("c/all_reduce.c", "c/survive.c"), "c/test_c_abi.py"),
    **dict.fromkeys(
        ("launchers/job.yaml", "launchers/ray_train.py", "launchers/train.py"),
        "cli/test_launchers.py",
    ),
    "launchers/train.sbatch": "cli/test_launchers.py",
    **dict.fromkeys(
        ("monitoring/compose.yaml", "monitoring/datasource.yml", "monitoring/provider.yml"),
        "examples/test_monitoring.py",
    ),
    "monitoring/prometheus.yml": "health/health_jobs.py",
}
NO_DIGITS = "waits for scikit-learn: the example draws its digits"
PROGRAMS = [name for name, test in RUN_BY.items() if test == HERE]


def run_example(
    name: str, size: int, here: Path, *arguments: str, respawn: bool = False, killed: int = 0
) -> str:
    return run_program(EXAMPLES / name, size, here, *arguments, respawn=respawn, killed=killed)


def as_users_start_it(here: Path, *arguments: str) -> tuple[int, str]:
    """Run Python; its status and output. What it has started ends with it."""
    process = subprocess.Popen(
        [sys.executable, *arguments],
        cwd=here,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        said, _ = process.communicate(timeout=240)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    return process.returncode, said


@pytest.fixture
def torch() -> object:
    return pytest.importorskip("torch", reason="waits for torch: the example needs it")


def test_every_file_is_run_by_a_test() -> None:
    files = {path.relative_to(EXAMPLES).as_posix() for path in EXAMPLES.rglob("*.*")}
    kept = {name for name in files if not re.search(r"README\.md|__pycache__|/\.\w+$", name)}
    # What `holdfast health` has written for the compose file.
    assert kept - {"monitoring/alerts.yml", "monitoring/dashboard.json"} == set(RUN_BY)
    tests = Path(__file__).parents[1]
    for name, test in RUN_BY.items():
        assert f'"{Path(name).name}"' in (tests / test).read_text(), f"{test} has no {name}"


def test_the_index_has_every_example() -> None:
    listed = re.findall(r"(?m)^\| \[[^]]+\]\(([^)]+)\)", (EXAMPLES / "README.md").read_text())
    folders = {"launchers/", "monitoring/"}
    single = {name for name in RUN_BY if not name.startswith(tuple(folders))}
    assert sorted(listed) == sorted(single | folders)


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_says_what_it_is_and_how_it_is_started(name: str, torch, tmp_path) -> None:
    if name == "decentralised_experts.py":
        pytest.importorskip("sklearn", reason=NO_DIGITS)
    said = (EXAMPLES / name).read_text().split('"""')[1]
    assert f"examples/{name}" in said, "the docstring has no command"
    for command in re.findall(r"\bholdfast ((?:run|coordinator) [^(\n]*)", said):
        cli._parser().parse_args(command.split())
    shown = run_example(name, 1, tmp_path, "--help")
    assert "usage:" in shown
    assert said.split("\n")[0][:40] in re.sub(r"\s+", " ", shown)


def test_arrays(tmp_path) -> None:
    said = run_example("arrays.py", 3, tmp_path)
    assert "3 ranks over shm: the sum is 6, the ranks are [0, 1, 2], their mean is 1.0" in said


def test_ddp_is_the_same_program_on_gloo(torch, tmp_path) -> None:
    loss = {
        backend: re.search(
            r"30 steps with 2 to 2 ranks.*same weights on all, loss ([\d.]+)",
            run_example("ddp.py", 2, tmp_path, "--steps", "30", "--backend", backend),
        )
        for backend in ("holdfast", "gloo")
    }
    assert loss["holdfast"] is not None
    assert loss["gloo"] is not None
    assert float(loss["holdfast"][1]) == pytest.approx(float(loss["gloo"][1]), rel=1e-3)


def test_ddp_with_a_kill_as_users_start_it(torch, tmp_path) -> None:
    run = ("-m", "holdfast.cli", "run", "-n", "2", "--respawn")
    program = (str(EXAMPLES / "ddp.py"), "--kill", "1", "--steps", "60")
    status, said = as_users_start_it(tmp_path, *run, *program)
    assert status == 0, said
    assert "rank 1 was ended by SIGKILL" in said
    assert "steps with 1 to 2 ranks, none of them twice" in said


@pytest.mark.parametrize("how", ["respawned", "shrunk"])
def test_fsdp2_with_a_kill(how, torch, tmp_path) -> None:
    options = ("--kill", "1", "--steps", "20", *(("--shrink",) if how == "shrunk" else ()))
    respawn = how == "respawned"
    said = run_example("fsdp2_kill.py", 3, tmp_path, *options, respawn=respawn, killed=1)
    there = "3 of 3" if respawn else "2 of 3"
    for survivor in (0, 2):
        line = f"rank {survivor}: PeerLost in step 11 (rank 1); {there} ranks ended"
        assert line in said, said
    assert not list(tmp_path.glob("checkpoints/*"))


def test_snapshots_through_the_loss_of_a_host(torch, tmp_path) -> None:
    options = ("--kill", "1", "--with-keeper")
    said = run_example("snapshots.py", 3, tmp_path, *options, respawn=True, killed=1)
    assert "goes on after step" in said, said
    assert re.search(r"[78] steps since the kill, 12 in all; the same losses, bit by bit", said), (
        said
    )


def test_comm_hook(torch, tmp_path) -> None:
    said = run_example("comm_hook.py", 2, tmp_path, "--steps", "80")
    assert re.search(r"sums of 80 int8 means are off by [\d.]+, the bound is [\d.]+", said), said


def test_priorities(tmp_path) -> None:
    said = run_example("priorities.py", 2, tmp_path, "--rounds", "3")
    assert re.search(r"ms with priority 5, [\d.]+ ms without", said), said
    assert re.search(r"it passed [1-9]\d* of the large ones", said), said


@pytest.mark.parametrize("kind", [[], ["--causal"]], ids=["whole", "causal"])
def test_ring_attention(kind, torch, tmp_path) -> None:
    said = run_example("ring_attention.py", 3, tmp_path, "--length", "40", *kind)
    causal = "causal " if kind else ""
    assert f"{causal}attention over 120 positions on 3 ranks" in said


def test_pipeline(torch, tmp_path) -> None:
    said = run_example("pipeline.py", 3, tmp_path, "--steps", "5")
    assert "5 steps in 3 stages: loss" in said


@pytest.mark.parametrize("levels", [1, 2, 3])
def test_three_levels(levels: int, torch, tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("HOLDFAST_TRANSPORTS", "tcp")
    codec = () if levels < 3 else ("--codec", "int8")
    options = ("--levels", str(levels), "--steps", "3", *codec)
    said = run_example("three_levels.py", 8, tmp_path, *options)
    assert ("8 rank", "2 site x 4 host_rank", "2 site x 2 host x 2 rank")[levels - 1] in said
    assert re.search(r"loss \d\.\d+, a single process has \d\.\d+", said)
    if levels == 1:
        return
    sent, told = map(float, re.findall(r"([\d.]+) (?:MB|without)", said))
    assert sent == pytest.approx(told if levels == 2 else told / 4, rel=0.05)


def test_expert_all_to_all(torch, tmp_path) -> None:
    said = run_example("expert_all_to_all.py", 3, tmp_path, "--tokens", "50")
    assert "150 tokens" in said
    assert "output and gradients are the dense ones to" in said


@pytest.mark.parametrize("where", ["the host", "device 0, emulated"])
def test_host_table(where, tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("HOLDFAST_CUDA_DRIVER", "emulated" if "emulated" in where else "none")
    said = run_example("host_table.py", 2, tmp_path, "--rows", "5000")
    assert f"2048 rows of a table of 1 MiB, gathered by {where}: the sum over 2 ranks" in said


def test_elastic(tmp_path) -> None:
    status, said = as_users_start_it(tmp_path, str(EXAMPLES / "elastic.py"))
    assert status == 0, said
    assert said.count("as a single process would be") == 3
    assert "a peer joined, one left, and nobody lost a step" in said


def test_char_gpt_learns_and_gives_the_losses_of_gloo(torch, tmp_path) -> None:
    pytest.importorskip("matplotlib", reason="waits for matplotlib: the example draws with it")
    found = {}
    for backend in ("holdfast", "gloo"):
        losses = tmp_path / f"{backend}.json"
        picture = tmp_path / f"{backend}.png"
        said = run_example(
            "char_gpt.py",
            2,
            tmp_path,
            *("--backend", backend, "--steps", "12", "--losses", str(losses)),
            *("--out", str(picture)),
        )
        assert "validation loss:" in said
        assert picture.read_bytes().startswith(b"\x89PNG")
        found[backend] = json.loads(losses.read_text())
    assert found["holdfast"]["losses"] == pytest.approx(found["gloo"]["losses"], rel=1e-4)
    assert found["holdfast"]["validation"] == pytest.approx(found["gloo"]["validation"], rel=1e-4)
    assert found["holdfast"]["losses"][-1] < 0.8 * found["holdfast"]["losses"][0]


@pytest.mark.parametrize("killed", [False, True], ids=["all", "without one"])
def test_decentralised_experts(killed: bool, torch, tmp_path) -> None:
    pytest.importorskip("sklearn", reason=NO_DIGITS)
    pytest.importorskip("prometheus_client", reason="waits for it: the example reads metrics")
    name, picture = "decentralised_experts.py", tmp_path / "experts.png"
    small = ("--islands", "3", "--samples", "300", "--steps", "100" if killed else "300")
    lost = ("--kill", "1", "--patience", "8") if killed else ("--picture", str(picture))
    said = run_example(name, 1, tmp_path, *small, *lost)
    # Digits, bytes to meet, bytes while training, sockets then, bytes to gather.
    alone = re.findall(r"(?m)^ +(\d)( +[\d,]+){2} +0 +0( +[\d,]+)$", said)
    assert [number for number, *_ in alone] == (["0", "2"] if killed else ["0", "1", "2"]), said
    assert ("1  is lost, and left out" in said) == killed
    assert f"digits were drawn by {3 - killed} of 3 islands" in said
    if not killed:
        ratios = dict(re.findall(r"(?m)^(all|top-1, drawn) .* ([\d.]+)$", said))
        assert {"all", "top-1, drawn"} == {name for name, of in ratios.items() if float(of) <= 1.1}
        assert picture.read_bytes().startswith(b"\x89PNG")


def test_overlapped_tp_is_one_model_on_one_rank_and_on_two(torch, tmp_path) -> None:
    pytest.importorskip("matplotlib", reason="waits for matplotlib: the example draws with it")
    picture, losses = tmp_path / "ladder.png", {}
    for ranks in (1, 2):
        options = ("--steps", "20", "--link-ms", "1", "--picture", str(picture))
        said = run_example("overlapped_tp.py", ranks, tmp_path, *options)
        rows = re.findall(r"(?m)^(plain|ladder) +[\d.]+ +[\d.]+ +([\d.]+)$", said)
        losses[ranks] = {name: float(loss) for name, loss in rows}
    assert losses[1] == pytest.approx(losses[2], rel=1e-3)
    assert losses[1]["plain"] != losses[1]["ladder"]
    assert max(losses[1].values()) < 4  # from 4.85, that of equal chances
    assert picture.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("ladder", [False, True], ids=["plain", "ladder"])
def test_overlapped_tp_waits_beside_the_next_block(ladder: bool, torch) -> None:
    example = runpy.run_path(str(EXAMPLES / "overlapped_tp.py"))
    torch.manual_seed(0)
    cut = example["Cut"](0, 1)
    blocks = torch.nn.ModuleList(example[kind](cut) for kind in ("Attention", "Network")).double()
    order: list[str] = []
    for block in blocks:
        block.register_forward_hook(lambda *_: order.append("block"))

    class Near:
        def begin(self, part: object) -> object:
            return lambda: [order.append("wait"), part][1]

    x = torch.randn(2, 8, example["WIDTH"], dtype=torch.float64, requires_grad=True)
    out = example["Trunk"].apply(x, blocks, Near(), ladder)
    assert order == ["block", *(("block", "wait") if ladder else ("wait", "block")), "wait"]
    out.pow(3).sum().backward()
    found = [x.grad, *(each.grad for each in blocks.parameters())]
    whole = example["climb"](x, blocks, Near().begin, ladder).pow(3).sum()
    wanted = torch.autograd.grad(whole, [x, *blocks.parameters()])
    assert all(torch.allclose(a, b, rtol=1e-9) for a, b in zip(found, wanted, strict=True))


def test_wan_char_gpt(torch, tmp_path) -> None:
    pytest.importorskip("matplotlib", reason="waits for matplotlib: the example draws with it")
    pytest.importorskip("prometheus_client", reason="waits for it: the example reads metrics")
    picture = tmp_path / "wan.png"
    options = ("--windows", "2000", "--late", "0.5", "--picture", str(picture))
    said = run_example("wan_char_gpt.py", 1, tmp_path, *options)
    events = re.findall(r"(?m)^step \d+: (site \d .*); that cost .* s, and no step$", said)
    came = ["site 1 is killed", "site 1 comes back", "site 2 stands still for 0.5 s"]
    assert sorted(events) == sorted([*came, "site 3 is new"]), said
    fewer = re.search(r"DDP sends [\d,]+, (\d+) times as many", said)
    # 7.5 by the codec and 20 by the rounds; heartbeats weigh more the slower the steps are.
    assert fewer is not None, said
    assert int(fewer[1]) > 50, said
    ended = re.search(r"all 4 sites have one model: loss ([\d.]+) after", said)
    assert ended is not None, said
    assert float(ended[1]) < 3.2
    assert picture.read_bytes().startswith(b"\x89PNG")
