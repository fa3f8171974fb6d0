"""Streaming DiLoCo: fragments take turns, and members compute on while one of them travels."""

from __future__ import annotations

from typing import Any, ClassVar

import torch

from holdfast.compress.codec import Codec
from holdfast.compress.options import require
from holdfast.ft.outer import mixing
from holdfast.ft.outer.donor import InnerState
from holdfast.ft.outer.flat import Model, rounds_of
from holdfast.ft.outer.optimizers import OuterNesterov, OuterOptimizer
from holdfast.ft.outer.trainer import Trainer


class StreamingDiLoCo(Trainer):
    """DiLoCo by fragments of layers, each exchanged at its own time beside the computation.

    A fragment's exchange has `delay` local steps; what arrives is mixed with the parameters that
    the member has by then. The peak rate is that of one fragment.

    Departures from the paper: without a delay nothing is mixed unless `mix` says so, so that one
    fragment without delay is DiLoCo; the mean is weighted by samples; codecs are ours, and the
    outer momentum is 0.5 unless said otherwise.

    Parameters
    ----------
    model : torch.nn.Module or mapping of str to torch.Tensor
        Its parameters that require a gradient are trained and shared; buffers stay local.
    inner : torch.optim.Optimizer
        Of these parameters. Its state stays local.
    group : None, ProcessGroup, Group, Exchange or Site
        None: torch's default group.
    inner_steps : int
        Local steps of a round, the paper's H: a multiple of `fragments`.
    fragments : int
        Layer l is in fragment l mod `fragments`.
    delay : int
        Local steps that an exchange has, the paper's tau: below `inner_steps`.
    mix : float, optional
        The part of the local parameters in what is mixed, the paper's alpha. Default: 0.5 with a
        delay, else 0.
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
    Douillard et al., "Streaming DiLoCo with overlapping communication: towards a distributed free
    lunch", 2025, arXiv:2501.18512, Algorithm 2.
    """

    method: ClassVar[str] = "StreamingDiLoCo"

    def __init__(
        self,
        model: Model,
        inner: torch.optim.Optimizer,
        group: Any = None,
        *,
        inner_steps: int = 50,
        fragments: int = 2,
        delay: int = 0,
        mix: float | None = None,
        codec: Codec | str | None = None,
        outer: OuterOptimizer | None = None,
        global_batch: int | None = None,
        pace: bool = False,
        inner_state: InnerState = "fresh",
        grace_s: float | None = None,
    ) -> None:
        accepted = (
            f"0 to {inner_steps - 1}, below inner_steps = {inner_steps}; AsyncDiLoCo and CO2 have "
            "a whole round for an exchange"
        )
        require(0 <= delay < max(1, inner_steps), "delay", delay, accepted)
        keep = (0.5 if delay else 0.0) if mix is None else mix
        require(0 <= keep <= 1, "mix", mix, "0 to 1")
        rounds = rounds_of(self.method, model, inner_steps, fragments, delay)
        super().__init__(
            model,
            inner,
            group,
            rounds,
            outer or OuterNesterov(),
            codec,
            global_batch,
            pace,
            inner_state,
            grace_s,
        )
        self._keep = keep

    def _put(self, fragment: int, outer: torch.Tensor) -> None:
        flat = self._flats[fragment]
        flat.write(mixing.mix(flat.read(), outer, self._keep))

    def settings(self) -> dict[str, Any]:
        """Return what a checkpoint must have alike with the trainer that loads it."""
        return {**super().settings(), "mix": self._keep}
