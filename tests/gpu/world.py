"""What the programs of this folder share: ranks of their own, options, and a line of JSON.

Ranks are new processes, never forks: a CUDA driver that has been opened does not survive one.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
import tempfile
from datetime import timedelta
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "python/support"))

from ranks import Outcome, Process, run_ranks, start_rank  # noqa: E402

# How a program exits that cannot run here; its last line says what is missing.
LACKS = 3
# What a rank's line begins with that is for the program.
MARK = "ROW "


def arguments_of(doc: str | None, limit_s: float) -> argparse.ArgumentParser:
    """Return a parser with the options that all programs have."""
    parser = argparse.ArgumentParser(
        description=doc, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--driver",
        default="",
        help="as the option cuda_driver: empty, the system's; 'emulated' proves the program "
        "without a GPU, and says nothing about speed",
    )
    parser.add_argument(
        "--limit", type=float, default=limit_s, help=f"seconds for a world of ranks ({limit_s:g})"
    )
    return parser


def environment(driver: str, **more: str) -> dict[str, str]:
    """Return what ranks get beside this process's environment; they find this folder's modules."""
    paths = [str(HERE), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {"HOLDFAST_CUDA_DRIVER": driver, "PYTHONPATH": os.pathsep.join(paths), **more}


def run(module: str, function: str, ranks: int, limit_s: float, **env: str) -> list[Outcome]:
    """Run all ranks of a world; AssertionError, with what they said, unless all succeed."""
    with tempfile.TemporaryDirectory() as folder:
        return run_ranks(
            module, function, ranks, Path(folder), env=env, timeout_s=limit_s, fresh=True
        )


def start(module: str, function: str, rank: int, ranks: int, at: Path, env: dict[str, str]) -> Any:
    """Start one rank."""
    process: Process = start_rank(module, function, rank, ranks, at, env, fresh=True)
    return process


def join_torch(backend: str = "holdfast") -> tuple[int, int]:
    """Make the world torch's default process group, and return rank and size; a rank calls it."""
    import torch.distributed as dist

    dist.init_process_group(
        backend,
        init_method=f"file://{os.environ['MEETING_FILE']}",
        rank=int(os.environ["RANK"]),
        world_size=int(os.environ["WORLD_SIZE"]),
        timeout=timedelta(seconds=60),
    )
    return dist.get_rank(), dist.get_world_size()


def tell(row: dict[str, Any]) -> None:
    """Give the program a row; a rank calls it."""
    sys.stdout.write(f"{MARK}{json.dumps(row)}\n")
    sys.stdout.flush()


def told(outcome: Outcome) -> list[dict[str, Any]]:
    """Return the rows that a rank told."""
    lines = outcome.output.splitlines()
    return [json.loads(line[len(MARK) :]) for line in lines if line.startswith(MARK)]


def device_name(driver: str) -> str:
    """Return the first device's name, as the driver has it; that asks for no context."""
    from holdfast import _core

    _, names = _core.cuda_devices(driver)
    return names[0]


def torch_has_cuda() -> bool:
    """Return whether there is a torch that sees a GPU."""
    try:
        import torch
    except ImportError:
        return False
    return torch.cuda.is_available()


def lacks(driver: str, *, torch: bool = False) -> bool:
    """Return whether something is missing here that a program needs, and print what.

    `torch`: it needs CUDA tensors, not only a device. The program then exits with `LACKS`.
    """
    from holdfast import HoldfastError, _core

    try:
        device_name(driver)
    except (HoldfastError, IndexError) as error:
        print(f"no CUDA device: {error}")
        return True
    if driver != "emulated" and not _core.kernel_images():
        print("no kernels: this build of Holdfast was made without nvcc")
        return True
    if torch and not torch_has_cuda():
        print("no torch that has CUDA and sees the device")
        return True
    return False


def ops(path: str = "") -> int:
    """Return how many ops this process has ended on paths whose name begins so."""
    from holdfast._process import node

    pattern = rf'^holdfast_ops_total\{{[^}}]*path="{path}[^}}]*\}} (\d+)'
    return sum(int(count) for count in re.findall(pattern, node().metrics_text(), re.M))
