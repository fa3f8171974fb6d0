"""A member's part of a round: how many samples or local steps it has, and which rows it has passed.

The table of a round has `inner_steps` rows, the same on all members; a member that has n steps of
its own passes them in n steps, several rows at a time or one in several steps. So members that do
unequally much begin the same collectives in the same order, and the table stays what it is.
Why: docs/decisions/0179-a-round-has-rows-and-members-have-shares.md
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from holdfast.compress.options import require
from holdfast.errors import ConfigError
from holdfast.ft.outer.pace import Pace

_DONE, _SHARE = 0, 1


def shares(total: int, speeds: Sequence[float]) -> list[int]:
    """Deal a whole number out by speeds; the sum is exactly it, and each gets 1 at least.

    Parameters
    ----------
    total : int
        As many as there are speeds, and more.
    speeds : sequence of float
        Above 0, in the order of ranks; the same on all members.
    """
    whole = sum(speeds)
    # One to each first, so that nobody has a round without a step.
    rest = total - len(speeds)
    exact = [rest * speed / whole for speed in speeds]
    dealt = [1 + int(part) for part in exact]
    # Largest remainders; of equals the lowest rank.
    order = sorted(range(len(speeds)), key=lambda at: (int(exact[at]) - exact[at], at))
    for at in order[: total - sum(dealt)]:
        dealt[at] += 1
    return dealt


class Turn:
    """Where a member is in its part of the round.

    Parameters
    ----------
    rows : int
        Rows of the round, `inner_steps`.
    global_batch : int, optional
        Samples of a round over all members; None: each member does `rows` local steps.
    members : callable
        Returns the ranks that have a member, as agreed at the latest boundary.
    rank : int
        This member's.
    pace : Pace
        By whose speeds shares are dealt, if it is on.

    Raises
    ------
    ConfigError
        For a batch that cannot be dealt to the members.
    """

    def __init__(
        self,
        rows: int,
        global_batch: int | None,
        members: Callable[[], tuple[int, ...]],
        rank: int,
        pace: Pace,
    ) -> None:
        if global_batch is not None:
            fits = isinstance(global_batch, int) and global_batch >= 1
            accepted = "a whole number of samples, 1 and more: those of a round over all members"
            require(fits, "global_batch", global_batch, accepted)
        self._rows = rows
        self._batch = global_batch
        self._members = members
        self._rank = rank
        self._pace = pace
        self.own = torch.zeros(2, dtype=torch.int64)
        """What is done of this member's share of the round, and the share; 0 before it is dealt."""
        # Whether all members are after the same row.
        self._is_aligned = True
        self._dealt()

    @property
    def is_even(self) -> bool:
        """Whether all members pass the same rows in the same local steps."""
        return self._batch is None and not self._pace.is_on

    @property
    def is_whole(self) -> bool:
        """Whether a round has just ended, or none has begun."""
        return not self.own[_DONE]

    def __str__(self) -> str:
        """What all members must have alike of it."""
        return f"global_batch={self._batch}, pace={self._pace.is_on}"

    def _dealt(self) -> int:
        """Return this member's share of a round that begins with the members as they are now."""
        if self.is_even:
            return self._rows
        members = self._members()
        if self._batch is None:
            # The fastest does all of the round's steps, the others as many as they can meanwhile.
            return max(1, round(self._rows * self._pace.part(self._rank, members)))
        if self._batch < len(members):
            raise ConfigError(
                f"global_batch = {self._batch} with {len(members)} members; accepted: "
                f"{len(members)} and more, a sample for each; make trainers with a larger one, or "
                "let fewer members in"
            )
        return shares(self._batch, self._pace.speeds(members))[members.index(self._rank)]

    @property
    def share(self) -> int:
        """This member's part of the round: samples with a global batch, else local steps."""
        return int(self.own[_SHARE]) or self._dealt()

    @property
    def left(self) -> int:
        """What is left of it."""
        return self.share - int(self.own[_DONE])

    def next_batch(self, most: int) -> int:
        """Return how many samples the next local step is to be of.

        Parameters
        ----------
        most : int
            Samples that fit in a step.
        """
        require(most >= 1, "most", most, "1 and more")
        if self._batch is None:
            return most
        # Steps of about one size: a last one of few samples would be noise to the inner optimiser.
        steps = -(-self.left // most)
        return -(-self.left // steps)

    def check(self, samples: float) -> None:
        """Refuse samples that this member's share has no room for.

        Parameters
        ----------
        samples : float
            Of a local step.
        """
        if self._batch is None:
            return
        left = self.left
        fits = samples == int(samples) and 1 <= samples <= left
        if not fits:
            raise ConfigError(
                f"samples = {samples} with global_batch = {self._batch}, of which this member has "
                f"{left} left in this round; accepted: whole numbers from 1 to {left}; ask "
                "trainer.next_batch(most) before each step"
            )

    def units(self, samples: float) -> float:
        """Return how much of a share a local step is: its samples with a global batch, else 1.

        Parameters
        ----------
        samples : float
            Of the step.
        """
        return 1 if self._batch is None else samples

    def passed(self, samples: float, steps: int) -> range:
        """Take note of a local step, and return the rows that are passed with it.

        Parameters
        ----------
        samples : float
            Checked.
        steps : int
            Rows passed since the beginning of the run.
        """
        share = self.share
        done = int(self.own[_DONE]) + int(self.units(samples))
        ended = done >= share
        self.own[_DONE], self.own[_SHARE] = (0, 0) if ended else (done, share)
        self._is_aligned = self.is_even or ended
        return range(steps % self._rows + 1, self._rows * done // share + 1)

    def due_s(self, row: int) -> float | None:
        """Return after how much computation the fastest member passes a row of a round.

        Parameters
        ----------
        row : int
            1 to as many as there are.

        Returns
        -------
        float or None
            Seconds; None while nobody has told what a unit costs, and where nobody else is there.
        """
        members = self._members()
        fastest = self._pace.fastest(members)
        if fastest is None or len(members) < 2:
            return None
        if self._batch is None:
            return fastest * row
        speeds = self._pace.speeds(members)
        # Where shares are even, the fastest has one of them.
        whole = self._batch / sum(speeds) * (1.0 if self._pace.is_on else fastest)
        return whole * row / self._rows

    def deal_anew(self, steps: int) -> None:
        """Have a share among other members, with what was passed of the round done.

        Parameters
        ----------
        steps : int
            Rows passed since the beginning of the run.
        """
        self.own.zero_()
        self.go_to(steps)

    def go_to(self, steps: int) -> None:
        """Be where all members are: this one has come in there, or a loss was an error there.

        Parameters
        ----------
        steps : int
            Rows passed since the beginning of the run.
        """
        place, share = steps % self._rows, self.share
        # Something is left to do, so that the rows that follow are passed.
        done = min(-(-place * share // self._rows), share - 1)
        self.own[_DONE], self.own[_SHARE] = (done, share) if place else (0, 0)
        self._is_aligned = True

    def refuse_within(self, what: str) -> None:
        """Refuse what all members have to do at the same place, where they may not be.

        Parameters
        ----------
        what : str
            Of the trainer.
        """
        if not self._is_aligned:
            raise ConfigError(
                f"{what} in the middle of a round with {self}: members are at other places of it; "
                "accepted: between rounds, where trainer.at_boundary is true"
            )
