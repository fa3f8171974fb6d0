"""LocalSGD: the average of the members' parameters after every few local steps."""

from __future__ import annotations

from typing import Any, ClassVar

import torch

from holdfast.compress.codec import Codec
from holdfast.ft.outer.donor import InnerState
from holdfast.ft.outer.flat import Model, rounds_of
from holdfast.ft.outer.optimizers import OuterSGD
from holdfast.ft.outer.trainer import Trainer


class LocalSGD(Trainer):
    """Local steps, then the average of the members' parameters, weighted by their samples.

    Departures from the paper: any inner optimiser, whose own state stays local; weights. With a
    codec progress travels, what each member has moved since the last average, and not parameters.

    Parameters
    ----------
    model : torch.nn.Module or mapping of str to torch.Tensor
        Its parameters that require a gradient are trained and shared; buffers stay local.
    inner : torch.optim.Optimizer
        Of these parameters.
    group : None, ProcessGroup, Group, Exchange or Site
        None: torch's default group.
    inner_steps : int
        Local steps of a round.
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
    Stich, "Local SGD converges fast and communicates little", ICLR 2019, arXiv:1805.09767,
    Algorithm 1.
    """

    method: ClassVar[str] = "LocalSGD"

    def __init__(
        self,
        model: Model,
        inner: torch.optim.Optimizer,
        group: Any = None,
        *,
        inner_steps: int = 50,
        codec: Codec | str | None = None,
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
            OuterSGD(),
            codec,
            global_batch,
            pace,
            inner_state,
            grace_s,
        )
