"""A torch Sampler over a ledger: this member's samples, and when they count."""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import torch

from holdfast.compress.options import require
from holdfast.errors import ConfigError
from holdfast.ft.data import ledger
from holdfast.ft.data.ledger import Ledger
from holdfast.ft.data.permutation import permuted

# Indices that are computed at a time.
_BLOCK = 1024
# Places of the stream are int64 on the way, and a permutation's arithmetic is in 64 bits.
_MOST_PLACES = 1 << 62

Batch = TypeVar("Batch")


class DataLedger(torch.utils.data.Sampler[int]):
    """Each sample counts once in an epoch, whoever comes, goes or dies.

    Members lease ranges of the shuffled indices at step boundaries. A sample is committed when the
    mean that has its progress arrives, in all fragments of the model; what a lost member held, and
    what was dropped as it was not finite, is given out again. All members hold the same ledger.

    Give it to a DataLoader as `sampler`, to the trainer by ``trainer.attach(ledger)``, and call
    ``trainer.advance(each_round=True)``, before the first step. ``trainer.step(samples=n)`` says
    that the next n samples, in the order of the DataLoader, have been trained on: those that it has
    only fetched ahead do not count. Epochs follow each other in one stream: while one member ends
    an epoch, another may begin the next.

    Parameters
    ----------
    size : int
        Samples of the dataset.
    lease : int
        Samples that a member holds at most: at least what it trains on in two rounds, and what the
        DataLoader fetches ahead.
    seed : int
        Of the shuffle.
    shuffle : bool
        False: samples are leased in their order.
    epochs : int
        After which the stream ends; `set_epoch` makes it longer.

    Raises
    ------
    ConfigError
        A ValueError that names the bad value and what is accepted.
    """

    def __init__(
        self, size: int, lease: int, *, seed: int = 0, shuffle: bool = True, epochs: int = 1
    ) -> None:
        for name, value in (("size", size), ("lease", lease), ("epochs", epochs)):
            require(_is_whole(value) and value >= 1, name, value, "a whole number, 1 and more")
        require(_is_whole(seed), "seed", seed, "a whole number")
        most = _MOST_PLACES // size
        require(epochs <= most, "epochs", epochs, f"at most {most} of {size} samples")
        self.size, self.lease, self.seed, self.shuffle = size, lease, seed, shuffle
        self.table = torch.zeros(ledger.MOST_WORDS, dtype=torch.int64)
        """The ledger, for programs that sync or save it; the same on all members."""
        self.trained = torch.zeros(1, dtype=torch.int64)
        """Of the samples that this member holds, how many it has trained on."""
        self._words = self.table.numpy()
        # Of all that follows: a late member's stand-in commits and leases while its loader reads.
        self._lock = threading.RLock()
        self._rank = 0
        # Of this member's samples, counted since it has the ledger: those that it holds no more,
        # and those that the DataLoader has.
        self._gone = 0
        self._handed = 0
        # Iterations that began before the ledger was loaded know nothing of what it says now.
        self._life = 0
        self._known = (0, ledger.begun(size * epochs, 1))
        self._write(self._known[1])

    def __repr__(self) -> str:
        """As a call that makes such a ledger, but for `epochs`."""
        return (
            f"DataLedger({self.size}, lease={self.lease}, seed={self.seed}, shuffle={self.shuffle})"
        )

    # ---- what it says ----------------------------------------------------------------------------

    @property
    def digest(self) -> int:
        """Of all that the ledger has: the same on all members after a step boundary."""
        return int(self._words[0])

    @property
    def epoch(self) -> int:
        """The first epoch that is not committed as a whole."""
        return self._state.first // self.size

    @property
    def members(self) -> tuple[int, ...]:
        """Ranks that hold samples, or may; none before the first boundary."""
        return tuple(sorted(self._state.leases))

    @property
    def left(self) -> int:
        """Samples of the stream that are not committed."""
        return self._state.left

    @property
    def is_over(self) -> bool:
        """Whether every sample of the stream is committed."""
        return not self.left

    def __len__(self) -> int:
        """Return how many samples this member may expect: what it holds, and its share of others.

        An estimate, as members come and go.
        """
        state = self._state
        members = max(1, len(state.leases))
        return self._held(state) - int(self.trained) + ledger.length(state.free) // members

    # ---- indices ---------------------------------------------------------------------------------

    def __iter__(self) -> Iterator[int]:
        """Yield the indices of this member's samples, from the first that it has not trained on.

        Ends where nobody has more to give.

        Raises
        ------
        ConfigError
            When the lease is used up and samples are free.
        """
        with self._lock:
            life, at = self._life, self._gone + int(self.trained)
            self._handed = at
        while (block := self._block(at, life)).size:
            for index in block.tolist():
                at += 1
                self._handed = max(self._handed, at)
                yield index

    def batches(self, loader: Iterable[Batch]) -> Iterator[Batch | None]:
        """Yield the batches of a loader until every sample of the stream is committed.

        Parameters
        ----------
        loader : iterable
            A DataLoader with this sampler.

        Yields
        ------
        batch or None
            None where this member holds nothing and others still do: it zeroes its gradients and
            does ``trainer.step(samples=0)``, as all members do the same steps.

        Raises
        ------
        ConfigError
            When the loader has no batch for samples that this member holds.
        """
        while not self.is_over:
            with self._lock:
                left = self._held(self._state) - int(self.trained)
            if not left:
                yield None
                continue
            batch: Batch | None = None
            for batch in loader:
                yield batch
            if batch is None:
                raise ConfigError(
                    f"loader = {loader!r} gave no batch of the {left} samples that this member "
                    "holds; accepted: a DataLoader with this sampler and drop_last=False"
                )

    def set_epoch(self, epoch: int) -> None:
        """Make the stream go on to the end of an epoch; all members alike, after the same step.

        Parameters
        ----------
        epoch : int
            From `epoch` to the one after the last.

        Raises
        ------
        ConfigError
            For another one.
        """
        with self._lock:
            state = self._state
            first, after = min(self.epoch, state.end // self.size), state.end // self.size
            accepted = f"{first} to {after}; begin where the ledger is, at its `epoch`"
            require(_is_whole(epoch) and first <= epoch <= after, "epoch", epoch, accepted)
            if epoch == after:
                opened = state.opened((epoch + 1) * self.size)
                filled = opened.leased(opened.leases, (), self.lease, state.turn + 1)
                self._write(replace(filled, turn=state.turn))

    def _block(self, at: int, life: int) -> npt.NDArray[np.int64]:
        with self._lock:
            places = self._places(at, life)
        found = [self._indices(np.asarray(each, dtype=np.int64)) for each in places]
        return np.concatenate(found) if found else np.zeros(0, dtype=np.int64)

    def _places(self, at: int, life: int) -> list[range]:
        if life != self._life or at < self._gone:
            raise ConfigError(
                "since this iteration began, the ledger was loaded, or another iteration has gone "
                "further; accepted: the latest one; make iter(loader) again"
            )
        state = self._state
        if self._rank not in state.leases:
            raise ConfigError(
                "the ledger has given this member no samples yet; accepted: trainer.attach(ledger) "
                "and trainer.advance(each_round=True) before the first batch"
            )
        ranges = ledger.split(state.leases[self._rank].ranges, at - self._gone)[1]
        places = [range(*each) for each in ledger.split(ranges, _BLOCK)[0]]
        if not places and state.free:
            raise ConfigError(
                f"lease = {self.lease} samples are used up before a step boundary has given more; "
                "accepted: at least those of two rounds and of what the DataLoader fetches ahead; "
                "or trainer.advance(each_round=True) was not called"
            )
        return places

    def _indices(self, places: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        within = places % self.size
        if not self.shuffle:
            return within
        for epoch in np.unique(places // self.size):
            mine = places // self.size == epoch
            within[mine] = permuted(within[mine], self.size, f"{self.seed} {epoch}")
        return within

    # ---- what trainers tell ----------------------------------------------------------------------

    def done(self, samples: float) -> None:
        """Note that this member has trained on the next samples; trainers call it in `step`.

        Parameters
        ----------
        samples : int
            How many.

        Raises
        ------
        ConfigError
            For more than an iteration has given.
        """
        with self._lock:
            given = max(0, self._handed - self._gone - int(self.trained))
            told = f"a whole number, 0 to {given}: what the sampler has given and no step has had"
            fits = float(samples).is_integer() and 0 <= samples <= given
            require(fits, "samples", samples, told)
            self.trained += int(samples)

    def arrived(
        self, fragment: int, counts: Mapping[int, float], dropped: Collection[int] = ()
    ) -> None:
        """Commit the samples that a mean has; trainers call it when one arrives.

        Parameters
        ----------
        fragment : int
            Of the model; without fragments 0.
        counts : mapping of int to int
            Samples by rank, in the order in which the sampler gave them, of all who were there; the
            same on all members. What others held is given out again.
        dropped : collection of int
            Of these ranks, whose progress was not used: their samples are given out again.
        """
        whole = {rank: int(count) for rank, count in counts.items()}
        with self._lock:
            held = self._held(self._state)
            state = self._state.arrived(fragment, whole, dropped)
            gone = held - self._held(state)
            self._gone += gone
            self.trained -= gone
            self._write(state)

    def boundary(self, turn: int, members: Iterable[int], joined: Collection[int] = ()) -> None:
        """Lease samples at a step boundary; trainers call it in `advance`.

        Parameters
        ----------
        turn : int
            Number of the round: at its first boundary all members are given more.
        members : iterable of int
            Ranks that are there; the same on all members, as `members` is, and a view is not while
            somebody dies.
        joined : collection of int
            Of these, who has come in.
        """
        with self._lock:
            if self._rank in joined:
                self._begin_anew()
                self.trained.zero_()
            self._write(self._state.leased(members, joined, self.lease, turn))

    def seat(self, rank: int, fragments: int = 1) -> None:
        """Say whose samples the sampler gives, before anything is leased; trainers call it.

        Parameters
        ----------
        rank : int
            This member's.
        fragments : int
            Of the model.
        """
        self._rank = rank
        self._write(ledger.begun(self._state.end, fragments))

    # ---- state -----------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """Return its state, by reference; a trainer's state has it already.

        ``table`` is the same on all members, ``trained`` is this one's.
        """
        return {"ledger": repr(self), "table": self.table, "trained": self.trained}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take over what `state_dict` has returned; copies.

        Parameters
        ----------
        state : mapping
            Of a ledger that was made as this one.

        Raises
        ------
        ConfigError
            For that of another one.
        ProtocolError
            When the table is damaged.
        """
        keys = sorted(map(str, state))
        require(keys == ["ledger", "table", "trained"], "state of a ledger", keys, "what it saved")
        if state["ledger"] != repr(self):
            raise ConfigError(
                f"the state is of {state['ledger']}; this ledger is {self!r}; accepted: a state of "
                "the same; make the ledger as the saved one was made"
            )
        ledger.read(state["table"].tolist())
        self.table.copy_(state["table"])
        self.trained.copy_(state["trained"])
        self._begin_anew()

    def loaded(self, members: Iterable[int]) -> None:
        """Take note that `table` and `trained` were written from a checkpoint; trainers call it.

        Parameters
        ----------
        members : iterable of int
            Ranks that are there now: those that are new get samples, what others held is free.
        """
        self._begin_anew()
        state = self._state
        if state.leases:
            self._write(state.leased(sorted(members), (), self.lease, state.turn))

    def _begin_anew(self) -> None:
        self._life += 1
        self._gone = self._handed = 0

    @property
    def _state(self) -> Ledger:
        # A newcomer's and a loaded table are written from outside.
        if self._known[0] != self.digest:
            self._known = (self.digest, ledger.read(self._words.tolist()))
        return self._known[1]

    def _write(self, state: Ledger) -> None:
        words = state.words()
        self._words[: len(words)] = words
        self._words[len(words) :] = 0
        self._known = (words[0], state)

    def _held(self, state: Ledger) -> int:
        lease = state.leases.get(self._rank)
        return ledger.length(lease.ranges) if lease else 0


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
