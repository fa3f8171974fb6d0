"""Live evidence: several looks at the ranks of a running job, some time apart."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from holdfast.errors import ConfigError
from holdfast.ft.health import collect, dumps
from holdfast.ft.health.access import Access
from holdfast.ft.health.collect import Address
from holdfast.ft.health.evidence import BadFile, Evidence, Look, Record, Subject
from holdfast.ft.health.processes import take_stack

# Looks that are kept: a watch goes on for days.
_LOOKS_KEPT = 16
# Records are large; with more ranks than this only metrics are compared.
_MAX_RECORDS = 256


@dataclass(slots=True)
class Job:
    """Where a job's ranks are, and what was seen of them.

    Parameters
    ----------
    targets : str
        URL of a coordinator's /targets; empty: none.
    addresses : list of Address
        Of ranks.
    folders : list of Path
        Files, or folders, of flight records.
    coordinator : str
        "host:port" of the coordinator itself; empty: none.
    access : Access
        With what pages are read.
    """

    targets: str = ""
    addresses: list[Address] = field(default_factory=list)
    folders: list[Path] = field(default_factory=list)
    coordinator: str = ""
    access: Access = field(default_factory=Access)
    _seen: dict[str, Subject] = field(default_factory=dict)
    _trouble: str = ""
    _bad: tuple[BadFile, ...] = ()
    _present: set[str] = field(default_factory=set)

    def look(self, brief: bool = False) -> Evidence:
        """Look at all ranks once more.

        Parameters
        ----------
        brief : bool
            At their metrics only.

        Returns
        -------
        Evidence
            All that was seen so far.

        Raises
        ------
        ConfigError
            When a folder names nothing, and when pages are not for who asks: of a rank that cannot
            be seen nothing is known, and it is not mute.
        """
        if not brief:
            self._find_ranks()
        with_records = not brief and len(self.addresses) <= _MAX_RECORDS
        looks = collect.look_at_all(self.addresses, with_records, self.access)
        for address, seen in zip(self.addresses, looks, strict=True):
            if seen.locked and seen.metrics is None:
                raise ConfigError(f"{collect.url_of(address.where, 'metrics')} {seen.locked}")
        numbers = collect.numbered(self.addresses, looks)
        for address, rank, seen in zip(self.addresses, numbers, looks, strict=True):
            self._add(address, rank, seen)
        if not brief:
            self._bad = self._read_files()
        vanished = tuple(
            (s.source, s.rank) for s in self._seen.values() if s.source not in self._present
        )
        return Evidence(
            subjects=tuple(self._seen.values()),
            live=bool(self.addresses) or any(s.process == "running" for s in self._seen.values()),
            coordinator=self.targets or self.coordinator,
            coordinator_trouble=self._trouble,
            bad_files=self._bad,
            vanished=vanished if self.targets else (),
        )

    def _find_ranks(self) -> None:
        """Ask the coordinators who is there; whoever was there before is looked at still."""
        self._trouble = ""
        if self.targets:
            try:
                found = collect.targets(self.targets, self.access)
            except (OSError, ValueError) as error:
                self._trouble = str(error) or type(error).__name__
                found = []
            known = {address.where for address in self.addresses}
            self.addresses += [address for address in found if address.where not in known]
            self._present = {address.where for address in found}
        if self.coordinator and not self._trouble:
            self._trouble = collect.reach(self.coordinator)

    def _add(self, address: Address, rank: int, seen: Look) -> None:
        before = self._seen.get(address.where, Subject(address.where, rank, address.host))
        looks = (*before.looks, seen)
        if len(looks) > _LOOKS_KEPT:
            looks = (looks[0], *looks[-_LOOKS_KEPT + 1 :])
        looks = _without_old_records(looks)
        host = seen.record.host if seen.record else before.host
        number = rank if rank >= 0 else before.rank
        self._seen[address.where] = replace(before, rank=number, host=host, looks=looks)

    def _read_files(self) -> tuple[BadFile, ...]:
        """Put what files say to what pages say: they are there when no page answers."""
        if not self.folders:
            return ()
        read = dumps.collect(self.folders)
        by_member = {s.record.member: s.source for s in self._seen.values() if s.record}
        by_rank = {s.rank: s.source for s in self._seen.values() if s.rank >= 0}
        for subject in read.subjects:
            record = subject.record
            member = by_member.get(record.member, "") if record else ""
            source = member or by_rank.get(subject.rank, "")
            if source and source in {a.where for a in self.addresses}:
                here = self._seen[source]
                latest, process = here.last, ""
                if not latest.record:
                    # The process is mute, and its record is whole.
                    latest = replace(latest, record=record)
                if member or not here.answers:
                    of_file = subject.last
                    process = subject.process
                    latest = replace(latest, run_ns=of_file.run_ns, ready_ns=of_file.ready_ns)
                looks = (*here.looks[:-1], latest)
                self._seen[source] = replace(here, looks=looks, process=process)
                continue
            before = self._seen.get(subject.source)
            looks = (*before.looks, *subject.looks)[-_LOOKS_KEPT:] if before else subject.looks
            self._seen[subject.source] = replace(subject, looks=_without_old_records(looks))
        return read.bad_files

    def stack_of(self, rank: int) -> str:
        """Return the stacks of a rank's threads; empty where they cannot be had.

        Parameters
        ----------
        rank : int
            In the world.

        Returns
        -------
        str
            As faulthandler writes them.
        """
        for subject, _ in self._recorded(rank):
            has_pages = subject.source in {a.where for a in self.addresses} and subject.answers
            if has_pages and (stack := collect.stack_of(subject.source, self.access)):
                return stack
        found = self.file_of(rank)
        return take_stack(found[0].pid, found[1]) if found else ""

    def file_of(self, rank: int) -> tuple[Record, Path] | None:
        """Return a rank's latest record, and the file that its process writes it to.

        Parameters
        ----------
        rank : int
            In the world.

        Returns
        -------
        tuple of Record and Path, or None
            None where no file of that name is in the folders: whose it is, the file says.
        """
        for _, record in self._recorded(rank):
            for file in dumps.files_of(self.folders) if self.folders else ():
                if file.name == f"holdfast-{record.pid}-{record.member}.flight":
                    return record, file
        return None

    def _recorded(self, rank: int) -> Iterator[tuple[Subject, Record]]:
        for subject in self._seen.values():
            if subject.rank == rank and subject.record is not None:
                yield subject, subject.record


def _without_old_records(looks: Sequence[Look]) -> tuple[Look, ...]:
    """The latest record holds what those before it held; a thousand of them fill the memory."""
    latest = max((at for at, look in enumerate(looks) if look.record), default=-1)
    return tuple(
        look if at == latest else replace(look, record=None) for at, look in enumerate(looks)
    )


def pause(seconds: float) -> None:
    """Let some time pass between two looks.

    Parameters
    ----------
    seconds : float
        How long.
    """
    threading.Event().wait(max(0.0, seconds))


def now_s() -> float:
    """Return seconds of a clock that only goes forward."""
    return time.monotonic()
