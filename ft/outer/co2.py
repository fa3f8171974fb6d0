"""CO2: an average a round late, with momentum that knows how stale it is."""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import torch

from holdfast.compress.codec import Codec
from holdfast.compress.options import require
from holdfast.ft.outer import mixing
from holdfast.ft.outer.async_diloco import Overlapped, overlapped_rounds
from holdfast.ft.outer.donor import InnerState
from holdfast.ft.outer.flat import Model
from holdfast.ft.outer.mean import Mean
from holdfast.ft.outer.optimizers import OuterSGD


class Acted(NamedTuple):
    """What penalty and clip did at an outer step; the same on all members."""

    gap: float
    """The staleness gap by which the step was divided; 1: not at all."""
    momentum: float
    """Norm of the outer momentum before the clip."""
    limit: float
    """Norm that it may have; infinite without a clip."""


class CO2(Overlapped):
    """Local steps, and an outer momentum along the mean progress of the round before.

    Departures from the paper: the staleness gap is measured at each outer step, in lengths of the
    mean progress, by how far the shared parameters have moved since that progress began (times the
    part of the round that was computed before they moved, with `delay` below `inner_steps`); the
    clip is by norm, its limit in lengths of the mean progress, too, and applies to the momentum
    itself; the mean is weighted by samples. Optimisers that are sharded are not treated.

    Parameters
    ----------
    model : torch.nn.Module or mapping of str to torch.Tensor
        Its parameters that require a gradient are trained and shared; buffers stay local.
    inner : torch.optim.Optimizer
        Of these parameters. Its state stays local.
    group : None, ProcessGroup, Group, Exchange or Site
        None: torch's default group.
    inner_steps : int
        Local steps of a round, the paper's tau: a multiple of `fragments`.
    rate : float
        Of the outer step, above 0.
    momentum : float
        The outer one, 0 to below 1.
    penalty : bool
        Divide outer steps by their staleness gap.
    clip : float, optional
        The longest that the outer momentum may be, in lengths of the mean progress; None: any.
    fragments : int
        Layer l is in fragment l mod `fragments`.
    delay : int, optional
        Local steps that an exchange has: 1 to `inner_steps`. Default: all of a round.
    codec : Codec or str, optional
        What progress travels as, or a list to choose from, as ``"auto(bf16,int8,int4)"``.
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
    Sun et al., "CO2: Efficient distributed training with full communication-computation overlap",
    ICLR 2024, arXiv:2401.16265: staleness gap penalty, outer momentum clipping.
    """

    method: ClassVar[str] = "CO2"

    def __init__(
        self,
        model: Model,
        inner: torch.optim.Optimizer,
        group: Any = None,
        *,
        inner_steps: int = 50,
        rate: float = 1.0,
        momentum: float = 0.5,
        penalty: bool = True,
        clip: float | None = 3.0,
        fragments: int = 1,
        delay: int | None = None,
        codec: Codec | str | None = None,
        global_batch: int | None = None,
        pace: bool = False,
        inner_state: InnerState = "fresh",
        grace_s: float | None = None,
    ) -> None:
        require(clip is None or clip > 0, "clip", clip, "above 0, or None")
        rounds = overlapped_rounds(self.method, model, inner_steps, fragments, delay)
        self._step = OuterSGD(rate, momentum)
        super().__init__(
            model,
            inner,
            group,
            rounds,
            self._step,
            codec,
            global_batch,
            pace,
            inner_state,
            grace_s,
        )
        self._penalty = penalty
        self._clip = clip
        self.acted: Acted | None = None
        """What penalty and clip did at the latest outer step; None before the first."""
        # How far each fragment's shared parameters have moved at their latest outer step.
        self.shared["moved"] = torch.zeros(fragments, dtype=torch.float64)

    def _outer_step(self, fragment: int, arrived: Mean) -> None:
        length = mixing.norm(arrived.value)
        stale = self.rounds.delay / self.rounds.inner_steps
        moved = float(self.shared["moved"][fragment]) * stale
        gap = mixing.staleness(moved, length) if self._penalty else 1.0
        direction = self._step.direction(arrived.value, self._state(fragment))
        limit = float("inf") if self._clip is None else self._clip * length
        before = mixing.clip(direction, limit)
        self._outer(fragment).sub_(direction, alpha=self._step.rate / gap)
        self.shared["moved"][fragment] = min(before, limit) * self._step.rate / gap
        self.acted = Acted(gap, before, limit)

    def settings(self) -> dict[str, Any]:
        """Return what a checkpoint must have alike with the trainer that loads it."""
        return {**super().settings(), "penalty": self._penalty, "clip": self._clip}
