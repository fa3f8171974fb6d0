"""DiLoCo: many local steps of an inner optimiser, then a step of an outer one that waits."""

from __future__ import annotations

from typing import Any, ClassVar

import torch

from holdfast.compress.codec import Codec
from holdfast.ft.outer.donor import InnerState
from holdfast.ft.outer.flat import Model, rounds_of
from holdfast.ft.outer.optimizers import OuterNesterov, OuterOptimizer
from holdfast.ft.outer.trainer import Trainer


class DiLoCo(Trainer):
    """Local steps, then an outer step along the members' mean progress, which all wait for.

    Departures from the paper: the mean is weighted by samples; progress may travel coded; the outer
    momentum is 0.5 unless said otherwise, where the paper has 0.9.

    Parameters
    ----------
    model : torch.nn.Module or mapping of str to torch.Tensor
        Its parameters that require a gradient are trained and shared; buffers stay local.
    inner : torch.optim.Optimizer
        Of these parameters; the paper's is AdamW. Its state stays local.
    group : None, ProcessGroup, Group, Exchange or Site
        None: torch's default group.
    inner_steps : int
        Local steps of a round, the paper's H.
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
    Douillard et al., "DiLoCo: Distributed low-communication training of language models", 2023,
    arXiv:2311.08105, Algorithm 1.
    """

    method: ClassVar[str] = "DiLoCo"

    def __init__(
        self,
        model: Model,
        inner: torch.optim.Optimizer,
        group: Any = None,
        *,
        inner_steps: int = 50,
        codec: Codec | str | None = None,
        outer: OuterOptimizer | None = None,
        global_batch: int | None = None,
        pace: bool = False,
        inner_state: InnerState = "fresh",
        grace_s: float | None = None,
    ) -> None:
        rounds = rounds_of(self.method, model, inner_steps, 1, 0)
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
