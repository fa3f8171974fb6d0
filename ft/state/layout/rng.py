"""Generators of random numbers of torch, NumPy and Python, as something with a state."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from holdfast.errors import ConfigError

_KEYS = ["cuda", "numpy", "python", "torch"]


class Generators:
    """This process's generators; a state has them beside model and optimizer."""

    def state_dict(self) -> dict[str, Any]:
        """Return the states of all generators, copied."""
        made = torch.cuda.is_initialized()  # type: ignore[no-untyped-call]
        return {
            "torch": torch.get_rng_state(),
            "cuda": torch.cuda.get_rng_state_all() if made else [],
            "numpy": np.random.get_state(),
            "python": random.getstate(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Set all generators; those of GPUs that are not here are left out.

        Parameters
        ----------
        state : mapping
            What `state_dict` returned.

        Raises
        ------
        ConfigError
            For a state of something else.
        """
        if sorted(state) != _KEYS:
            raise ConfigError(f"state of generators: {sorted(state)}; accepted: {_KEYS}")
        torch.set_rng_state(state["torch"].cpu())
        if state["cuda"] and torch.cuda.is_available():
            for device, one in zip(range(torch.cuda.device_count()), state["cuda"], strict=False):
                torch.cuda.set_rng_state(one.cpu(), device)
        np.random.set_state(state["numpy"])
        random.setstate(state["python"])


def rng() -> Generators:
    """Return this process's generators of torch (of GPUs, too), NumPy and Python, for a state."""
    return Generators()
