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
    """A peer died or left during the op, or before it."""


class Timeout(HoldfastError, TimeoutError):
    """The time limit of an op or of the start has passed."""


class NotMember(HoldfastError):
    """The group is closed, or its view has ended."""


class AuthFailed(HoldfastError):
    """A token or certificate was refused."""


class ProtocolError(HoldfastError):
    """Calls that do not match, another version, or damaged bytes."""


class ConfigError(HoldfastError, ValueError):
    """An option or argument that cannot be used; the message names what is accepted."""


class Aborted(HoldfastError):
    """The user aborted the group."""


class Unsupported(HoldfastError, NotImplementedError):
    """Valid, but not provided here: a dtype, a device, an operation."""


class SystemFailure(HoldfastError):
    """The operating system refused: sockets, memory, file descriptors."""


class Unconfirmed(Timeout):
    """The group was closed before others had confirmed what they have; ``ranks`` says who.

    They may lack results that this rank has, or go on alone in an older view. ``epoch`` is the view
    it was closed in: of two checkpoints, the one that was made in the higher epoch counts.
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
