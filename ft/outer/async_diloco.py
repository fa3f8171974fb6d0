"""DiLoCo whose exchange has a whole round: members compute on, and nobody waits for bytes."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import torch

from holdfast.compress.codec import Codec
from holdfast.compress.options import require
from holdfast.errors import ConfigError
from holdfast.ft.outer import mean
from holdfast.ft.outer.donor import InnerState
from holdfast.ft.outer.flat import Model, rounds_of
from holdfast.ft.outer.optimizers import OuterNesterov, OuterOptimizer, OuterSGD
from holdfast.ft.outer.rounds import Rounds
from holdfast.ft.outer.trainer import Trainer

Mode = Literal["delayed", "eager"]


class Overlapped(Trainer):
    """A trainer whose members begin the next round from the shared parameters, without waiting.

    When a fragment's exchange has begun, the member goes back to the shared parameters, and its
    progress comes back with the mean. What it does meanwhile stays: the parameters are moved by as
    much as the shared ones have moved.
    """

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        for fragment, flat in enumerate(self._flats):
            # Where this member's round began.
            self._own[f"start/{fragment}"] = flat.read()
        # What has been sent: it goes back into the parameters when its exchange fails.
        self._sent: dict[int, torch.Tensor] = {}
        self._averages = False

    def _sends(self, fragment: int, local: torch.Tensor) -> torch.Tensor:
        progress = self._progress(fragment, self._outer(fragment), local)
        if bool(torch.isfinite(progress).all()):
            self._sent[fragment] = progress.clone()
        return progress

    def _progress(self, fragment: int, outer: torch.Tensor, local: torch.Tensor) -> torch.Tensor:
        return self._own[f"start/{fragment}"] - local

    def _begin_mean(
        self, fragment: int, sent: torch.Tensor, share: mean.Share
    ) -> mean.MeanUnderWay:
        if not share.finite:
            # Of a site, another rank's is not: what counts for nothing does not come back, either.
            self._sent.pop(fragment, None)
        return super()._begin_mean(fragment, sent, share)

    def _put_own(self, fragment: int) -> None:
        self._start_from(fragment, self._outer(fragment))

    def _take_back(self, fragment: int) -> None:
        if (sent := self._sent.pop(fragment, None)) is not None:
            flat = self._flats[fragment]
            flat.write(flat.read().sub_(sent))

    def _is_in(self, fragment: int) -> None:
        self._sent.pop(fragment, None)

    def _put(self, fragment: int, outer: torch.Tensor) -> None:
        flat, start = self._flats[fragment], self._own[f"start/{fragment}"]
        new = flat.rounded(outer)
        flat.write(flat.read().add_(new - start))
        start.copy_(new)

    def _restart(self, fragment: int) -> None:
        self._start_from(fragment, self._outer(fragment))

    def _start_from(self, fragment: int, where: torch.Tensor) -> None:
        flat = self._flats[fragment]
        flat.write(where)
        self._own[f"start/{fragment}"].copy_(flat.rounded(where))


class AsyncDiLoCo(Overlapped):
    """DiLoCo whose outer step comes a round later, or at once as far as the own progress goes.

    ``"delayed"``: a round begins from the shared parameters as they are, and the mean of the round
    before is put in when it has come. ``"eager"``: the own part of the mean is put in at once, the
    others' when they come. What is shared has the same bits on all members after every outer step;
    under ``"eager"`` each member has its own part on top.

    Departures from the paper: `delay` may be less than a round; the mean is weighted by samples.
    The paper's eager step is written as a step along the mean, which is shared, and one along the
    own progress, which is taken off again when the mean has it: the same for an outer optimiser
    whose steps add up, so ``"eager"`` takes those only. The own part counts as one of as many as
    there are members.

    Parameters
    ----------
    model : torch.nn.Module or mapping of str to torch.Tensor
        Its parameters that require a gradient are trained and shared; buffers stay local.
    inner : torch.optim.Optimizer
        Of these parameters. Its state stays local.
    group : None, ProcessGroup, Group, Exchange or Site
        None: torch's default group.
    inner_steps : int
        Local steps of a round: a multiple of `fragments`.
    mode : str
        ``"eager"`` or ``"delayed"``.
    fragments : int
        Layer l is in fragment l mod `fragments`.
    delay : int, optional
        Local steps that an exchange has: 1 to `inner_steps`. Default: all of a round.
    codec : Codec or str, optional
        What progress travels as, or a list to choose from, as ``"auto(bf16,int8,int4)"``.
    outer : OuterOptimizer
        What becomes of the mean progress.
    global_batch : int, optional
        Samples of a round over all members, held while they come and go; see `Trainer`.
    pace : bool
        Whether a slow member has less to do; see `Trainer`.
    inner_state : str
        What a newcomer's inner optimiser begins with: ``"fresh"`` or ``"donor"``; see `Trainer`.
    grace_s : float, optional
        Seconds by which a member may be late before it is stood in for; see `Trainer`.

    Raises
    ------
    ConfigError
        A ValueError that names the bad value, what is accepted, and what to do.

    References
    ----------
    Kale, Douillard, Donchev, "Eager updates for overlapped communication and computation in
    DiLoCo", 2025, arXiv:2502.12996, Algorithms 2 (delayed) and 3 (eager).
    """

    method: ClassVar[str] = "AsyncDiLoCo"

    def __init__(
        self,
        model: Model,
        inner: torch.optim.Optimizer,
        group: Any = None,
        *,
        inner_steps: int = 50,
        mode: Mode = "eager",
        fragments: int = 1,
        delay: int | None = None,
        codec: Codec | str | None = None,
        outer: OuterOptimizer | None = None,
        global_batch: int | None = None,
        pace: bool = False,
        inner_state: InnerState = "fresh",
        grace_s: float | None = None,
    ) -> None:
        require(mode in ("eager", "delayed"), "mode", mode, "'eager' or 'delayed'")
        chosen = outer or OuterNesterov()
        rounds = overlapped_rounds(self.method, model, inner_steps, fragments, delay)
        self._mode = mode
        self._own_steps: OuterSGD | OuterNesterov | None = None
        if mode == "eager":
            if not isinstance(chosen, OuterSGD | OuterNesterov):
                raise ConfigError(
                    f"outer = {chosen} with mode='eager'; accepted: OuterSGD and OuterNesterov, "
                    "whose steps add up; or take mode='delayed'"
                )
            self._own_steps = chosen
        super().__init__(
            model,
            inner,
            group,
            rounds,
            chosen,
            codec,
            global_batch,
            pace,
            inner_state,
            grace_s,
        )
        for fragment, flat in enumerate(self._flats):
            for name, count in self._own_state(flat.count).items():
                self._own[f"{name}/{fragment}"] = flat.zeros(count)

    def _put_own(self, fragment: int) -> None:
        """Algorithm 3: the own progress counts as one of M, with a momentum of its own."""
        where = self._outer(fragment)
        sent = self._sent.get(fragment)
        if self._own_steps is not None and sent is not None:
            names = self._own_state(self._flats[fragment].count)
            state = {name: self._own[f"{name}/{fragment}"] for name in names}
            direction = self._own_steps.direction(sent.clone(), state)
            share = self._own_steps.rate / len(self._seat.exchange.members)
            where = where.sub(direction, alpha=share)
        self._start_from(fragment, where)

    def _own_state(self, count: int) -> dict[str, int]:
        return {} if self._own_steps is None else self._own_steps.state_of(count)

    def _restart(self, fragment: int) -> None:
        super()._restart(fragment)
        for name in self._own_state(0):
            self._own[f"{name}/{fragment}"].zero_()

    def settings(self) -> dict[str, Any]:
        """Return what a checkpoint must have alike with the trainer that loads it."""
        return {**super().settings(), "mode": self._mode}


def overlapped_rounds(
    method: str, model: Model, inner_steps: int, fragments: int, delay: int | None
) -> Rounds:
    """Return rounds whose exchanges have up to a whole round.

    Parameters
    ----------
    method : str
        Its name.
    model : torch.nn.Module or mapping of str to torch.Tensor
        Whose parameters are dealt to fragments.
    inner_steps, fragments : int
        As `rounds.table` has them.
    delay : int, optional
        1 to `inner_steps`; None: `inner_steps`.
    """
    chosen = inner_steps if delay is None else delay
    require(1 <= chosen <= max(1, inner_steps), "delay", delay, f"1 to inner_steps = {inner_steps}")
    return rounds_of(method, model, max(inner_steps, 0), fragments, chosen, own=True)
