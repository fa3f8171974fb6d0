"""The inner optimiser's state of a member, given to one that has come in.

Inner states are each member's own, so no sync and no vote makes them alike: the lowest rank of
those who were there before sends its own, from one to one, and all others go on meanwhile. A member
that dies on the way leaves the newcomer with a fresh state.
"""

from __future__ import annotations

import io
import warnings
from typing import Any, Literal

import torch

from holdfast.comm.group import Group
from holdfast.comm.outcome import View
from holdfast.comm.work import Work
from holdfast.compress.options import require
from holdfast.errors import ConfigError, PeerLost

InnerState = Literal["fresh", "donor"]
# An inner state is no longer than so many times its parameters, and some more for its names: L-BFGS
# keeps a hundred gradients and as many steps.
_TIMES_PARAMETERS = 256
_BYTES_OF_NAMES = 1 << 20
# Of messages between a donor and a newcomer; out of the way of small numbers, which programs use.
TAG = 0x6F757465


class Donor:
    """Gives, or takes, at step boundaries.

    Parameters
    ----------
    kind : str
        ``"fresh"``: newcomers begin with an empty inner state; ``"donor"``: with a member's.
    group : Group or None
        What messages go through; None: the members never change.
    inner : torch.optim.Optimizer
        This member's.
    """

    def __init__(self, kind: InnerState, group: Group | None, inner: torch.optim.Optimizer) -> None:
        require(kind in ("fresh", "donor"), "inner_state", kind, "'fresh' or 'donor'")
        self.kind = kind
        self._group = group
        self._inner = inner
        # What is being sent, with its memory, until the next boundary.
        self._sent: list[tuple[Work | None, torch.Tensor]] = []

    def at(self, view: View) -> None:
        """Give or take at a boundary that somebody has come in at.

        Parameters
        ----------
        view : View
            Of the boundary, the same on all members.
        """
        there = [rank for rank in view.ranks if rank not in view.joined]
        if self.kind == "fresh" or self._group is None or not view.joined or not there:
            return
        if self._group.rank in view.joined:
            self._take(self._group, there[0])
        elif self._group.rank == there[0]:
            self._give(self._group, view.joined)

    def finish(self) -> None:
        """Wait until what has been given has gone; before a boundary, where nothing is under way.

        Who has died meanwhile needs nothing any more.
        """
        sent, self._sent = self._sent, []
        for work, _ in sent:
            try:
                if work is not None:
                    work.wait()
            except PeerLost:
                continue

    def _give(self, group: Group, newcomers: tuple[int, ...]) -> None:
        file = io.BytesIO()
        torch.save(self._inner.state_dict()["state"], file)
        state = torch.frombuffer(bytearray(file.getvalue()), dtype=torch.uint8)
        length = torch.tensor([state.numel()], dtype=torch.int64)
        for rank in newcomers:
            for tensor in (length, state):
                self._sent.append((group.send(tensor, rank, TAG, async_op=True), tensor))

    def _checked(self, length: int, donor: int) -> int:
        """Return a length that a donor has told, if an inner state of this member may have it."""
        groups = self._inner.param_groups
        own = sum(p.numel() * p.element_size() for group in groups for p in group["params"])
        most = own * _TIMES_PARAMETERS + _BYTES_OF_NAMES
        if not 0 < length <= most:
            raise ConfigError(
                f"inner_state = 'donor': rank {donor} tells of a state of {length} bytes; "
                f"accepted: up to {most}, for {own} bytes of parameters; make all members' "
                "trainers alike"
            )
        return length

    def _take(self, group: Group, donor: int) -> None:
        length = torch.zeros(1, dtype=torch.int64)
        try:
            group.recv(length, donor, TAG)
            frame = torch.empty(self._checked(int(length), donor), dtype=torch.uint8)
            group.recv(frame, donor, TAG)
        except PeerLost:
            warnings.warn(
                f"inner_state = 'donor': rank {donor} was lost while it gave its inner state; this "
                "member begins with a fresh one",
                RuntimeWarning,
                stacklevel=5,
            )
            return
        # Tensors and numbers alone: a frame runs no code.
        state: dict[str, Any] = torch.load(
            io.BytesIO(frame.numpy().tobytes()), weights_only=True, map_location="cpu"
        )
        own = self._inner.state_dict()
        places = {place for group in own["param_groups"] for place in group["params"]}
        if not set(state) <= places:
            raise ConfigError(
                "inner_state = 'donor': the donor's inner optimiser has more parameters than this "
                "member's; accepted: the same parameters in the same order on all members"
            )
        self._inner.load_state_dict({**own, "state": state})
