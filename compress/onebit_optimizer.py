"""What the optimisers that send signs share: masks, momenta, a variance with a floor."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

import torch

from holdfast.compress.exchange import CompressedMean, Exchange
from holdfast.compress.onebit_mean import OneBitMean
from holdfast.compress.optimizer import (
    CompressedOptimizer,
    Params,
    Slot,
    adam_defaults,
    gradient,
)
from holdfast.compress.options import require

Masks = dict[torch.Tensor, torch.Tensor]


class OneBitOptimizer(CompressedOptimizer):
    """An optimiser whose ranks exchange the signs of momenta; parameters as for `OneBitAdam`."""

    def __init__(
        self,
        params: Params,
        lr: float,
        *,
        freeze_step: int,
        betas: tuple[float, float],
        eps: float,
        weight_decay: float,
        variance_floor: float,
        scale: str,
        block: int,
        error_feedback: bool,
        collective: CompressedMean | None,
        group: Any,
        exchange: Exchange | None,
    ) -> None:
        require(freeze_step >= 1, "freeze_step", freeze_step, "1 and more")
        require(0 <= variance_floor <= 1, "variance_floor", variance_floor, "0 to 1")
        defaults = {**adam_defaults(lr, betas, eps, weight_decay), "masks": None}
        super().__init__(params, defaults, group, exchange)
        self._freeze_step = freeze_step
        self._variance_floor = variance_floor
        self._collective = collective or OneBitMean(
            self.exchange, self.residuals, scale=scale, block=block, error_feedback=error_feedback
        )

    @abstractmethod
    def _advance(self, slots: Sequence[Slot], masks: Masks) -> None:
        """Do one step with at least one parameter; gradients are masked already."""

    def _begin(self, state: dict[str, Any]) -> None:
        """Fill the state of a parameter that has none."""
        state["step"] = 0

    def _update(self, slots: Sequence[Slot]) -> None:
        for p, _, state in slots:
            if not state:
                self._begin(state)
                state["exp_avg"] = torch.zeros_like(p, dtype=torch.float32)
                state["exp_avg_sq"] = torch.zeros_like(p, dtype=torch.float32)
        masks = self._masks()
        for p, _, _ in slots:
            if p in masks:
                gradient(p).mul_(masks[p])
        if slots:
            self._advance(slots, masks)

    def _masks(self) -> Masks:
        """Return the masks that param groups have; ConfigError for one that does not fit."""
        masks: Masks = {}
        for group in self.param_groups:
            given = group.get("masks")
            if given is None:
                continue
            count = len(group["params"])
            fits = len(given) == count
            require(fits, "number of masks", len(given), f"{count}, one per parameter")
            for p, mask in zip(group["params"], given, strict=True):
                if mask is not None:
                    shape = tuple(mask.shape)
                    require(mask.shape == p.shape, "shape of a mask", shape, f"{tuple(p.shape)}")
                    masks[p] = mask
        return masks

    def _exchange_momenta(
        self, slots: Sequence[Slot], momenta: list[torch.Tensor], masks: Masks
    ) -> None:
        """Average momenta by signs, in place, and make them the parameters' own."""
        for pending in self._collective.mean("momentum", momenta):
            pending.wait()
        for (p, _, state), m in zip(slots, momenta, strict=True):
            # Signs have no zero: what is masked has moved by its block's scale.
            state["exp_avg"] = m.mul_(masks[p]) if p in masks else m

    def _lift(self, variance: torch.Tensor) -> None:
        """Lift a variance to a fraction of its mean; all zeros stay, and meet momenta of zero."""
        if variance.numel():
            variance.clamp_(min=self._variance_floor * variance.mean())

    def _adam_step(self, group: dict[str, Any], state: dict[str, Any]) -> torch.Tensor:
        """Return Adam's step before the learning rate; a frozen variance's bias is frozen, too."""
        beta1, beta2 = group["betas"]
        step = state["step"]
        variance = state["exp_avg_sq"] / (1 - beta2 ** min(step, self._freeze_step))
        update: torch.Tensor = state["exp_avg"] / (1 - beta1**step)
        return update.div_(variance.sqrt_().add_(group["eps"]))


def momenta_after(slots: Sequence[Slot]) -> list[torch.Tensor]:
    """Return what the momenta are after this step's local gradients; copies."""
    return [
        state["exp_avg"].lerp(gradient(p).to(torch.float32), 1 - group["betas"][0])
        for p, group, state in slots
    ]
