"""What compression has left out so far: one named tensor each, changed by whole ops only.

The rules: a residual is committed with its op, never twice; an op that fails leaves it as it was; a
lost peer's residual is gone with it and the others' are unaffected; a joiner starts at zero; saving
and loading keep every bit. Error feedback itself is Seide et al., "1-bit stochastic gradient
descent", Interspeech 2014; Karimireddy et al., "Error feedback fixes SignSGD", ICML 2019,
arXiv:1901.09847, Algorithm 1.

A *spread* residual is one vector over all ranks, each of which holds a part (the server's side of a
two-phase all-reduce). Parts move when the number of ranks changes; see `respread`.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from typing import Any

import torch

from holdfast import _layer_metrics
from holdfast.compress.exchange import Exchange
from holdfast.compress.options import require
from holdfast.errors import ConfigError

# Their norm is for /metrics. To look at it reads all of them: worth a thousandth of the time, and
# one a second.
_LOOK_PAUSE_S = 1.0
_LOOK_SHARE = 1000.0


class Residuals:
    """Named residuals of one rank.

    An op calls `get`, and later either `commit` or `rollback`, once. Not for several threads.

    Parameters
    ----------
    method : str
        Under which their norm is told.
    """

    def __init__(self, method: str = "other") -> None:
        self._method = method
        self._next_look = 0.0
        self._kept: dict[str, torch.Tensor] = {}
        # Of spread residuals: where the part begins, elements of the vector, number of parts.
        self._spread: dict[str, tuple[int, int, int]] = {}
        # Spread residuals not moved since the members changed; whether they ever did.
        self._stale: set[str] = set()
        self._changed = False
        self._open: set[str] = set()
        self._lost: set[int] = set()

    def __contains__(self, name: str) -> bool:
        return name in self._kept

    def __len__(self) -> int:
        return len(self._kept)

    @property
    def lost(self) -> frozenset[int]:
        """Ranks whose residuals are gone."""
        return frozenset(self._lost)

    def peek(self, name: str) -> torch.Tensor | None:
        """Return the committed residual without beginning an op; None: zero.

        Parameters
        ----------
        name : str
            As for `get`.
        """
        return self._kept.get(name)

    def get(
        self, name: str, shape: torch.Size, dtype: torch.dtype, device: torch.device
    ) -> torch.Tensor:
        """Begin an op on a residual.

        Parameters
        ----------
        name : str
            The tensor's, the same on all ranks and over restarts.
        shape : torch.Size
            What it must have; it is made of zeros where there is none yet.
        dtype : torch.dtype
            Of new ones.
        device : torch.device
            It is moved there.

        Returns
        -------
        torch.Tensor
            The committed residual itself: it may be written only when nothing of the op can fail
            any more, directly before `commit`.

        Raises
        ------
        ConfigError
            When an op on it is under way, or it has another shape.
        """
        if name in self._open:
            raise ConfigError(
                f"residual {name!r}: an op on it is under way; accepted: one at a time"
            )
        kept = self._kept.get(name)
        if kept is None:
            kept = torch.zeros(shape, dtype=dtype, device=device)
        elif kept.device != device:
            kept = kept.to(device)
        require(
            kept.shape == shape, f"shape of residual {name!r}", tuple(shape), f"{tuple(kept.shape)}"
        )
        self._open.add(name)
        return kept

    def commit(self, name: str, value: torch.Tensor) -> None:
        """End an op: what is left now.

        Parameters
        ----------
        name : str
            As for `get`.
        value : torch.Tensor
            Owned by the store from here on.

        Raises
        ------
        ConfigError
            Without a `get` before it: an op is committed once, never twice.
        """
        self._close(name, "commit")
        self._kept[name] = value
        now = time.monotonic()
        if now >= self._next_look:
            _layer_metrics.residual(self._method, self, self._squares())
            seen = time.monotonic()
            self._next_look = seen + max(_LOOK_PAUSE_S, (seen - now) * _LOOK_SHARE)

    def _squares(self) -> float:
        """Return the sum of all elements' squares; one wait for a device, whatever their number."""
        norms = [torch.linalg.vector_norm(t.detach()).double() for t in self._kept.values()]
        return float(torch.stack([n.to(norms[0].device) for n in norms]).square().sum())

    def rollback(self, name: str) -> None:
        """End an op that failed: the residual stays as it was.

        Parameters
        ----------
        name : str
            As for `get`.

        Raises
        ------
        ConfigError
            Without a `get` before it.
        """
        self._close(name, "rollback")

    def _close(self, name: str, what: str) -> None:
        if name not in self._open:
            raise ConfigError(
                f"residual {name!r}: {what} without an op under way; accepted: once after each get"
            )
        self._open.discard(name)

    # ---- spread over the ranks -------------------------------------------------------------------

    def respread(
        self, name: str, total: int, length: int, exchange: Exchange, device: torch.device
    ) -> None:
        """Give each member its part of a spread residual; collective when members have changed.

        The vector is put together by one sum of its parts, exactly, since every element has one
        holder; the parts of lost ranks are zeros.

        Parameters
        ----------
        name : str
            The residual's.
        total : int
            Elements of the whole vector.
        length : int
            Elements of each member's part, in the order of their ranks; the last may reach beyond
            the vector.
        exchange : Exchange
            Over the members of now.
        device : torch.device
            Where the vector is.
        """
        start = exchange.members.index(exchange.rank) * length
        count = len(exchange.members)
        before = self._spread.get(name)
        moved = name in self._stale if before is not None else self._changed
        if before is not None and before[1:] != (total, count):
            moved = True
        kept = self._kept.get(name)
        if moved:
            whole = torch.zeros(total, dtype=torch.float32, device=device)
            if kept is not None and before is not None and before[1] == total:
                old = before[0]
                there = max(0, min(kept.numel(), total - old))
                whole[old : old + there] = kept[:there]
            exchange.sum(whole).wait()
            mine = torch.zeros(length, dtype=torch.float32, device=device)
            there = max(0, min(length, total - start))
            mine[:there] = whole[start : start + there]
            self._kept[name] = mine
        self._stale.discard(name)
        self._spread[name] = (start, total, count)

    # ---- membership and checkpoints --------------------------------------------------------------

    def on_lost(self, rank: int) -> None:
        """A rank is gone, and its residuals with it; the ones here are unaffected.

        Parameters
        ----------
        rank : int
            The lost one.
        """
        self._lost.add(rank)
        self._change()

    def on_join(self, rank: int | None = None) -> None:
        """A rank came in.

        Parameters
        ----------
        rank : int, optional
            Another one: it starts at zero, nothing changes here. Default: this one, so everything
            here is forgotten.
        """
        if rank is None:
            self._kept.clear()
            self._spread.clear()
        else:
            self._lost.discard(rank)
        self._change()

    def on_view(
        self, before: Iterable[int], ranks: Iterable[int], joined: Iterable[int], own: int
    ) -> None:
        """Apply a change of members.

        Parameters
        ----------
        before, ranks, joined : iterable of int
            The ranks of the view before, those of the new view, and those that have come in.
        own : int
            This rank.
        """
        for rank in sorted(set(before) - set(ranks)):
            self.on_lost(rank)
        for rank in joined:
            self.on_join(None if rank == own else rank)

    def _change(self) -> None:
        self._open.clear()
        self._changed = True
        self._stale = set(self._spread)

    def state_dict(self) -> dict[str, Any]:
        """Return the committed residuals, by reference as torch's optimisers do; rank-local."""
        return {
            "kept": dict(sorted(self._kept.items())),
            "spread": {name: list(where) for name, where in sorted(self._spread.items())},
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take over what `state_dict` of this rank returned; copies.

        Parameters
        ----------
        state : mapping
            What `state_dict` returned.

        Raises
        ------
        ConfigError
            For a dictionary of something else.
        """
        keys = sorted(state)
        require(keys == ["kept", "spread"], "state of residuals", keys, "'kept' and 'spread'")
        self._kept = {name: tensor.clone() for name, tensor in state["kept"].items()}
        self._spread = {
            name: (int(a), int(b), int(c)) for name, (a, b, c) in state["spread"].items()
        }
        self._open.clear()
