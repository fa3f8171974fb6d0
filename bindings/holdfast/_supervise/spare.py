"""``python -m holdfast._supervise.spare``: a process that waits until it is to be a rank.

Its arguments are the descriptor of its channel, modules to import, and the command.
"""

from __future__ import annotations

import contextlib
import importlib
import runpy
import signal
import socket
import sys
from pathlib import Path

from holdfast._supervise.spares import take_over

# What programs of torch need before their first step, as far as it neither makes a thread nor looks
# for a device.
_IMPORTS = (
    "numpy",
    "torch",
    "torch._dynamo",
    "torch.distributed.fsdp",
    "torch.distributed.tensor.parallel",
    "torch.nn.parallel",
    "torch.optim",
    "holdfast",
)
# They import torch: where it is not installed, or not to be used, they are left out.
_OURS = ("holdfast.ft.state.restart", "holdfast.ft.state.snapshots")


def _import(names: list[str]) -> None:
    for name in (*_IMPORTS, *_OURS):
        # Of what is not installed. Another error is the program's to raise, if it needs the module.
        with contextlib.suppress(Exception):
            importlib.import_module(name)
    if "torch" in sys.modules:
        from holdfast import torch

        with contextlib.suppress(ImportError):
            torch.native()
    for name in names:
        importlib.import_module(name)


def main() -> None:
    """Import, wait, and run the program as ``python`` does."""
    channel = socket.socket(fileno=int(sys.argv[1]))
    names, command = sys.argv[2].split(","), sys.argv[3:]
    # Ctrl-C is for the ranks.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    is_module = command[0] == "-m"
    if not is_module and not getattr(sys.flags, "safe_path", False):
        sys.path[0] = str(Path(command[0]).resolve().parent)
    _import([name for name in names if name])
    take_over(channel)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if is_module:
        sys.argv[:] = command[1:]
        runpy.run_module(command[1], run_name="__main__", alter_sys=True)
    else:
        sys.argv[:] = command
        runpy.run_path(command[0], run_name="__main__")


if __name__ == "__main__":
    main()
