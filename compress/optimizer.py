"""What the optimisers that communicate share: they see local gradients, and average by themselves.

The model is not wrapped in DDP, or its DDP leaves gradients alone (`ddp.local_gradients`). All
parameters take part in every step: one without a gradient counts as zero, so that every rank calls
the same collectives.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch

from holdfast.compress.exchange import Exchange, choose
from holdfast.compress.options import require
from holdfast.compress.reducer import View
from holdfast.compress.residuals import Residuals
from holdfast.compress.savings import CountedExchange, method_of

Params = Iterable[torch.Tensor] | Iterable[dict[str, Any]]
# One parameter, the options of its group, its state.
Slot = tuple[torch.Tensor, dict[str, Any], dict[str, Any]]


class Common:
    """The part of an optimiser's state that is the same on all ranks, for ``holdfast.sync``."""

    def __init__(self, optimizer: CompressedOptimizer) -> None:
        self._optimizer = optimizer

    def state_dict(self) -> dict[str, Any]:
        """Return it, by reference."""
        state = self._optimizer.state_dict()
        del state["residuals"]
        return state

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take it over; the residuals stay."""
        own = self._optimizer.residuals.state_dict()
        self._optimizer.load_state_dict({**state, "residuals": own})


class CompressedOptimizer(torch.optim.Optimizer):
    """An optimiser that averages over ranks by itself.

    Parameters
    ----------
    params : iterable
        Parameters or groups, as every torch optimiser takes them; floating, dense.
    defaults : dict
        Of the groups' options.
    group : torch.distributed.ProcessGroup, optional
        Default: the world.
    exchange : Exchange, optional
        Instead of it.
    """

    def __init__(
        self,
        params: Params,
        defaults: dict[str, Any],
        group: Any = None,
        exchange: Exchange | None = None,
    ) -> None:
        method = method_of(self)
        self.exchange = CountedExchange(choose(group, exchange), method)
        self.residuals = Residuals(method)
        self.common = Common(self)
        super().__init__(params, defaults)

    @abstractmethod
    def _update(self, slots: Sequence[Slot]) -> None:
        """Do one step; gradients are there, local, and may be overwritten."""

    @torch.no_grad()
    def step(  # type: ignore[override]
        self, closure: Callable[[], float] | None = None
    ) -> float | None:
        """Average over the ranks and update the parameters; collective.

        Parameters
        ----------
        closure : callable, optional
            Computes the loss again.

        Returns
        -------
        float, optional
            What the closure returned.
        """
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        slots: list[Slot] = []
        for group in self.param_groups:
            for p in group["params"]:
                if p.requires_grad:
                    if p.grad is None:
                        p.grad = torch.zeros_like(p)
                    slots.append((p, group, self.state[p]))
        self.exchange.asked(gradient(p) for p, _, _ in slots)
        self._update(slots)
        return loss

    def _mean(self, tensors: Sequence[torch.Tensor]) -> None:
        """Average tensors in place, as they are, in one op."""
        flat = torch.cat([t.reshape(-1).to(torch.float32) for t in tensors])
        self.exchange.mean(flat).wait()
        at = 0
        for t in tensors:
            t.copy_(flat[at : at + t.numel()].view(t.shape))
            at += t.numel()

    def on_view(self, view: View) -> None:
        """Take note of who is there after ``holdfast.advance()``; on every rank alike.

        Parameters
        ----------
        view : View
            Residuals of ranks that are gone are gone; those of ranks that came in are zero.
            Newcomers get the rest by ``holdfast.sync(model, optimizer.common)``.
        """
        before = set(self.exchange.members)
        self.exchange.regroup(view.ranks)
        self.residuals.on_view(before, view.ranks, view.joined, self.exchange.rank)

    def state_dict(self) -> dict[str, Any]:
        """Return the state of this rank; loading it goes on with the same bits.

        ``residuals`` are rank-local, all else is the same on all ranks.
        """
        state: dict[str, Any] = super().state_dict()
        state["residuals"] = self.residuals.state_dict()
        return state

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over what `state_dict` returned on this rank; copies.

        Parameters
        ----------
        state_dict : dict
            What `state_dict` returned.

        Raises
        ------
        ConfigError
            Without ``residuals``.
        """
        keys = sorted(str(key) for key in state_dict)
        require("residuals" in keys, "state of an optimiser", keys, "with 'residuals'")
        super().load_state_dict(state_dict)
        # torch casts state to the parameter's dtype; here it is float32 whatever that is.
        numbers = [i for group in state_dict["param_groups"] for i in group["params"]]
        parameters = [p for group in self.param_groups for p in group["params"]]
        for number, p in zip(numbers, parameters, strict=True):
            for key, value in state_dict["state"].get(number, {}).items():
                if isinstance(value, torch.Tensor):
                    self.state[p][key] = value.to(p.device, copy=True)
        self.residuals.load_state_dict(state_dict["residuals"])


def adam_defaults(
    lr: float, betas: tuple[float, float], eps: float, weight_decay: float
) -> dict[str, Any]:
    """Return Adam's options as a group's.

    Raises
    ------
    ConfigError
        A ValueError that names the value that cannot be used.
    """
    require(lr >= 0, "lr", lr, "0 and more")
    fits = len(betas) == 2 and all(0 <= beta < 1 for beta in betas)
    require(fits, "betas", betas, "two numbers from 0 to below 1")
    require(eps > 0, "eps", eps, "more than 0")
    require(weight_decay >= 0, "weight_decay", weight_decay, "0 and more")
    return {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay}


def gradient(p: torch.Tensor) -> torch.Tensor:
    """Return a parameter's gradient, which `step` has made sure of."""
    assert p.grad is not None
    return p.grad


def follow(state: dict[str, Any], g: torch.Tensor, betas: tuple[float, float]) -> None:
    """Have Adam's two moments follow a gradient, float32."""
    state["exp_avg"].lerp_(g, 1 - betas[0])
    state["exp_avg_sq"].mul_(betas[1]).addcmul_(g, g, value=1 - betas[1])
