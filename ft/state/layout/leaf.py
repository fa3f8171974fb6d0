"""Placeholders in the pickled rest of a state: where a tensor was, what kind of part this is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Leaf:
    """A tensor's place in the rest.

    Parameters
    ----------
    name : str
        The tensor's, without its rank.
    device : str
        Type of the device it was on.
    sharded : tuple of int
        The dimension that each dimension of its mesh shards, -1 where it replicates; empty for a
        plain tensor.
    """

    name: str
    device: str = "cpu"
    sharded: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Part:
    """What was something with a state of its own.

    Parameters
    ----------
    kind : str
        ``"module"``, ``"optimizer"`` or ``"object"``.
    value : object
        Its state, with leaves in place of tensors.
    """

    kind: str
    value: Any


@dataclass(frozen=True, slots=True)
class Packed:
    """A part of the rest that is pickled once for many snapshots.

    Parameters
    ----------
    data : bytes
        The pickle.
    """

    data: bytes


def joined(path: str, key: object) -> str:
    """Return the path of a key below another one.

    Parameters
    ----------
    path : str
        Of what has the key; empty at the top.
    key : object
        A text or number; what means something in paths is escaped.
    """
    text = key if isinstance(key, str) else f"={key!r}"
    text = text.replace("%", "%25").replace("/", "%2F")
    return f"{path}/{text}" if path else text


def keys_of(path: str) -> list[str]:
    """Return the keys of a path, as texts.

    Parameters
    ----------
    path : str
        As `joined` makes it.
    """
    return [text.replace("%2F", "/").replace("%25", "%") for text in path.split("/")]


def own_name(rank: int, name: str) -> str:
    """Return the name in a head of what is a rank's own.

    Parameters
    ----------
    rank : int
        Whose.
    name : str
        The tensor's path.
    """
    return f"rank/{rank}/{name}"
