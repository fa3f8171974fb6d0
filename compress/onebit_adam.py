"""1-bit Adam: Adam for a while, then momentum by signs over a variance that no longer changes.

Tang et al., "1-bit Adam: communication efficient large-scale training with Adam's convergence
speed", ICML 2021, arXiv:2102.02888, Algorithm 1. Departures:

- Bias correction in the warm-up, as in Adam; the variance's is frozen with it.
- The frozen variance has a floor, a fraction of its tensor's mean: the signs of a block move every
  element by the block's scale, and an element whose gradients were zero has no variance to divide
  it by, which ends in NaN. A mask keeps such elements still altogether.
- Decoupled weight decay (AdamW).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from holdfast.compress.exchange import CompressedMean, Exchange
from holdfast.compress.onebit_optimizer import Masks, OneBitOptimizer, momenta_after
from holdfast.compress.optimizer import Params, Slot, follow, gradient


class OneBitAdam(OneBitOptimizer):
    """Adam that sends one bit per parameter after `freeze_step` steps.

    Parameters
    ----------
    params : iterable
        Parameters or groups. A group's option ``masks`` is None, or has for each of its parameters
        a tensor of zeros and ones, or None: elements of zero are neither sent nor updated.
    lr : float
        Learning rate.
    freeze_step : int
        Steps of ordinary Adam, 1 and more; 15-25 % of all steps.
    betas, eps, weight_decay
        As for ``torch.optim.AdamW``.
    variance_floor : float
        Fraction of a tensor's mean variance below which no element's goes when it is frozen.
    scale, block, error_feedback
        As for `OneBitMean`.
    collective : CompressedMean, optional
        Instead of `OneBitMean`.
    group, exchange
        As for `CompressedOptimizer`.

    Raises
    ------
    ConfigError
        A ValueError that names the bad value.
    """

    def __init__(
        self,
        params: Params,
        lr: float = 1e-3,
        *,
        freeze_step: int,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        variance_floor: float = 1e-2,
        scale: str = "rms",
        block: int = 1024,
        error_feedback: bool = True,
        collective: CompressedMean | None = None,
        group: Any = None,
        exchange: Exchange | None = None,
    ) -> None:
        super().__init__(
            params,
            lr,
            freeze_step=freeze_step,
            betas=betas,
            eps=eps,
            weight_decay=weight_decay,
            variance_floor=variance_floor,
            scale=scale,
            block=block,
            error_feedback=error_feedback,
            collective=collective,
            group=group,
            exchange=exchange,
        )

    def _advance(self, slots: Sequence[Slot], masks: Masks) -> None:
        if slots[0][2]["step"] < self._freeze_step:
            self._mean([gradient(p) for p, _, _ in slots])
            for p, group, state in slots:
                follow(state, gradient(p).to(torch.float32), group["betas"])
                if state["step"] + 1 == self._freeze_step:
                    self._lift(state["exp_avg_sq"])
        else:
            self._exchange_momenta(slots, momenta_after(slots), masks)
        for p, group, state in slots:
            state["step"] += 1
            p.mul_(1 - group["lr"] * group["weight_decay"])
            p.add_(self._adam_step(group, state), alpha=-group["lr"])
