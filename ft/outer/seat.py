"""A member's seat in its group: the exchange, step boundaries, and state that is shared.

Everything that differs between the default process group, another one, a ``holdfast.Group`` and an
`Exchange` is here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import torch
import torch.distributed as dist

from holdfast.comm.group import Group
from holdfast.comm.outcome import View
from holdfast.compress.codec import codec_text
from holdfast.compress.exchange import Exchange, ProcessGroupExchange
from holdfast.compress.group_exchange import GroupExchange
from holdfast.compress.savings import CountedExchange
from holdfast.errors import ConfigError
from holdfast.ft.outer import codec_list
from holdfast.ft.outer.auto_exchange import AutoExchange
from holdfast.ft.outer.coded import CodedExchange
from holdfast.ft.outer.inside import Inside
from holdfast.ft.outer.rounds import Rounds
from holdfast.ft.outer.site import Site


class Seat(NamedTuple):
    """Where a member sits.

    Parameters
    ----------
    exchange : CountedExchange
        Over the group.
    group : Group, ProcessGroup or None
        What can be asked for step boundaries: a ``holdfast.Group``, or a process group of the
        backend ``holdfast``; None: its members never change.
    codec : str or None
        As the runtime spells it.
    native : bool
        Whether the exchange is over Holdfast, whose averages take weights.
    auto : AutoExchange, optional
        What chooses the codec; below `exchange`.
    inside : Inside, optional
        What this member agrees on with the other ranks of its site.
    """

    exchange: CountedExchange
    group: Any
    codec: str | None
    native: bool = False
    auto: AutoExchange | None = None
    inside: Inside | None = None

    def start(self, shared: dict[str, torch.Tensor], rounds: Rounds, counts: Sequence[int]) -> None:
        """Begin a run; what of it is the same on all members is added to `shared`.

        Parameters
        ----------
        shared : dict of str to torch.Tensor
            What the trainer shares.
        rounds : Rounds
            The table.
        counts : sequence of int
            Elements, by fragment.
        """
        if self.auto is not None:
            shared.update(self.auto.start(shared, rounds, counts))

    @property
    def told(self) -> tuple[str | None, str]:
        """What progress travels as now, and why it does where that was chosen."""
        return (self.codec, "") if self.auto is None else self.auto.told

    @property
    def native_group(self) -> Group | None:
        """The group of Holdfast that the exchange is over, if it is over one."""
        inner: Any = self.exchange
        while not isinstance(inner, GroupExchange):
            if (inner := getattr(inner, "inner", None)) is None:
                return None
        group: Group = inner.group
        return group

    def advance(self, shared: Mapping[str, torch.Tensor], fresh: bool) -> View:
        """Pass a step boundary; who has come in has the others' shared state afterwards.

        Parameters
        ----------
        shared : mapping of str to torch.Tensor
            Written in place.
        fresh : bool
            Whether it is the first time.
        """
        if self.group is None:
            return View(0, tuple(self.exchange.members))
        if isinstance(self.group, Group):
            # Members are in their advance(), which syncs with who has come in; it remembers what.
            if fresh:
                self.group.sync(shared)
            return self.group.advance()
        from holdfast.torch import advance, sync

        view = advance(self.group)
        if view.joined:
            state = dict(shared)
            sync(state, group=self.group)
            # A newcomer takes over the others' structure where its own is another one.
            if any(state.get(name) is not tensor for name, tensor in shared.items()):
                raise ConfigError(
                    "this member's trainer, with what advance() was given, has not the state that "
                    "the others' have; accepted: the same model, method, rounds and state; make it "
                    "as theirs were made"
                )
        return view


def take(group: Any, codec: Any, method: str) -> Seat:
    """Return the seat that a trainer's arguments mean.

    Parameters
    ----------
    group : None, ProcessGroup, Group, Exchange or Site
        None: torch's default process group.
    codec : Codec, str or None
        What progress travels as, or what may be chosen.
    method : str
        Under which bytes are counted.

    Raises
    ------
    ConfigError
        Without a group, or for something else.
    """
    if isinstance(group, Site):
        return take(group.across, codec, method)._replace(inside=group.inside)
    if not (codecs := codec_list.listed(codec)):
        return _seat(group, codec_text(codec) or None, method)
    text = codec_list.text_of(codecs)
    seat = _seat(group, text, method)
    auto = AutoExchange(seat.exchange.inner, codecs)
    return seat._replace(exchange=CountedExchange(auto, method), auto=auto)


def _seat(group: Any, text: str | None, method: str) -> Seat:
    if isinstance(group, Group):
        return Seat(CountedExchange(GroupExchange(group), method), group, text, True)
    if group is None or isinstance(group, dist.ProcessGroup):
        return _of_torch(group, text, method)
    if all(hasattr(group, name) for name in ("mean", "sum", "gather", "members")):
        native = isinstance(group, GroupExchange)
        return Seat(CountedExchange(_with_codecs(group), method), None, text, native)
    raise ConfigError(
        f"group = a {type(group).__name__}; accepted: None, a ProcessGroup, a holdfast.Group, an "
        "Exchange of holdfast.compress, or a holdfast.ft.Site"
    )


def _of_torch(group: Any, codec: str | None, method: str) -> Seat:
    if not dist.is_initialized():
        raise ConfigError(
            f"{method} without a group: torch.distributed is not initialised; accepted: call "
            "init_process_group() first, pass a holdfast.Group, or group=holdfast.compress.Alone() "
            "for a single process"
        )
    group = dist.group.WORLD if group is None else group
    if dist.get_backend(group) != "holdfast":
        plain = CodedExchange(ProcessGroupExchange(group))
        return Seat(CountedExchange(plain, method), None, codec)
    return Seat(CountedExchange(_native(group), method), group, codec, True)


def _native(group: Any) -> Exchange:
    """Return the exchange over the group below a process group, which has codecs and weights."""
    from holdfast import _core
    from holdfast.torch import backend_of

    return GroupExchange(Group(_core.group_in(backend_of(group).capsule())))


def _with_codecs(exchange: Exchange) -> Exchange:
    return CodedExchange(exchange) if isinstance(exchange, ProcessGroupExchange) else exchange


def refuse_other_models(
    exchange: Exchange, digests: Sequence[tuple[str, int]], device: torch.device
) -> None:
    """Compare what all members must have alike before the first local step; collective.

    Parameters
    ----------
    exchange : Exchange
        Over them.
    digests : sequence of (str, int)
        What it is of, and 63 bits; as many on all members.
    device : torch.device
        Whose tensors the exchange takes.

    Raises
    ------
    ConfigError
        On every member, with the ranks that differ from the others, and in what.
    """
    own = torch.tensor([1, *(digest for _, digest in digests)], dtype=torch.int64)
    own = own.to(device)
    rows = torch.zeros(exchange.size, own.numel(), dtype=torch.int64, device=device)
    exchange.gather(rows, own).wait()
    there = [(rank, row) for rank, row in enumerate(rows.tolist()) if row[0]]
    for column, (what, _) in enumerate(digests, 1):
        values = [row[column] for _, row in there]
        # The most frequent; of equals the lowest rank's.
        usual = max(values, key=lambda value: (values.count(value), -values.index(value)))
        odd = [rank for rank, row in there if row[column] != usual]
        if odd:
            raise ConfigError(
                f"the {what} of rank {', '.join(map(str, odd))} differs from that of the other "
                f"members; accepted: the same on all; build the model from one seed with the same "
                "arguments everywhere, or broadcast its parameters, before the first step"
            )
