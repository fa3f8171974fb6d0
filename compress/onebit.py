"""1-bit averages of whole buckets of gradients, as a reducer for DDP and FSDP2.

Karimireddy et al., "Error feedback fixes SignSGD and other gradient compression schemes", ICML
2019, arXiv:1901.09847, Algorithm 1 with the scaled sign, over the two phases of onebit_mean.py.
Departure: server residuals, as 1-bit Adam has them.
Why blocks are short: docs/decisions/0184-signs-share-a-scale-with-few.md
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from typing import Any

import torch

from holdfast.compress.exchange import CompressedMean, Exchange, Reduction
from holdfast.compress.onebit_mean import OneBitMean
from holdfast.compress.options import require
from holdfast.compress.reducer import Named, Reducer


class OneBit(Reducer):
    """Averages gradients by their signs, a scale per block, and error feedback.

    For SGD, with momentum or without: what comes late is added up. An optimiser that divides by the
    size of what it gets sees that of the block instead: for Adam take `OneBitAdam`. Gradients that
    are clipped are clipped after the average, as without it.

    Parameters
    ----------
    scale, block, error_feedback
        As for `OneBitMean`.
    start_step : int
        So many first steps of each set of tensors are averaged as they are. DDP composes its
        buckets anew after its first step; residuals belong to a composition.
    collective : CompressedMean, optional
        Instead of `OneBitMean`.
    group, exchange
        As for `Reducer`.

    Raises
    ------
    ConfigError
        A ValueError that names the bad value.
    """

    def __init__(
        self,
        *,
        scale: str = "rms",
        block: int = 64,
        error_feedback: bool = True,
        start_step: int = 1,
        collective: CompressedMean | None = None,
        group: Any = None,
        exchange: Exchange | None = None,
    ) -> None:
        require(start_step >= 0, "start_step", start_step, "0 and more")
        super().__init__(group, exchange)
        self._collective = collective or OneBitMean(
            self.exchange, self.residuals, scale=scale, block=block, error_feedback=error_feedback
        )
        self._start_step = start_step
        self._steps: dict[str, int] = {}

    def reduction(self, gradients: Named) -> Reduction:
        """Average named gradients in place, all in one."""
        key = f"{zlib.crc32(' '.join(name for name, _ in gradients).encode()):08x}"
        tensors = [gradient for _, gradient in gradients]
        self._steps[key] = self._steps.get(key, 0) + 1
        if self._steps[key] > self._start_step:
            yield from self._collective.mean(key, tensors)
            return
        flat = torch.cat([t.reshape(-1) for t in tensors])
        yield self.exchange.mean(flat)
        at = 0
        for t in tensors:
            t.copy_(flat[at : at + t.numel()].view(t.shape))
            at += t.numel()

    def _shared_state(self) -> dict[str, Any]:
        return {"steps": dict(sorted(self._steps.items()))}

    def _load_shared_state(self, state: Mapping[str, Any]) -> None:
        require(sorted(state) == ["steps"], "state of OneBit", sorted(state), "'steps'")
        self._steps = {name: int(count) for name, count in state["steps"].items()}
