"""The largest elements now, the others later, when they have grown.

Lin, Han, Mao, Wang, Dally, "Deep gradient compression", ICLR 2018, arXiv:1712.01887, Algorithm 4:
momentum correction, section 3.2; momentum factor masking and warm-up, section 3.3. Departures:
exact selection instead of a sampled threshold; no gradient clipping; the average over ranks
instead of the sum. Values that are not finite on any rank give NaN on all ranks, and change no
residual.

Bytes: 8 per chosen element, gathered from every rank: it is for few ranks or small ratios.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch

from holdfast.compress.exchange import Exchange, Reduction
from holdfast.compress.options import require
from holdfast.compress.reducer import Named, Reducer

# The ratio at the first step of a warm-up, section 3.3.
_FIRST_RATIO = 0.25


class TopK(Reducer):
    """Averages the largest elements of each gradient; error feedback sends the rest later.

    Parameters
    ----------
    ratio : float
        Share of the elements that are sent, above 0, to 1; at least one of each tensor.
    momentum : float
        Momentum correction: this is the optimiser's momentum, which must then have none. 0: plain
        error feedback, under any optimiser.
    nesterov : bool
        Of the momentum.
    ramp_steps : int
        In so many first steps the ratio falls from 0.25, exponentially.
    error_feedback : bool
        False: what is not sent is lost.
    group, exchange
        As for `Reducer`.

    Raises
    ------
    ConfigError
        A ValueError that names the bad value.
    """

    def __init__(
        self,
        ratio: float = 0.01,
        *,
        momentum: float = 0.0,
        nesterov: bool = False,
        ramp_steps: int = 0,
        error_feedback: bool = True,
        group: Any = None,
        exchange: Exchange | None = None,
    ) -> None:
        require(0 < ratio <= 1, "ratio", ratio, "above 0, to 1")
        require(0 <= momentum < 1, "momentum", momentum, "0 to below 1")
        require(not nesterov or momentum > 0, "nesterov", nesterov, "False without momentum")
        require(ramp_steps >= 0, "ramp_steps", ramp_steps, "0 and more")
        super().__init__(group, exchange)
        self._ratio = ratio
        self._momentum = momentum
        self._nesterov = nesterov
        self._ramp_steps = ramp_steps
        self._error_feedback = error_feedback
        self._steps: dict[str, int] = {}

    def reduction(self, gradients: Named) -> Reduction:
        """Average named gradients in place: one gather, whatever their number."""
        gradients = [(name, g) for name, g in gradients if g.numel()]
        if not gradients:
            return
        opened: list[str] = []
        try:
            plans = [self._choose(name, gradient, opened) for name, gradient in gradients]
            own = torch.cat([part for plan in plans for part in (plan.where, plan.bits())])
            shape = (self.exchange.size, own.numel())
            rows = torch.zeros(shape, dtype=own.dtype, device=own.device)
            yield self.exchange.gather(rows, own)
        except BaseException:
            for name in opened:
                self.residuals.rollback(name)
            raise
        at = 0
        for (name, gradient), plan in zip(gradients, plans, strict=True):
            self._steps[name] = self._steps.get(name, 0) + 1
            count = plan.where.numel()
            self._finish(name, gradient, plan, rows[:, at : at + 2 * count])
            at += 2 * count

    def _choose(self, name: str, gradient: torch.Tensor, opened: list[str]) -> _Plan:
        total = gradient.reshape(-1).to(torch.float32)
        velocity = None
        if self._momentum:
            velocity = self._get(f"{name}/velocity", total, opened) * self._momentum + total
            total = total + self._momentum * velocity if self._nesterov else velocity
        if self._error_feedback:
            total = total + self._get(name, total, opened)
        count = self._count(name, total.numel())
        where = torch.topk(total.abs(), count, sorted=False).indices
        return _Plan(total, velocity, where.to(torch.int32))

    def _get(self, name: str, like: torch.Tensor, opened: list[str]) -> torch.Tensor:
        residual = self.residuals.get(name, like.shape, like.dtype, like.device)
        opened.append(name)
        return residual

    def _count(self, name: str, size: int) -> int:
        ratio, step = self._ratio, self._steps.get(name, 0)
        if step < self._ramp_steps and ratio < _FIRST_RATIO:
            ratio = _FIRST_RATIO * (ratio / _FIRST_RATIO) ** (step / self._ramp_steps)
        return min(size, max(1, math.ceil(ratio * size)))

    def _finish(self, name: str, gradient: torch.Tensor, plan: _Plan, rows: torch.Tensor) -> None:
        count = plan.where.numel()
        average = torch.zeros_like(plan.total)
        members = self.exchange.members
        for member in members:
            values = rows[member, count:].contiguous().view(torch.float32)
            average.index_add_(0, rows[member, :count], values)
        average.div_(len(members))
        finite = bool(torch.isfinite(average).all())
        if not finite:
            average.fill_(float("nan"))
        gradient.copy_(average.view(gradient.shape))
        where = plan.where.to(torch.int64)
        left = {name: plan.total if self._error_feedback else None}
        left[f"{name}/velocity"] = plan.velocity
        for residual, value in left.items():
            if value is None:
                continue
            if finite:
                value[where] = 0.0
                self.residuals.commit(residual, value)
            else:
                self.residuals.rollback(residual)

    def _shared_state(self) -> dict[str, Any]:
        return {"steps": dict(sorted(self._steps.items()))}

    def _load_shared_state(self, state: Mapping[str, Any]) -> None:
        require(sorted(state) == ["steps"], "state of TopK", sorted(state), "'steps'")
        self._steps = {name: int(count) for name, count in state["steps"].items()}


class _Plan:
    """What one rank sends of one gradient, and what it would keep."""

    def __init__(
        self, total: torch.Tensor, velocity: torch.Tensor | None, where: torch.Tensor
    ) -> None:
        self.total = total
        self.velocity = velocity
        self.where = where

    def bits(self) -> torch.Tensor:
        """Return the chosen values as int32, to travel with their places."""
        return self.total[self.where.to(torch.int64)].view(torch.int32)
