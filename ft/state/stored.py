"""The newest state in files that all ranks together have, whether or not their hosts share a disk.

Each file is read once, by a rank that has it, and what is lost with a host or damaged is made again
of the others by their code. What a rank needs and its host does not have comes from who has it, in
rounds of bounded size.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import xxhash

from holdfast.errors import HoldfastError, ProtocolError
from holdfast.ft.state.files import code
from holdfast.ft.state.files.code import Key
from holdfast.ft.state.files.manifest import File, Manifest, of_folder, parity_name
from holdfast.ft.state.files.saved import Saved, states
from holdfast.ft.state.files.schemes import Place, place
from holdfast.ft.state.layout.plan import Reading
from holdfast.ft.state.members import Members
from holdfast.ft.state.places import TILE

# Tiles that all ranks together tell each other at a time.
_AT_ONCE = 16
# In place of a tile's number: what stands before the data.
_TABLE = -1


class _Job(NamedTuple):
    """Something that a rank does once it has tiles of others."""

    keys: list[Key]
    got: dict[Key, bytes]
    done: Callable[[dict[Key, bytes]], None]


class Stored:
    """A state in files, of which each rank's disk has all, some or nothing.

    Parameters
    ----------
    where : Place
        The run's, as this rank sees it.
    whole : Manifest
        The state's.
    who : Members
        All trainers.
    names : sequence of sequence of str
        Files that are there, by rank.
    """

    def __init__(self, where: Place, whole: Manifest, who: Members, names: list[list[str]]) -> None:
        self.saved = Saved(where, whole)
        self._who = who
        self._holders = {
            file.name: [rank for rank, there in enumerate(names) if file.name in there]
            for file in whole.files
        }
        self._givers = {
            name: ranks[number % len(ranks)]
            for number, (name, ranks) in enumerate(self._holders.items())
            if ranks
        }
        self._bad: dict[str, frozenset[int] | None] = {}

    @property
    def step(self) -> int:
        """The state's."""
        return self.saved.manifest.step

    def why_taken(self, reached: int, reasons: Sequence[str]) -> str:
        """Return what is said of going back to it.

        Parameters
        ----------
        reached : int
            The last step that keepers know of; 0: of none.
        reasons : sequence of str
            Why nothing newer is taken.
        """
        lost = reached - self.step
        steps = f"{lost} steps are lost" if lost > 0 else "keepers know of no later step"
        return f"the state is that of step {self.step}, {self.saved.url}: {steps}; " + "; ".join(
            reasons
        )

    def lacks(self) -> list[str]:
        """Read all that is there, each file by one rank; return what cannot be had; collective."""
        files = {file.name: file for file in self.saved.manifest.files}
        mine = {
            name: self.saved.bad_tiles(files[name])
            for name, rank in self._givers.items()
            if rank == self._who.rank
        }
        self._bad = dict.fromkeys(set(files) - set(self._givers))
        for told in self._who.tell(mine):
            for name, tiles in told.items():
                if tiles is None or tiles:
                    self._bad[name] = None if tiles is None else frozenset(tiles)
        return code.beyond_repair(self.saved.manifest, self._bad) if self._bad else []

    # ---- what this rank needs --------------------------------------------------------------------

    def lend_heads(self) -> Saved:
        """Have all ranks' heads; collective."""
        self._run(self._tables())
        return self.saved

    def lend(self, readings: Iterable[Reading]) -> None:
        """Have what some readings need; collective.

        Parameters
        ----------
        readings : iterable of Reading
            What this rank reads.
        """
        self._run(self._tiles(readings))

    def _has(self, key: Key) -> bool:
        wrong = self._bad.get(key[0], ())
        return key[0] in self._givers and wrong is not None and key[1] not in wrong

    def _is_here(self, key: Key) -> bool:
        return self._has(key) and self._who.rank in self._holders[key[0]]

    def _tables(self) -> Iterator[_Job]:
        groups = code.groups_of(self.saved.manifest)
        asked = set()
        for file in self.saved.manifest.files:
            if file.is_parity:
                continue
            names = [file.name]
            if not self._has((file.name, _TABLE)) and file.rank in groups:
                names = [parity_name(rank) for rank in groups[file.rank].ranks]
            for name in names:
                if self._has((name, _TABLE)):
                    if name not in asked and not self._is_here((name, _TABLE)):
                        asked.add(name)
                        yield _Job([(name, _TABLE)], {}, self._lend_table)
                    break

    def _lend_table(self, got: dict[Key, bytes]) -> None:
        for (name, _), data in got.items():
            self.saved.tables.lend(self._file(name), data)

    def _file(self, name: str) -> File:
        return next(file for file in self.saved.manifest.files if file.name == name)

    def _tiles(self, readings: Iterable[Reading]) -> Iterator[_Job]:
        groups = code.groups_of(self.saved.manifest)
        wanted: set[Key] = set()
        for reading in readings:
            name = self.saved.manifest.file_of(reading.rank).name
            starts, lengths = reading.starts.tolist(), reading.lengths.tolist()
            for start, length in zip(starts, lengths, strict=True):
                if length:
                    tiles = range(start // TILE, (start + length - 1) // TILE + 1)
                    wanted.update((name, tile) for tile in tiles)
        for key in sorted(wanted):
            if self._is_here(key):
                continue
            if self._has(key):
                yield _Job([key], {}, self.saved.lent.update)
                continue
            rank = self._file(key[0]).rank
            found = code.recipe(groups[rank], rank, key[1], self._has) if rank in groups else None
            if found is None:
                raise ProtocolError(f"{self.saved.url}/{key[0]}: tile {key[1]} is lost")
            yield self._job_of(key, found)

    def _job_of(self, key: Key, recipe: code.Recipe) -> _Job:
        """What makes a lost tile again."""
        far = [one for one in recipe.tiles if not self._is_here(one) and not self._is_zero(one)]

        def done(got: dict[Key, bytes]) -> None:
            parts = [got[one] if one in got else self.saved.tile(one) for one in recipe.tiles]
            if any(part is None for part in parts):
                raise ProtocolError(f"{self.saved.url}/{key[0]}: tile {key[1]} cannot be made")
            self.saved.lent[key] = recipe.made([part or b"" for part in parts])

        return _Job(far, {}, done)

    def _is_zero(self, key: Key) -> bool:
        file = self._file(key[0])
        return not file.is_parity and key[1] >= len(self.saved.table(file).tiles)

    # ---- rounds ----------------------------------------------------------------------------------

    def _run(self, jobs: Iterator[_Job]) -> None:
        """Do jobs with all others' tiles; collective until nobody wants anything."""
        pending: list[_Job] = []
        error = ""
        while True:
            try:
                self._fill(pending, jobs)
            except HoldfastError as failure:
                error, pending = str(failure), []
            wants = [key for job in pending for key in job.keys if key not in job.got]
            told = self._who.tell((wants[:_AT_ONCE], error))
            if errors := [one for _, one in told if one]:
                raise ProtocolError(errors[0])
            now = _in_turn([keys for keys, _ in told])
            if not now:
                return
            served = {
                key: self._given(key) for key in now if self._givers[key[0]] == self._who.rank
            }
            there = {key: data for one in self._who.tell(served) for key, data in one.items()}
            for key in now:
                if there.get(key) is None:
                    raise ProtocolError(
                        f"{self.saved.url}/{key[0]}: has been damaged since it was read"
                    )
            for job in pending:
                job.got.update({key: there[key] for key in job.keys if key in there})

    def _fill(self, pending: list[_Job], jobs: Iterator[_Job]) -> None:
        """End the jobs that have what they need, and begin others."""
        for job in [job for job in pending if len(job.got) == len({*job.keys})]:
            job.done(job.got)
            pending.remove(job)
        while sum(len(job.keys) for job in pending) < _AT_ONCE:
            another = next(jobs, None)
            if another is None:
                return
            if another.keys:
                pending.append(another)
            else:
                another.done({})

    def _given(self, key: Key) -> bytes | None:
        try:
            if key[1] == _TABLE:
                return self.saved.tables.written(self._file(key[0]))
            return self.saved.tile(key)
        except HoldfastError:
            return None


def _in_turn(wanted: list[list[Key]]) -> list[Key]:
    """Return what is told in this round: of each rank's wishes as many."""
    found: dict[Key, None] = {}
    for number in range(_AT_ONCE):
        for keys in wanted:
            if number < len(keys) and len(found) < _AT_ONCE:
                found[keys[number]] = None
    return [*found]


def is_any_stored(url: str, job: str, who: Members) -> bool:
    """Whether some rank sees a state of the job, by its manifest alone; collective.

    Parameters
    ----------
    url, job, who : str, str, Members
        As for `newest_stored`.
    """
    return bool(url) and any(who.tell(bool(_manifests(place(url), job))))


def newest_stored(url: str, job: str, who: Members) -> tuple[Stored | None, list[str]]:
    """Return the newest state that all ranks' disks together have; collective.

    Parameters
    ----------
    url : str
        Where a run's states are; empty: nowhere.
    job : str
        Whose states count.
    who : Members
        All trainers.

    Returns
    -------
    tuple of Stored and list of str
        None: there is none; and why newer ones are not taken.
    """
    refused: list[str] = []
    if not url:
        return None, refused
    where = place(url)
    there = _manifests(where, job)
    told = who.tell({name: xxhash.xxh3_128_hexdigest(data) for name, data in there.items()})
    for folder in sorted(set().union(*told), key=lambda name: of_folder(name) or (0, 0))[::-1]:
        first = next(rank for rank, one in enumerate(told) if folder in one)
        is_same = told[who.rank].get(folder) == told[first][folder]
        names = where.files(folder) if is_same else []
        both: list[Any] = who.tell((there[folder] if who.rank == first else b"", names))
        stored = Stored(where, Manifest.from_bytes(both[first][0]), who, [n for _, n in both])
        lacks = stored.lacks()
        if not lacks:
            return stored, refused
        refused.append(f"{folder} lacks {'; '.join(lacks[:4])}")
    return None, refused


def why_lost(job: str, error: str, refused: Sequence[str]) -> str:
    """Return what is said of a state that cannot be had.

    Parameters
    ----------
    job : str
        Whose it is.
    error : str
        Why keepers have none; empty: they have nothing.
    refused : sequence of str
        Why states in files are not taken.
    """
    flushed = f"of what was flushed {'; '.join(refused)}" if refused else "nothing was flushed"
    folder = ", and flush to another folder" if refused else ""
    return (
        f"the state of job {job!r} is lost: {error or 'keepers have nothing'}; {flushed} (flush=); "
        f"to begin anew end its keepers: holdfast state stop{folder}"
    )


def _manifests(where: Place, job: str) -> dict[str, bytes]:
    """Return what this rank sees; a disk that fails has nothing."""
    try:
        return {
            saved.manifest.folder: saved.manifest.to_bytes()
            for saved in states(where)
            if saved.manifest.job == job
        }
    except (HoldfastError, OSError):
        return {}
