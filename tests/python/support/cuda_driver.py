"""Which CUDA driver tests of device memory run over.

The emulated one, unless HOLDFAST_TEST_CUDA_DRIVER names another, as the option cuda_driver does:
empty, the system's, which needs a GPU. No other file of the tests reads it; it is taken out of the
environment, as Holdfast warns of names that are no options of its.
"""

from __future__ import annotations

import os

EMULATED = "emulated"
DRIVER = os.environ.pop("HOLDFAST_TEST_CUDA_DRIVER", EMULATED)
# For the environment of ranks.
CHOSEN = {"HOLDFAST_CUDA_DRIVER": DRIVER}


def is_emulated() -> bool:
    """Whether this process, a rank, works on the emulated device."""
    return os.environ.get("HOLDFAST_CUDA_DRIVER") == EMULATED
