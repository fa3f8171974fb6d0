"""0/1 Adam: signs of momentum from the first step on, an ever rarer variance, then local steps.

Lu, Li, Zhang, De Sa, He, "Maximizing communication efficiency for large-scale training via 0/1
Adam", ICLR 2023, arXiv:2202.06009, Algorithm 1; schedules as in its experiments. Departures:

- A step that averages gradients for the variance uses them for the momentum, too, and sends no
  signs: as long as the variance changes all ranks have the same momentum.
- What is sent is the average momentum since the last exchange, the paper's buffer u divided by its
  sum of learning rates: residuals then do not depend on the schedule of the learning rate.
- The step applies the momentum after this gradient, as Adam does; bias correction counts the
  variance's own steps; the variance has a floor, see onebit_adam.py; decoupled weight decay.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from holdfast.compress.exchange import CompressedMean, Exchange
from holdfast.compress.onebit_optimizer import Masks, OneBitOptimizer
from holdfast.compress.optimizer import Params, Slot, follow, gradient
from holdfast.compress.options import require


class ZeroOneAdam(OneBitOptimizer):
    """Adam that sends a bit per parameter, and after `local_start` steps not at every step.

    Between exchanges the ranks' parameters differ; at an exchange, and after `synchronise`, they
    are the same bits again.

    Parameters
    ----------
    params : iterable
        Parameters or groups; option ``masks`` as for `OneBitAdam`.
    lr : float
        Learning rate.
    freeze_step : int
        The variance does not change after it, 1 and more.
    variance_scale : int
        The variance's steps come after gaps of 1, as many times as this, then of 2, of 4 ...
    local_start : int
        Exchange at every step up to here; `freeze_step` and more.
    local_double : int
        The interval between exchanges, 2 at first, doubles after so many steps.
    max_interval : int
        It never exceeds this.
    betas, eps, weight_decay, variance_floor, scale, block, error_feedback, collective
        As for `OneBitAdam`.
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
        local_start: int,
        variance_scale: int = 16,
        local_double: int = 1000,
        max_interval: int = 16,
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
        fits = local_start >= freeze_step
        require(fits, "local_start", local_start, f"freeze_step ({freeze_step}) and more")
        require(variance_scale >= 1, "variance_scale", variance_scale, "1 and more")
        require(local_double >= 1, "local_double", local_double, "1 and more")
        require(max_interval >= 1, "max_interval", max_interval, "1 and more")
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
        self._variance_scale = variance_scale
        self._local = (local_start, local_double, max_interval)

    def synchronise(self) -> None:
        """Exchange what local steps have gathered: all ranks have the same parameters then."""
        slots = [
            (p, group, self.state[p])
            for group in self.param_groups
            for p in group["params"]
            if p.requires_grad
        ]
        if any("anchor" in state for _, _, state in slots):
            with torch.no_grad():
                self._exchange(slots, self._masks())

    def _begin(self, state: dict[str, Any]) -> None:
        super()._begin(state)
        state["variance_steps"] = 0
        state["lr_sum"] = 0.0

    def _advance(self, slots: Sequence[Slot], masks: Masks) -> None:
        step = slots[0][2]["step"] + 1
        renews = is_variance_step(step, self._freeze_step, self._variance_scale)
        if renews:
            self._mean([gradient(p) for p, _, _ in slots])
        for p, group, state in slots:
            state["step"] = step
            g = gradient(p).to(torch.float32)
            if renews:
                follow(state, g, group["betas"])
                state["variance_steps"] += 1
                p.mul_(1 - group["lr"] * group["weight_decay"])
                p.addcdiv_(state["exp_avg"], self._denominator(group, state), value=-group["lr"])
            else:
                state["exp_avg"].lerp_(g, 1 - group["betas"][0])
        if renews:
            return
        meets = is_exchange_step(step, *self._local)
        for slot in slots:
            self._step_alone(*slot, meets)
        if meets:
            self._exchange(slots, masks)

    def _step_alone(
        self, p: torch.Tensor, group: dict[str, Any], state: dict[str, Any], meets: bool
    ) -> None:
        lr, m = group["lr"], state["exp_avg"]
        p.mul_(1 - lr * group["weight_decay"])
        state["lr_sum"] += lr
        if meets and "anchor" not in state:
            return  # nothing was local: the exchange itself does the step
        if "anchor" not in state:
            state["anchor"] = p.clone()
            state["gathered"] = torch.zeros_like(m)
        else:
            state["anchor"].mul_(1 - lr * group["weight_decay"])
        state["gathered"].add_(m, alpha=lr)
        p.addcdiv_(m, self._denominator(group, state), value=-lr)

    def _exchange(self, slots: Sequence[Slot], masks: Masks) -> None:
        momenta = [_since_exchange(state) for _, _, state in slots]
        self._exchange_momenta(slots, momenta, masks)
        for (p, group, state), m in zip(slots, momenta, strict=True):
            if "anchor" in state:
                p.copy_(state.pop("anchor"))
                del state["gathered"]
            p.addcdiv_(m, self._denominator(group, state), value=-state["lr_sum"])
            state["lr_sum"] = 0.0

    def _denominator(self, group: dict[str, Any], state: dict[str, Any]) -> torch.Tensor:
        beta1, beta2 = group["betas"]
        variance: torch.Tensor = state["exp_avg_sq"] / (1 - beta2 ** state["variance_steps"])
        self._lift(variance)
        # Bias correction of the momentum goes into the denominator.
        return variance.sqrt_().add_(group["eps"]).mul_(1 - beta1 ** state["step"])


def _since_exchange(state: dict[str, Any]) -> torch.Tensor:
    """Return the average momentum since the last exchange, weighted by learning rates; a copy."""
    if "gathered" in state and state["lr_sum"] > 0:
        average: torch.Tensor = state["gathered"] / state["lr_sum"]
        return average
    momentum: torch.Tensor = state["exp_avg"].clone()
    return momentum


def is_variance_step(step: int, freeze_step: int, scale: int) -> bool:
    """Tell whether the variance is renewed at a step, counted from 1.

    Gap number j between such steps is 2 ** (j // scale).
    """
    if step > freeze_step:
        return False
    at, gap = 1, 1
    while True:
        end = at + scale * gap
        if step < end:
            return (step - at) % gap == 0
        at, gap = end, 2 * gap


def is_exchange_step(step: int, start: int, double: int, most: int) -> bool:
    """Tell whether ranks exchange signs at a step, counted from 1."""
    if step <= start:
        return True
    # Doublings beyond the largest interval would only make large numbers.
    doublings = min(1 + (step - start - 1) // double, most.bit_length())
    return step % min(most, 1 << doublings) == 0
