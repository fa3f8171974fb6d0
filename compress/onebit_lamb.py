"""1-bit LAMB: LAMB for a while, then momentum by signs and layer-wise rates that still adapt.

Li, Awan, Tang, Rajbhandari, He, "1-bit LAMB: communication efficient large-scale large-batch
training with LAMB's convergence speed", HiPC 2022, arXiv:2104.06069, Algorithm 1. Departures:

- Momenta of different layers are not scaled to one magnitude before they are sent together: here
  each block has its own scale, and no block spans two layers.
- The frozen variance has a floor, and masks: see onebit_adam.py. Elements on the floor do not count
  in the ratio of variances, which would compare a made-up number.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from holdfast.compress.exchange import CompressedMean, Exchange
from holdfast.compress.onebit_optimizer import Masks, OneBitOptimizer, momenta_after
from holdfast.compress.optimizer import Params, Slot, follow, gradient
from holdfast.compress.options import require


class OneBitLamb(OneBitOptimizer):
    """LAMB that sends one bit per parameter after `freeze_step` steps.

    Parameters
    ----------
    params : iterable
        Parameters or groups; option ``masks`` as for `OneBitAdam`.
    lr : float
        Learning rate, before the layers' coefficients.
    freeze_step : int
        Steps of ordinary LAMB, 1 and more.
    betas, eps, weight_decay, variance_floor, scale, block, error_feedback, collective
        As for `OneBitAdam`.
    coefficient_clip : (float, float)
        Bounds of a layer's coefficient, norm of the weights over norm of the update.
    coefficient_beta : float
        Of the coefficient's average in the warm-up.
    factor_clip : (float, float)
        Bounds of what the average is multiplied by afterwards.
    factor_change : float
        Bound of its relative change in one step.
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
        coefficient_clip: tuple[float, float] = (0.01, 10.0),
        coefficient_beta: float = 0.9,
        factor_clip: tuple[float, float] = (0.5, 4.0),
        factor_change: float = 0.1,
        variance_floor: float = 1e-2,
        scale: str = "rms",
        block: int = 1024,
        error_feedback: bool = True,
        collective: CompressedMean | None = None,
        group: Any = None,
        exchange: Exchange | None = None,
    ) -> None:
        for name, clip in (("coefficient_clip", coefficient_clip), ("factor_clip", factor_clip)):
            fits = len(clip) == 2 and 0 < clip[0] <= clip[1]
            require(fits, name, clip, "two positive numbers, the smaller one first")
        require(0 <= coefficient_beta < 1, "coefficient_beta", coefficient_beta, "0 to below 1")
        require(0 < factor_change <= 1, "factor_change", factor_change, "above 0, to 1")
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
        self._coefficient_clip = coefficient_clip
        self._coefficient_beta = coefficient_beta
        self._factor_clip = factor_clip
        self._factor_change = factor_change

    def _begin(self, state: dict[str, Any]) -> None:
        super()._begin(state)
        state["coefficient"] = 0.0
        state["factor"] = 1.0

    def _advance(self, slots: Sequence[Slot], masks: Masks) -> None:
        warm = slots[0][2]["step"] < self._freeze_step
        if warm:
            self._mean([gradient(p) for p, _, _ in slots])
        else:
            momenta = momenta_after(slots)
            for _, _, state in slots:
                state["before"] = state["exp_avg"]
            self._exchange_momenta(slots, momenta, masks)
        for p, group, state in slots:
            state["step"] += 1
            if warm:
                follow(state, gradient(p).to(torch.float32), group["betas"])
            else:
                self._adapt(group, state)
            update = self._adam_step(group, state).add_(p, alpha=group["weight_decay"])
            p.add_(update, alpha=-group["lr"] * self._coefficient(p, update, state, warm))
            if state["step"] == self._freeze_step:
                state["fresh"] = state["exp_avg_sq"].clone()
                self._lift(state["exp_avg_sq"])

    def _adapt(self, group: dict[str, Any], state: dict[str, Any]) -> None:
        """Follow the variance that would be: the gradient is what the momentum has changed by."""
        beta1, beta2 = group["betas"]
        g = (state["exp_avg"] - state.pop("before").mul_(beta1)).div_(1 - beta1)
        fresh, frozen = state["fresh"], state["exp_avg_sq"]
        fresh.mul_(beta2).addcmul_(g, g, value=1 - beta2)
        above = frozen > frozen.min()
        ratio = torch.where(above & (fresh > 0), frozen / fresh, torch.zeros_like(frozen))
        wanted = float(ratio.max().sqrt()) if ratio.numel() else 1.0
        lowest, highest = self._factor_clip
        factor = min(max(wanted, lowest), highest)
        change = self._factor_change
        state["factor"] = min(
            max(factor, state["factor"] * (1 - change)), state["factor"] * (1 + change)
        )

    def _coefficient(
        self, p: torch.Tensor, update: torch.Tensor, state: dict[str, Any], warm: bool
    ) -> float:
        if not warm:
            return float(state["coefficient"] * state["factor"])
        weights, change = (
            float(torch.linalg.vector_norm(p)),
            float(torch.linalg.vector_norm(update)),
        )
        if weights == 0 or change == 0:
            coefficient = 1.0
        else:
            lowest, highest = self._coefficient_clip
            coefficient = min(max(weights / change, lowest), highest)
        beta = self._coefficient_beta if state["step"] > 1 else 0.0
        state["coefficient"] = beta * state["coefficient"] + (1 - beta) * coefficient
        return coefficient
