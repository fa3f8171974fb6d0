"""The ops of the keepers' group that a snapshot and a restore consist of.

Their order is the state machine's (`_core.Generations`); what they carry is here.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from holdfast import _core
from holdfast.comm.group import Group
from holdfast.errors import HoldfastError, PeerLost, ProtocolError
from holdfast.ft.state.keeper.coding import Coding, hashes_of
from holdfast.ft.state.keeper.peers import Peers
from holdfast.ft.state.keeper.slots import Id, Seat, Slot, Slots, digest_of, rows_with_damage
from holdfast.ft.state.keeper.sources import Sources, packed, unpacked
from holdfast.ft.state.places import slice_tiles


class Ops:
    """Of one keeper.

    Parameters
    ----------
    peers : Peers
        All keepers.
    slots : Slots
        What this one has.
    ranks : sequence of int
        The ranks of the code group, by its members.
    parity : int
        Of the code; 0: there is none.
    meet : callable
        Meets the members of the code group under a name: of which epoch, which member, how many.
    trainers : int
        How many of these keepers have a trainer of their own, from rank 0 on; the others are there
        for what they have.
    """

    def __init__(
        self,
        peers: Peers,
        slots: Slots,
        ranks: Sequence[int],
        parity: int,
        meet: Callable[[str, int, int], Group],
        trainers: int,
    ) -> None:
        self.peers, self._slots, self.trainers = peers, slots, trainers
        self._ranks, self._parity, self._meet = list(ranks), parity, meet
        self.sources: Sources | None = None
        self._guards: Peers | None = None
        self._coding: Coding | None = None
        self._worn: list[int] = []  # ranks whose parity of the chosen snapshot is damaged
        self._sent_before = 0  # by codings of earlier epochs
        self._counted = 0
        self.damaged = 0
        """Tiles that had other bytes than were captured, in all."""

    @property
    def seat(self) -> Seat:
        """Whose part of a snapshot this keeper is about to get."""
        return Seat(self.peers.rank, tuple(self._ranks), self._parity, self.trainers)

    @property
    def has_guests(self) -> bool:
        """Whether some of these keepers have no trainer of their own: none of them takes any."""
        return self.peers.size > self.trainers

    def take_sent(self) -> int:
        """Return the bytes for other keepers since the last call."""
        sent = self.peers.sent + self._sent_before + self.sent_bytes
        grown, self._counted = sent - self._counted, sent
        return grown

    def renew_guards(self, epoch: int) -> None:
        """Meet the others of the code group, anew in each epoch; collective among them."""
        if not self._parity:
            return
        if self._guards is not None:
            # One of them is lost, and confirms nothing.
            with contextlib.suppress(HoldfastError):
                self._guards.group.close(0.0)
            self._sent_before += self.sent_bytes
            self._coding = None
        name = f"{epoch}/{'-'.join(map(str, self._ranks))}"
        group = self._meet(name, self._ranks.index(self.peers.rank), len(self._ranks))
        self._guards = Peers(group)
        self._coding = Coding(group, len(self._ranks) - self._parity, self._parity)

    @property
    def sent_bytes(self) -> int:
        """What this keeper has given to others for the code in this epoch."""
        return 0 if self._coding is None else self._coding.sent_bytes

    def close(self, timeout_s: float) -> None:
        """Leave all groups."""
        for one in (self._guards, self.peers):
            if one is not None:
                one.group.close(timeout_s)

    def abort(self) -> None:
        """End what runs, in another thread."""
        for one in (self._guards, self.peers):
            if one is not None:
                one.group.abort("the keepers meet anew")

    # ---- a snapshot ------------------------------------------------------------------------------

    def tell_part(
        self, told: Mapping[str, Any]
    ) -> tuple[list[tuple[int, bool, int, int]], list[int], dict[int, Any]]:
        """Tell what was captured here; return everybody's row, who is missing, and all of it."""
        found, missing = self.peers.tell_json(told)
        steps = [one["step"] for one in found.values() if "idle" not in one]
        newest = max(steps, default=0)
        rows = []
        for rank in range(self.peers.size):
            one = found.get(rank, {})
            idle = "idle" in one or not one
            step = newest if idle else one["step"]
            rows.append((step, not idle and one["ok"], one.get("layout", 0), one.get("hashes", 0)))
        return rows, list(missing), found

    def idle(self) -> int:
        """Take part in the first op with nothing; return the others' step, -1: nobody had one."""
        found, _ = self.peers.tell_json({"idle": True})
        return max((one["step"] for one in found.values() if "idle" not in one), default=-1)

    def code(self, slot: Slot) -> Iterator[None]:
        """Make the parity that this keeper holds of the others, and take note of what they have."""
        if self._coding is None or self._guards is None:
            return
        assert slot.part is not None
        old = self._slots.newest
        if old is not None and old.seat != slot.seat:
            old = None
        base = list(old.id) if old is not None and old is not slot else None
        told, missing = self._guards.tell_json(
            {
                "base": base if old is not None and len(old.row_hashes) else None,
                "largest": old.largest if old is not None else 0,
                "layout": bool(old and old.part and old.part.layout == slot.part.layout),
                "nbytes": slot.part.nbytes,
                "part": packed(slot.part, slot.hashes),
            }
        )
        if missing:
            raise PeerLost(f"members {list(missing)} of a code group were lost before its parity")
        bases = {tuple(one["base"] or ()) for one in told.values()}
        slot.largest = max(one["nbytes"] for one in told.values())
        same = all(one["layout"] and one["largest"] == slot.largest for one in told.values())
        slot.guarded = {self._ranks[member]: unpacked(one["part"]) for member, one in told.items()}
        coding = self._coding
        for one in (slot, old):
            if one is not None:
                one.pad(coding.room(slot.largest)[0])
        new = coding.shards(slot.region.view, slot.parity.view, slot.largest)
        before, changed = None, np.ones(new.slices.shape[:2], bool)
        if same and len(bases) == 1 and () not in bases and old is not None:
            before = coding.shards(old.region.view, old.parity.view, slot.largest)
            flat = changed.reshape(-1)
            flat[:] = False
            flat[: len(slot.hashes)] = slot.hashes != old.hashes
        kept = yield from coding.encode(
            new, before, changed, lambda rows: rows_with_damage(old, changed, rows)
        )
        slot.has_parity(self._parity, hashes_of(new.rows, kept, old.row_hashes if old else None))
        if wrong := slot.damaged():
            self.damaged += len(wrong)
            # In memory, since they were captured: what was made of them is wrong as well.
            raise ProtocolError(f"{len(wrong)} tiles have changed while their parity was made")

    def close_op(self, ok: bool, flushing: bool) -> tuple[list[int], bool, bool]:
        """End a snapshot: who was missing, whether all were well, and whether any is flushing."""
        said = np.array([int(ok), int(not flushing)], np.int64)
        self.peers.group.all_reduce(said, op="min")
        outcome = self.peers.group.outcome
        return list(outcome.missing if outcome else ()), bool(said[0]), not bool(said[1])

    # ---- a restore -------------------------------------------------------------------------------

    def reports(self) -> list[dict[str, Any]]:
        """Return what this keeper has, checked byte by byte, for the choice."""
        found = []
        for slot in self._slots.all:
            if not slot.is_whole or not slot.parts:
                continue
            seat, parity = slot.seat, slot.seat.parity
            has_rows = len(slot.row_hashes) > 0 or parity == 0
            tiles = slice_tiles(slot.largest, len(seat.group) - parity) if parity else 0
            damaged, damaged_rows = slot.damaged(), slot.damaged_rows()
            self.damaged += len(damaged) + len(damaged_rows)
            found.append(
                {
                    "holder": self.peers.rank,
                    "place": "memory",
                    "id": slot.id,
                    "committed": slot.is_committed,
                    "rank": seat.rank,
                    "group": list(seat.group),
                    "parity": parity,
                    "slice_tiles": tiles,
                    "parts": slot.parts,
                    "has_body": True,
                    "hashes": digest_of(slot.hashes),
                    "damaged": damaged,
                    "rows": [has_rows] * parity,
                    "damaged_rows": damaged_rows,
                }
            )
        return found

    def choose(
        self, epoch: int, reached: int, refused: Sequence[Id] = ()
    ) -> tuple[int, dict[str, Any]]:
        """Agree on the newest snapshot that all can have; collective.

        Those that were refused, since they were made again with other bytes, are none.

        Returns
        -------
        tuple of int and dict
            The epoch of the group that begins, and the choice.
        """
        mine = {"reports": self.reports(), "epoch": epoch, "reached": reached}
        mine["seat"] = [self._ranks, self._parity]
        told, _ = self.peers.tell_json(mine)
        reports = [
            {**one, "id": tuple(one["id"]), "damaged_rows": [tuple(r) for r in one["damaged_rows"]]}
            for rank in sorted(told)
            for one in told[rank]["reports"]
        ]
        epochs = [one["epoch"] for one in told.values()]
        reached = max(one["reached"] for one in told.values())
        try:
            choice = _core.choose_snapshot(reports, [], reached, refused)
        except HoldfastError as error:
            choice = {"fresh": True, "sources": [], "error": str(error)}
        choice["reached"] = max([reached, *(one["id"][1] for one in reports)])
        if self.sources is not None:
            self.sources.forget()
        self.sources = None
        id = None if choice["fresh"] else tuple(choice["id"])
        if id is not None:
            seats = {rank: (one["seat"][0], one["seat"][1]) for rank, one in told.items()}
            self.sources = Sources(choice, reports, seats, self.trainers, self.peers)
        self._worn = [one["rank"] for one in reports if one["id"] == id and one["damaged_rows"]]
        return 1 + max(epochs), choice

    def rebuild(self, choice: Mapping[str, Any]) -> Generator[None, None, str]:
        """Make again what lost keepers had; collective.

        Where ranks and code groups are as they were, it is there for good, where the ranks' keepers
        are now, and tiles that have been damaged in memory are made again where they are; else all
        that is there until it has been fetched.

        Returns
        -------
        str
            Why what was made is not what was captured; empty: it is.
        """
        if self.sources is None:
            return ""
        if not self.sources.is_home:
            return (yield from self.sources.rebuild(self._slots))
        wanted = [one for one in choice["sources"] if one["kind"] == "decode" or one["repair"]]
        lost = [one["rank"] for one in wanted if one["kind"] == "decode"]
        if not any(rank in self._ranks for rank in [*self._worn, *(o["rank"] for o in wanted)]):
            return ""
        if self._coding is None or self._guards is None:
            raise ProtocolError(f"parts of ranks {lost} are lost, and there is no code")
        me = self.peers.rank
        id = tuple(choice["id"])
        slot = self._slots.with_id(id)
        is_lost = me in lost
        guards = {} if is_lost or slot is None else slot.guarded
        told, _ = self._guards.tell_json(
            {
                "guarded": {str(rank): packed(*one) for rank, one in guards.items()},
                "largest": slot.largest if slot and not is_lost else 0,
            }
        )
        known = {int(rank) for one in told.values() for rank in one["guarded"]}
        if unknown := sorted(set(lost) & set(self._ranks) - known):
            raise ProtocolError(f"nobody knows what the keepers of ranks {unknown} had")
        largest = max(one["largest"] for one in told.values())
        if is_lost:
            slot = self._adopt(id, told, largest, list(choice["parts"]))
        assert slot is not None
        return (yield from self.mend(slot, is_lost))

    def mend(self, slot: Slot, is_lost: bool = False) -> Generator[None, None, str]:
        """Make the lost or damaged tiles of a slot again; collective among the code group.

        Parameters
        ----------
        slot : Slot
            Of the same snapshot on all.
        is_lost : bool
            Whether nothing is in it yet but what is known of it.

        Returns
        -------
        str
            Why what was made is not what was captured; empty: it is.
        """
        coding, guards = self._coding, self._guards
        if coding is None or guards is None:
            return ""
        largest = slot.largest
        slot.pad(coding.room(largest)[0])
        shards = coding.shards(slot.region.view, slot.parity.view, largest)
        tiles, places = coding.slice_tiles(largest), coding.places
        mine: list[Any] | None = (
            None if is_lost else [slot.damaged(), slot.damaged_rows(), len(slot.row_hashes)]
        )
        told, _ = guards.tell_json({"damaged": mine})
        bad: list[npt.NDArray[np.bool_] | None] = []
        worn = np.zeros((places.members, places.parity, tiles), bool)
        for member in range(places.members):
            one = told.get(member, {}).get("damaged")
            marks = None if one is None else np.zeros((places.members, tiles), bool)
            if marks is not None:
                marks[: places.data].reshape(-1)[one[0]] = True
                for row, tile in one[1]:
                    marks[places.data + row, tile] = worn[member, row, tile] = True
                marks[places.data :] |= one[2] == 0
            bad.append(marks)
        own = bad[guards.rank]
        is_damaged = own is None or bool(own[: places.data].any())
        try:
            yield from coding.decode(
                None if is_lost else shards, shards.slices if is_damaged else None, bad
            )
        except PeerLost as error:
            return f"of rank {self.peers.rank}'s code group too much is damaged: {error}"
        yield from coding.renew(shards, worn)
        if worn[guards.rank].any() and slot.damaged_rows():
            slot.has_parity(0, np.zeros(0, np.uint64))
        wrong = slot.damaged() if is_damaged else []
        if wrong and is_lost:
            slot.clear()
        elif is_lost:
            slot.is_whole = slot.is_committed = True
        rank = self.peers.rank
        return f"{len(wrong)} tiles of rank {rank} were made again with other hashes" * bool(wrong)

    def is_well(self, why: str) -> bool:
        """Return whether all have what they rebuilt; collective."""
        told, _ = self.peers.tell_json({"why": why})
        return not any(one["why"] for one in told.values())

    def _adopt(self, id: Any, told: Mapping[int, Any], largest: int, parts: list[int]) -> Slot:
        """Return a slot that is about to get what another keeper of this rank had."""
        found = next(
            one["guarded"][str(self.peers.rank)]
            for one in told.values()
            if str(self.peers.rank) in one["guarded"]
        )
        part, hashes = unpacked(found)
        assert self._coding is not None
        body, parity = self._coding.room(largest)
        self._slots.reserve(body, parity)
        # The first one is for the next snapshot.
        slot = self._slots.all[-1]
        slot.begin(part)
        slot.id, slot.hashes, slot.parts, slot.largest = id, hashes, parts, largest
        slot.seat = self.seat
        return slot

    def heads(self) -> dict[int, bytes]:
        """Return the heads of the chosen snapshot, by the ranks of then; collective."""
        return {} if self.sources is None else self.sources.heads(self._slots)

    def renew_parity(self) -> Iterator[None]:
        """Make the parity again that is lost of what was restored; collective, behind training."""
        sources = self.sources
        slot = None if sources is None else self._slots.with_id(sources.id)
        if sources is not None and sources.lacks_parity and slot is not None:
            # Whoever is lost meanwhile is told of by the next snapshot.
            with contextlib.suppress(HoldfastError):
                yield from self.code(slot)
