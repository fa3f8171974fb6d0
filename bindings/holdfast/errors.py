"""The errors of Holdfast: one hierarchy, the same in C++, C and Python."""

from __future__ import annotations

from collections.abc import Sequence


class HoldfastError(RuntimeError):
    """Base of everything Holdfast raises.

    Parameters
    ----------
    message : str
        What happened, to whom, which option governs it, and what to do.
    ranks : sequence of int
        Ranks the error is about (the lost ones, the missing ones); empty when none.
    epoch : int
        Number of the view in which it happened.
    """

    def __init__(self, message: str, ranks: Sequence[int] = (), epoch: int = 0) -> None:
        super().__init__(message)
        self.ranks = tuple(ranks)
        self.epoch = epoch


class PeerLost(HoldfastError):
    """A peer died or left during the op, or before it.

    When: the root of a rooted op, or the peer of a message, is lost; a gathered result has a hole,
    which is an error unless ``on_hole="zero"`` asks for zeros; with ``on_peer_loss="raise"``, on
    any loss; with ``fault_tolerance=0``, when the first loss ends the group; another rank has
    aborted the group.

    What to do: `ranks` are the lost ones. Unless the group has ended, the next op is one of the
    view without them: go on, or load a checkpoint where their data is needed; with
    ``on_peer_loss="raise"``, call ``advance()`` first. ``holdfast run --respawn`` starts the lost
    again.
    """


class Timeout(HoldfastError, TimeoutError):
    """The time limit of an op or of the start has passed.

    When: not all ranks called the op within the option `timeout` (or the call's own), or did not
    come to the start within `connect_timeout`; a wait for a work ended before the op did.

    What to do: `ranks` and the message say who is missing. Ask ``holdfast doctor`` who hangs, and
    why. An op that timed out has ended on this rank; a ``wait()`` that timed out leaves it running.
    """


class NotMember(HoldfastError):
    """The group is closed, or its view has ended.

    When: the group was closed here; this rank was voted out by the others while it was silent or
    cut off; at a start, its rank is held by a living process, or the job has ended.

    What to do: nothing that this process does reaches the others any more. Let it exit, and start
    it again, as ``holdfast run --respawn`` does: it comes in at the others' next ``advance()``.
    """


class AuthFailed(HoldfastError):
    """A coordinator did not let this process in.

    When: its token or certificate was revoked, has expired, or was used as often as it may be; its
    certificate's subject has no role in the run; or the group's other processes share a secret, and
    this one has none.

    What to do: ask whoever runs the coordinator for another token (``holdfast token new``), or for
    a line in its file of roles.
    """


class ProtocolError(HoldfastError):
    """Calls that do not match, another version, or damaged bytes.

    When: ranks called different ops, or one with other sizes, dtype, root, codec or op; ranks have
    different versions of Holdfast; a frame, a flight record or a coordinator's record is damaged.

    What to do: the message says what each rank called. Make all ranks call the same ops in the same
    order, and install the same Holdfast everywhere.
    """


class ConfigError(HoldfastError, ValueError):
    """An option or argument that cannot be used; the message names what is accepted.

    When: at once, before anything is sent: of an option, when the group is made; of an argument,
    when the op is called.

    What to do: correct the call or the variable that the message names.
    """


class Aborted(HoldfastError):
    """The user aborted the group.

    When: ``Group.abort()`` or ``hf_group_abort()`` was called on this rank, or the group was closed
    with ops running; the other ranks get `PeerLost`.

    What to do: make another group.
    """


class Unsupported(HoldfastError, NotImplementedError):
    """Valid, but not provided here: a dtype, a device, an operation.

    When: no CUDA driver is there; a codec has no kernel, or was left out of this build; an op does
    not take the dtype.

    What to do: the message says what would do; ``holdfast info`` says what is built in, and why the
    rest is off.
    """


class SystemFailure(HoldfastError):
    """The operating system refused: sockets, memory, file descriptors.

    When: the limit of open files or of memory is reached, a port is taken, a file cannot be
    written.

    What to do: the message has the system's own words; raise the limit (``ulimit -n``), or choose
    another port or folder.
    """


class Unconfirmed(Timeout):
    """The group was closed before others had confirmed what they have; ``ranks`` says who.

    When: ``close()``, ``leave()`` or the end of a ``with`` ran out of time. They may lack results
    that this rank has, or go on alone in an older view.

    What to do: `epoch` is the view it was closed in. Of two checkpoints, the one that was made in
    the higher epoch counts.
    """


_CLASSES: dict[str, type[HoldfastError]] = {
    "PeerLost": PeerLost,
    "Timeout": Timeout,
    "NotMember": NotMember,
    "AuthFailed": AuthFailed,
    "ProtocolError": ProtocolError,
    "ConfigError": ConfigError,
    "Aborted": Aborted,
    "Unsupported": Unsupported,
    "System": SystemFailure,
    "Unconfirmed": Unconfirmed,
}


def from_status(code: str, message: str, ranks: Sequence[int], epoch: int) -> HoldfastError:
    """Make the exception of a native status.

    Parameters
    ----------
    code : str
        Name of the native code, e.g. ``"PeerLost"``.
    message : str
        The native message.
    ranks : sequence of int
        Ranks it is about.
    epoch : int
        Number of the view.

    Returns
    -------
    HoldfastError
        An instance of the class of that name.
    """
    return _CLASSES.get(code, HoldfastError)(message, ranks, epoch)
