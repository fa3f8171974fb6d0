"""The users' own launchers start ranks on our backend, as far as one machine can show."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import nursery
import pytest
from ports import held_port
from ranks import Process

pytest.importorskip("torch", reason="waits for torch: the backend is built against it")

EXAMPLES = Path(__file__).parents[3] / "examples" / "launchers"
TRAIN = str(EXAMPLES / "train.py")
TORCHRUN = [sys.executable, "-m", "torch.distributed.run"]
LAUNCHER = re.compile("RANK|WORLD_SIZE|MASTER_|SLURM_|JOB_COMPLETION|GROUP_|TORCHELASTIC")


def beside(env: Mapping[str, str]) -> dict[str, str]:
    """The environment of a rank whose launcher sets these variables, and no other one does."""
    clean = {k: v for k, v in os.environ.items() if not LAUNCHER.search(k)}
    return {**clean, "OMP_NUM_THREADS": "1", **env}


def start(
    command: list[str], path: Path, env: Mapping[str, str] | None = None
) -> subprocess.Popen[str]:
    return subprocess.Popen(
        command,
        cwd=path,
        env=beside(env or {}),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def train(path: Path, env: Mapping[str, str]) -> nursery.Child:
    """`python train.py` in a process that has imported torch: its variables are what is tested."""
    own = {"PROGRAM": TRAIN, "ARGUMENTS": "[]", "FOLDER": str(path)}
    return nursery.fork("programs", "be_the_program", beside({**env, **own}), path)


def finished(processes: Sequence[Process], timeout_s: float = 120) -> str:
    text = ""
    try:
        for process in processes:
            output, _ = process.communicate(timeout=timeout_s)
            assert process.returncode == 0, output
            text += output
    finally:
        for process in processes:
            process.kill()
    return text


def expect_ranks(text: str, size: int) -> None:
    assert sorted(re.findall(r"rank (\d) of (\d)", text)) == [
        (str(rank), str(size)) for rank in range(size)
    ]


def test_torchrun_on_one_node(tmp_path):
    command = [*TORCHRUN, "--standalone", "--nproc-per-node", "2", TRAIN]
    expect_ranks(finished([start(command, tmp_path)]), 2)


def test_torchrun_on_two_nodes(tmp_path):
    meeting = [
        *("--nnodes", "2", "--nproc-per-node", "1", "--rdzv-backend", "c10d"),
        *("--rdzv-endpoint", f"127.0.0.1:{held_port()}", "--rdzv-id", "two nodes"),
    ]
    agents = [start([*TORCHRUN, *meeting, TRAIN], tmp_path) for _ in range(2)]
    expect_ranks(finished(agents), 2)


def test_holdfast_run(tmp_path):
    command = [sys.executable, "-m", "holdfast.cli", "run", "-n", "2", TRAIN]
    expect_ranks(finished([start(command, tmp_path)]), 2)


def test_the_variables_of_slurm(tmp_path):
    common = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(held_port()), "SLURM_NTASKS": "2"}
    ranks = [
        train(tmp_path, {**common, "SLURM_PROCID": str(rank), "SLURM_LOCALID": str(rank)})
        for rank in range(2)
    ]
    expect_ranks(finished(ranks), 2)


def test_the_batch_script_is_sound():
    script = EXAMPLES / "train.sbatch"
    subprocess.run(["bash", "-n", str(script)], timeout=20, check=True)
    text = script.read_text()
    for part in ("--ntasks-per-node=", "export MASTER_ADDR", "export MASTER_PORT=", "srun python"):
        assert part in text


def test_a_real_srun(tmp_path):
    if (
        shutil.which("srun") is None
        or subprocess.run(
            ["sinfo", "--noheader"], capture_output=True, timeout=20, check=False
        ).returncode
    ):
        pytest.skip("waits for Slurm with a controller that answers")
    env = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(held_port())}
    command = ["srun", "--ntasks", "2", "--overcommit", sys.executable, TRAIN]
    expect_ranks(finished([start(command, tmp_path, env)]), 2)


def test_the_pods_of_kubernetes(tmp_path):
    yaml = pytest.importorskip("yaml", reason="waits for PyYAML")
    service, job = yaml.safe_load_all((EXAMPLES / "job.yaml").read_text())
    spec = job["spec"]
    pod = spec["template"]["spec"]
    container = pod["containers"][0]
    given = {item["name"]: item["value"] for item in container["env"]}
    assert job["apiVersion"] == "batch/v1"
    assert spec["completionMode"] == "Indexed"
    assert str(spec["completions"]) == str(spec["parallelism"]) == given["WORLD_SIZE"]
    # Pod 0's name is made of the job's, its index, and the headless service's.
    assert service["spec"]["clusterIP"] == "None"
    assert pod["subdomain"] == service["metadata"]["name"]
    assert given["MASTER_ADDR"] == f"{job['metadata']['name']}-0.{pod['subdomain']}"
    assert service["spec"]["selector"] == {"job-name": job["metadata"]["name"]}
    assert container["command"] == ["python", "train.py"]
    here = {**given, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(held_port())}
    pods = [
        train(tmp_path, {**here, "JOB_COMPLETION_INDEX": str(index)})
        for index in range(spec["completions"])
    ]
    expect_ranks(finished(pods), spec["completions"])


@pytest.mark.skipif(
    importlib.util.find_spec("ray") is None, reason='waits for Ray (pip install "ray[train]")'
)
def test_ray_workers(tmp_path):
    command = [sys.executable, str(EXAMPLES / "ray_train.py")]
    assert "2 workers agree on 3" in finished([start(command, tmp_path)], 240)
