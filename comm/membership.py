"""A rank's part in a group that may lose and admit ranks: who is there, and how it goes on."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, cast

from holdfast import _core, _process
from holdfast.comm.outcome import Outcome, View
from holdfast.comm.state.messages import GroupMessages
from holdfast.comm.state.sync import Sync, SyncReport
from holdfast.errors import HoldfastError

if TYPE_CHECKING:
    from typing_extensions import Self


class Membership:
    """What every group knows about its ranks.

    Parameters
    ----------
    native : _core.Communicator
        The native communicator.
    node : _core.Node, optional
        Opens the GPUs whose memory is passed.
    """

    def __init__(self, native: _core.Communicator, node: _core.Node | None = None) -> None:
        self._native = native
        # An op on plain arrays, natively from here on; None for all that is not plain.
        self._run_plain = native.run_plain
        self._node = node
        self._rank = native.rank
        self._last: _core.Work | _core.Ended | None = None
        # Its state is no vote before it has the others'.
        self._fresh = native.is_newcomer
        self._state: Mapping[str, Any] | None = None
        self._overlap = False
        # What others fetch from this rank, while it computes.
        self._under_way: Sync | None = None

    @property
    def _size(self) -> int:
        return self._native.size

    @property
    def _label(self) -> str:
        return f"group {self._native.name}, rank {self._rank} of {self._size}"

    @property
    def rank(self) -> int:
        """Number of this process, 0 to size - 1."""
        return self._rank

    @property
    def size(self) -> int:
        """Number of ranks, vacant ones included; may grow in an elastic group."""
        return self._size

    @property
    def epoch(self) -> int:
        """Number of the view."""
        return self._native.epoch

    @property
    def name(self) -> str:
        """Name of the group."""
        return self._native.name

    @property
    def live_ranks(self) -> tuple[int, ...]:
        """Ranks that have a member in the current view."""
        return tuple(self._native.live_ranks)

    @property
    def outcome(self) -> Outcome | None:
        """What the last blocking collective's result is made of; None before the first."""
        return None if self._last is None else Outcome(*self._last.outcome)

    @property
    def transports(self) -> tuple[str, ...]:
        """What carries data to each rank: ``"shm"``, ``"tcp"``, ``"ucx"`` or ``"self"``.

        ``"none"``: the rank is away, or this one has had nothing to say to it (option ``mesh``).
        """
        return tuple(self._native.transports)

    def advance(self, timeout: float | None = None) -> View:
        """Pass a step boundary: all ranks come here, and ranks that wait to come in are admitted.

        No op may be under way. A newcomer's first call, before any op, returns at once: it has come
        in at this boundary. When somebody came in, members bring it up to date with what they last
        gave to :meth:`sync`. After a loss with ``on_peer_loss="raise"`` the group is usable
        again from here on.

        Parameters
        ----------
        timeout : float, optional
            Seconds; default: the group's.

        Returns
        -------
        View
            Its epoch, the ranks that are there, and those that have come in.

        Raises
        ------
        Timeout, NotMember
            When the members could not agree in time; when this process was voted out.
        """
        arrives = self._native.is_newcomer
        if not arrives:
            self._finish_sync()
        epoch, ranks, joined = self._native.advance(0.0 if timeout is None else timeout)
        if joined and not arrives and self._state is not None:
            self.sync(self._state, overlap=self._overlap)
        return View(epoch, ranks, joined)

    def sync(self, state: Mapping[str, Any], *, overlap: bool = False) -> SyncReport:
        """Make a state bit-identical on all ranks, in place.

        The ranks vote: the state that most of them have wins, of equals the lowest rank's;
        newcomers only listen. Ranks that differ fetch the chunks that differ from several holders,
        and write none that does not have the right hash. The state is remembered: from now on
        ``advance()`` brings newcomers up to date with it. A newcomer calls this before its first
        ``advance()``.

        Parameters
        ----------
        state : mapping of str to array
            NumPy arrays, torch tensors, arrays with ``__cuda_array_interface__``; the same names,
            dtypes and shapes on every rank. What is in a GPU's memory is hashed there, and only
            chunks that differ are copied; some ranks may have a tensor there and others in host
            memory.
        overlap : bool
            Return when this rank's state is right, while others may still fetch from it: they do
            so until this rank's next call of any of the group's ops, `advance` or `close`, which
            waits for the last of them, and until then the state must not be written to. The same
            on every rank; remembered for ``advance()``, too. Whoever fetches returns later than the
            others, and does well to contribute nothing to its first step.

        Returns
        -------
        SyncReport
            What was done here.

        Raises
        ------
        ConfigError
            When names, dtypes or shapes differ, naming the first that does.
        ProtocolError
            When all holders were lost, or tensors changed meanwhile.
        Unsupported
            For a GPU's memory where there is no CUDA driver, or the build has no kernels.
        """
        self._finish_sync()
        messages = GroupMessages(self._native)
        self._under_way = Sync(messages, state, self._label, newcomer=self._fresh, node=self._node)
        report = self._under_way.report
        if not overlap:
            self._finish_sync()
        self._fresh = False
        self._state = state
        self._overlap = overlap
        return report

    @property
    def plan(self) -> str:
        """What is known of the speed of algorithms: a table as the option `plan` reads it."""
        return self._native.plan

    @property
    def http_address(self) -> str:
        """Where this process's health pages are (option `http`); empty: nowhere.

        ``"host:port"``, or ``"https://host:port"`` where they have a certificate.
        """
        return self._native.http_address

    def flight(self) -> dict[str, Any]:
        """Return the last ops of this process, of all its groups: what the page ``/flight`` says.

        Returns
        -------
        dict
            The fields of docs/reference/flight-record.md; ``holdfast.read_flight`` reads the same
            from a file.
        """
        return cast("dict[str, Any]", json.loads(_core.flight_json(self._native.flight_record())))

    def dump_flight(self, path: str | os.PathLike[str]) -> None:
        """Write the last ops of this process to a file, as the option `flight_dir` does all along.

        Parameters
        ----------
        path : path
            Of the file; one that is there is replaced.
        """
        Path(path).write_bytes(self._native.flight_record())

    def abort(self, reason: str = "aborted by the user") -> None:
        """End all running and later ops, here and (with PeerLost) on the other ranks.

        Parameters
        ----------
        reason : str
            What the errors of all ranks say.
        """
        self._native.abort(reason)

    def close(self, timeout: float = 5.0) -> None:
        """Leave the group when this rank's running ops have ended, and nobody needs its results.

        Whoever has not ended yet an op that this rank has ended may still need what it holds; so it
        waits until all others have ended it, have left as well, or are gone.

        Parameters
        ----------
        timeout : float
            Seconds to wait, in all.

        Raises
        ------
        Timeout
            When ops of this rank were still running; they are aborted. Ops of the others go on,
            without this rank where they miss it.
        Unconfirmed
            When the time has passed, and the ranks that it names have not answered, or were voted
            out without proof of their end: they may lack results of this rank, or go on alone in
            an older view. The group is closed all the same.
        NotMember
            When this rank was voted out: what it has ended since may not be what the others have.
        """
        # What others fetch is among the running ops.
        self._under_way = None
        self._native.close(timeout)

    def as_process_group(self) -> Any:
        """Make torch's default process group of this group, as it is now.

        torch's process groups do not change size: when ``advance()`` says that the group has grown,
        call this again, and make DDP and the like anew. The process group ends with this group.

        Returns
        -------
        torch.distributed.ProcessGroup
            For ``torch.distributed``, DDP and FSDP; `dist.new_group` cannot cut it.

        Raises
        ------
        ConfigError
            When torch.distributed was initialised by somebody else.
        """
        from holdfast.torch import over_group

        self._finish_sync()
        return over_group(self._native.capsule(), self._rank, self._size)

    def leave(self, timeout: float = 60.0) -> None:
        """Leave the group: running ops end, then the others go on without this rank.

        In an elastic group the coordinator tells them at once; elsewhere they notice when an op, or
        a step boundary, waits for it.

        Parameters
        ----------
        timeout : float
            Seconds for running ops to end.

        Raises
        ------
        Timeout
            When ops were still running; they are aborted.
        """
        self.close(timeout)

    def __enter__(self) -> Self:
        """Return the group."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close the group; when an exception passes, at once, and the others learn of it."""
        if error is None:
            self.close()
        else:
            self._native.abort(f"{type(error).__name__}: {error}")
            self._leave()

    def _leave(self) -> None:
        with contextlib.suppress(HoldfastError):
            self._native.close(0.0)

    def _finish_sync(self) -> None:
        if self._under_way is not None:
            under_way, self._under_way = self._under_way, None
            under_way.finish()

    def _disown(self) -> None:
        self._native = cast("_core.Communicator", _Disowned())
        self._run_plain = self._native.run_plain


class _Disowned:
    """Stands for the native group in a forked child."""

    def __getattr__(self, name: str) -> object:
        _process.check()
        raise AttributeError(name)

    def run_plain(self, *_: object) -> None:
        _process.check()
