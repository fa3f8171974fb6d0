"""What the PyTorch backend refuses, and how its ops end when they cannot end well."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from ranks import run_ranks

pytest.importorskip("torch", reason="waits for torch: the backend is built against it")


@pytest.mark.parametrize("size", [1, 3])
def test_refusals_name_what_is_wrong_and_leave_the_group_as_it_was(size, tmp_path):
    run_ranks("torch_edge_ranks", "refusals", size, tmp_path)


def test_an_early_end_of_waiting_and_a_late_end_of_an_op_are_timeouts(tmp_path):
    run_ranks("torch_edge_ranks", "time_limits", 2, tmp_path)


def test_abort_ends_ops_here_and_names_this_rank_on_the_others(tmp_path):
    run_ranks("torch_edge_ranks", "abort", 3, tmp_path)


def test_ops_that_nobody_waits_for_end_and_nothing_hangs(tmp_path):
    run_ranks("torch_edge_ranks", "drop_in_flight", 3, tmp_path, timeout_s=60)


def test_a_forked_child_is_told_and_leaves_the_parent_alone(tmp_path):
    run_ranks("torch_edge_ranks", "fork", 2, tmp_path, timeout_s=60)


def test_options_of_another_type_are_refused(tmp_path):
    run_ranks("torch_edge_ranks", "other_options", 1, tmp_path)


def test_import_torch_survives_a_broken_installation(tmp_path):
    """An exception of the entry point would be a failure to import torch, for everyone."""
    import holdfast

    package = Path(holdfast.__file__).parent
    for source in package.rglob("*.py"):
        target = tmp_path / "holdfast" / source.relative_to(package)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(source.read_bytes())
    info = tmp_path / "holdfast-0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Name: holdfast\nVersion: 0\n")
    (info / "entry_points.txt").write_text(
        "[torch.backends]\nholdfast = holdfast.torch:_autoload\n"
    )
    code = (
        "import sys, torch, torch.distributed as dist\n"
        "assert dist.Backend.HOLDFAST == 'holdfast'\n"
        "assert 'numpy' not in sys.modules or not any(m.startswith('holdfast.comm')"
        " for m in sys.modules), 'not tiny'\n"
        "try:\n"
        "    dist.init_process_group('holdfast', store=dist.HashStore(), rank=0, world_size=1)\n"
        "except ImportError as error:\n"
        "    print(error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "_c10d" in done.stdout or "_core" in done.stdout, done.stdout
