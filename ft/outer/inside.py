"""What the ranks of a site agree on among themselves, by small ops inside it.

How many samples the site has done, whether all of its ranks have a mean before one of them mixes it
in, and which sites are there. Who makes it, and of what, is in `site`.
Why: docs/decisions/0182-a-site-is-a-group-of-shards.md
"""

from __future__ import annotations

import contextlib
import secrets
import threading
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch

from holdfast.comm.outcome import View
from holdfast.compress.exchange import Exchange
from holdfast.errors import ConfigError, HoldfastError, NotMember, PeerLost, Timeout
from holdfast.ft.outer import mean

# By number, which ranks of a site tell each other; the last is any other.
_ERRORS: tuple[type[HoldfastError], ...] = (
    PeerLost,
    Timeout,
    NotMember,
    ConfigError,
    HoldfastError,
)
# A site whose ranks come in one by one has so long for it: the others wait at the boundary.
_LIMIT_S = 10.0
# Between two turns of a boundary: a shard whose newcomer is on its way does not spin.
_PACE_S = 0.02


class Inside:
    """The ops inside a site; all of its ranks make it at the same place.

    Parameters
    ----------
    exchange : Exchange
        Over the ranks of the site.
    ranks : tuple of int or None
        The same, as torch's default group numbers them; None where that does not know them.
    device : torch.device
        Whose tensors the exchange takes.
    """

    def __init__(
        self, exchange: Exchange, ranks: tuple[int, ...] | None, device: torch.device
    ) -> None:
        self._within = exchange
        self.ranks = ranks
        self._device = device
        # Of this start of the site: one that has come back is another one.
        self._name = self._gather([1 + secrets.randbits(61)])[0][0]

    # ---- outer steps -----------------------------------------------------------------------------

    def total(self, samples: float, finite: bool) -> tuple[float, bool]:
        """Return the samples of all ranks, and whether what they bring is finite; collective.

        Parameters
        ----------
        samples : float
            Of this rank.
        finite : bool
            Whether its progress is.
        """
        bits = torch.tensor([samples], dtype=torch.float64).view(torch.int64)
        rows = self._gather([int(bits), int(finite)])
        counts = torch.tensor([row[0] for row in rows], dtype=torch.int64).view(torch.float64)
        return float(counts.sum()), all(row[1] for row in rows)

    def commit(self, under_way: mean.MeanUnderWay) -> mean.Mean:
        """Wait for a mean until all ranks of the site have theirs; collective.

        Parameters
        ----------
        under_way : MeanUnderWay
            This rank's.

        Raises
        ------
        HoldfastError
            On all ranks of the site, when one of them has no mean: its own there, and one of the
            same class on the others.
        """
        failed: HoldfastError | None = None
        try:
            arrived = under_way.wait()
        except HoldfastError as error:
            failed = error
        self.agree(failed, "has no mean; this site is not in this outer step")
        return arrived

    def agree(self, failed: HoldfastError | None, what: str) -> None:
        """Raise on all ranks of the site if one of them has failed; collective.

        Parameters
        ----------
        failed : HoldfastError or None
            Of this rank.
        what : str
            What a rank that has failed lacks.
        """
        codes = [row[0] for row in self._gather([_code(failed)])]
        if failed is not None:
            raise failed
        bad = [rank for rank, code in enumerate(codes) if code]
        if bad:
            kind = _ERRORS[codes[bad[0]] - 1]
            raise kind(f"rank {bad[0]} of this site {what}: it has raised {kind.__name__}", bad)

    # ---- boundaries ------------------------------------------------------------------------------

    def whole(self, view: View, exchange: Exchange, advance: Callable[[], View]) -> View:
        """Pass a boundary until sites that come in have done so with all their ranks; collective.

        A site's ranks come in through groups of their own, one for each shard, and not at one
        instant. The shards that lack a rank of a site pass their boundary again.

        Parameters
        ----------
        view : View
            Of the boundary, as this rank's group across has it.
        exchange : Exchange
            Over that group.
        advance : callable
            Passes its boundary again.

        Raises
        ------
        PeerLost
            When this site has lost a rank.
        Timeout
            At a site whose ranks did not all come in.
        """
        comes = exchange.rank in view.joined
        if not comes and not any(row[0] for row in self._gather([int(bool(view.joined))])):
            return view
        exchange.regroup(view.ranks)
        begin = time.monotonic()
        while True:
            found, joined = self._turn(exchange, comes, time.monotonic() - begin > _LIMIT_S)
            if not found.unequal or found.ends:
                break
            if found.lacks:
                view = advance()
                exchange.regroup(view.ranks)
            threading.Event().wait(_PACE_S)
        if found.unequal and comes:
            raise Timeout(
                "other ranks of this site did not come in with this one; start the site again"
            )
        # Who came in at the last of several boundaries has not seen the first ones.
        return view._replace(joined=tuple(rank for rank in joined if rank in view.ranks))

    def _turn(self, exchange: Exchange, comes: bool, late: bool) -> tuple[_Found, list[int]]:
        """Compare the shards' sites; what is found is the same on all members of the shard.

        Who comes in hears it from the others: the other ranks of its site may not be there yet.
        Returned with it: the ranks that come in.
        """
        rows = torch.zeros(exchange.size, 2, dtype=torch.int64)
        own = torch.tensor([self._name, int(comes)])
        # With on_peer_loss="raise" a loss is an error at one op on all of the shard, who lack
        # everything then, so that the boundary is passed again.
        with contextlib.nullcontext() if comes else contextlib.suppress(PeerLost):
            exchange.gather(rows, own).wait()
        here = [name for name, _ in rows.tolist() if name]
        joined = [rank for rank, (_, is_new) in enumerate(rows.tolist()) if is_new]
        found = _Found(False, False, False) if comes else self._compare(here, late)
        told = torch.tensor(found, dtype=torch.int64)
        with contextlib.nullcontext() if comes else contextlib.suppress(PeerLost):
            exchange.sum(told).wait()
            heard = _Found(*map(bool, told.tolist()))
            # A site whose time is up says so in all shards, so all of them hear it in one turn.
            found = heard if comes else found._replace(ends=heard.ends)
        return found, joined

    def _compare(self, here: Sequence[int], late: bool) -> _Found:
        """Return what a shard lacks of the sites that the other shards have."""
        told = self._gather([len(here), int(late)])
        most = max(row[0] for row in told)
        rows = self._gather([*here, *[0] * (most - len(here))])
        known = [{name for name in row if name} for row in rows]
        everywhere: set[int] = set().union(*known)
        unequal = any(names != everywhere for names in known)
        return _Found(bool(everywhere - set(here)), unequal, any(row[1] for row in told))

    def _gather(self, values: Sequence[int]) -> list[list[int]]:
        """Return what all ranks of the site tell, by rank; numbers, as many of each."""
        within = self._within
        own = torch.tensor([1, *values], dtype=torch.int64, device=self._device)
        rows = torch.zeros(within.size, own.numel(), dtype=torch.int64, device=self._device)
        within.gather(rows, own).wait()
        told = rows.tolist()
        lost = [rank for rank, row in enumerate(told) if not row[0]]
        if lost:
            raise PeerLost(
                f"this site has lost its rank {lost[0]}, whose shards nobody else has; end its "
                "other ranks, and start the site again: it comes in at the others' next boundary",
                lost,
            )
        return [row[1:] for row in told]


class _Found(NamedTuple):
    """What a rank finds at a boundary."""

    lacks: bool
    """Whether other shards have sites that this one has not."""
    unequal: bool
    """Whether the shards have different sites."""
    ends: bool
    """Whether that has lasted for too long."""


def _code(error: HoldfastError | None) -> int:
    if error is None:
        return 0
    return 1 + next(number for number, kind in enumerate(_ERRORS) if isinstance(error, kind))
