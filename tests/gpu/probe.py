"""What this machine has for the rows: one line of JSON, from a process of its own.

The runner asks here, so that no driver is opened in the process that starts all others.
"""

from __future__ import annotations

import importlib.util
import json
import shutil
import sys
from typing import Any

import native_tests


def device() -> dict[str, Any]:
    """Holdfast, its kernels, the driver's devices."""
    try:
        from holdfast import HoldfastError, _core
    except Exception as error:  # a library that does not load says so in many ways
        return {"lacks": "no Holdfast that loads", "why": str(error)}
    try:
        version, names = _core.cuda_devices("")
    except HoldfastError as error:
        return {"lacks": "no CUDA device", "why": str(error)}
    why = f"driver {version // 1000}.{version % 1000 // 10}: {', '.join(names) or 'no devices'}"
    if not names:
        return {"lacks": "no CUDA device", "why": why}
    if not _core.kernel_images():
        return {"lacks": "no kernels in this build of Holdfast, made without nvcc", "why": why}
    return {"lacks": "", "name": names[0], "why": why}


def torch_parts() -> dict[str, str]:
    """What torch, and torch on a GPU, lack."""
    try:
        import torch
    except Exception as error:
        lack = f"no torch ({error})"
        return {"torch": lack, "torch_cuda": lack}
    try:
        from holdfast.torch import native

        native()
    except Exception as error:
        lack = f"holdfast's torch module does not load beside torch {torch.__version__}: {error}"
        return {"torch": "", "torch_cuda": lack}
    if not torch.cuda.is_available():
        return {"torch": "", "torch_cuda": f"torch {torch.__version__} sees no CUDA device"}
    return {"torch": "", "torch_cuda": ""}


def main() -> int:
    """Print what there is; of each part what it lacks, empty if nothing."""
    sanitizer = shutil.which("compute-sanitizer", path=native_tests.search_path())
    print(
        json.dumps(
            {
                "device": device(),
                **torch_parts(),
                "pytest": "" if importlib.util.find_spec("pytest") else "no pytest",
                "cc": "" if shutil.which("cc") else "no C compiler",
                "sanitizer": "" if sanitizer else "no compute-sanitizer",
            }
        )
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
