"""SparseLoCo: the largest part of the progress travels, the rest is owed, and fades."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import torch

from holdfast.compress.exchange import Pending
from holdfast.compress.options import require
from holdfast.ft.outer import mean, sparse_frame
from holdfast.ft.outer.donor import InnerState
from holdfast.ft.outer.flat import Model, rounds_of
from holdfast.ft.outer.optimizers import OuterSGD
from holdfast.ft.outer.trainer import Trainer

# In front of a frame: the weight and the number of samples as float64, whether the progress was not
# finite, and 1, which says that somebody has sent it, as the rows of ranks that are away are zeros.
_NUMBERS = 16
_HEADER = _NUMBERS + 2


class SparseLoCo(Trainer):
    """Local steps, then an outer step along the mean of the members' largest progress.

    Of each chunk of 4096 elements the largest travel, with 12-bit places and 2-bit values. What a
    member does not send stays in its residual, which is multiplied by `decay` in each round and
    added to the next progress: this takes the place of an outer momentum.

    Departures from the paper: chunks are of a fragment's flat vector, not of matrices' blocks; the
    two bits are a sign and one of two magnitudes; the mean is weighted by samples.

    Parameters
    ----------
    model : torch.nn.Module or mapping of str to torch.Tensor
        Its parameters that require a gradient are trained and shared; buffers stay local.
    inner : torch.optim.Optimizer
        Of these parameters; the paper's is AdamW. Its state stays local.
    group : None, ProcessGroup, Group, Exchange or Site
        None: torch's default group.
    inner_steps : int
        Local steps of a round.
    ratio : float
        The part of the elements that travels, above 0, to 1.
    decay : float
        Of the residual, 0 to 1.
    error_feedback : bool
        False: what is not sent is lost.
    rate : float
        Of the outer step, above 0.
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
    Sarfi et al., "Communication efficient LLM pre-training with SparseLoCo", 2025,
    arXiv:2508.15706, Algorithm 1.
    """

    method: ClassVar[str] = "SparseLoCo"

    def __init__(
        self,
        model: Model,
        inner: torch.optim.Optimizer,
        group: Any = None,
        *,
        inner_steps: int = 50,
        ratio: float = 1 / 64,
        decay: float = 0.95,
        error_feedback: bool = True,
        rate: float = 1.0,
        global_batch: int | None = None,
        pace: bool = False,
        inner_state: InnerState = "fresh",
        grace_s: float | None = None,
    ) -> None:
        require(0 < ratio <= 1, "ratio", ratio, "above 0, to 1")
        require(0 <= decay <= 1, "decay", decay, "0 to 1")
        rounds = rounds_of(self.method, model, inner_steps, 1, 0)
        super().__init__(
            model,
            inner,
            group,
            rounds,
            OuterSGD(rate),
            None,
            global_batch,
            pace,
            inner_state,
            grace_s,
        )
        self._averages = False
        self._ratio = ratio
        self._decay = decay
        self._feedback = error_feedback
        # What is left when the exchange under way has ended well.
        self._left: dict[int, torch.Tensor] = {}
        if error_feedback:
            for fragment, flat in enumerate(self._flats):
                self._own[f"residual/{fragment}"] = flat.zeros()

    def _begin_mean(
        self, fragment: int, sent: torch.Tensor, share: mean.Share
    ) -> mean.MeanUnderWay:
        # What counts for nothing takes nothing out of the residual.
        owes = self._feedback and share.told > 0
        if owes:
            sent.add_(self._own[f"residual/{fragment}"], alpha=self._decay)
        frame = sparse_frame.encode(sent if share.finite else torch.zeros_like(sent), self._ratio)
        if owes:
            gone = sparse_frame.decode(frame, sent.numel(), self._ratio)
            self._left[fragment] = sent.sub_(gone)
        head = torch.tensor([share.told, share.count], dtype=torch.float64).view(torch.uint8)
        marks = torch.tensor([not share.finite, 1], dtype=torch.uint8)
        own = torch.cat([head.to(frame.device), marks.to(frame.device), frame])
        exchange = self._seat.exchange
        rows = torch.zeros(exchange.size, own.numel(), dtype=torch.uint8, device=own.device)
        count = self._flats[fragment].zeros()
        return _Rows(exchange.gather(rows, own), rows, own, count, self._ratio)

    def _end(self, fragment: int) -> None:
        super()._end(fragment)
        if (left := self._left.pop(fragment, None)) is not None:
            self._own[f"residual/{fragment}"].copy_(left)

    def _take_back(self, fragment: int) -> None:
        self._left.pop(fragment, None)

    def _take_over(self) -> None:
        super()._take_over()
        for name, tensor in self._own.items():
            if name.startswith("residual/"):
                tensor.zero_()

    def settings(self) -> dict[str, Any]:
        """Return what a checkpoint must have alike with the trainer that loads it."""
        return {**super().settings(), "ratio": self._ratio, "error_feedback": self._feedback}


@dataclass(frozen=True, slots=True)
class _Rows:
    """Frames under way; they are added up in the order of ranks."""

    pending: Pending
    rows: torch.Tensor
    own: torch.Tensor  # until it has been sent
    total: torch.Tensor
    ratio: float

    def wait(self) -> mean.Mean:
        self.pending.wait()
        found: list[tuple[int, float, bool]] = []
        counts: dict[int, float] = {}
        for rank, row in enumerate(self.rows):
            if not row[_HEADER - 1]:
                continue
            weight, counts[rank] = row[:_NUMBERS].clone().view(torch.float64).tolist()
            found.append((rank, weight, bool(row[_NUMBERS])))
            if weight:
                frame = sparse_frame.decode(row[_HEADER:], self.total.numel(), self.ratio)
                self.total.add_(frame, alpha=weight)
        return mean.arrived(self.total, found, sum(weight for _, weight, _ in found), counts)
