"""What a group knows of its links: one map for all ranks, which may change while it runs."""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol, cast

import numpy as np
import numpy.typing as npt

from holdfast import _core
from holdfast.comm.calls import Calls
from holdfast.errors import ConfigError, PeerLost
from holdfast.topology import chart, forest, traffic
from holdfast.topology.discover import card_to_others, map_of_cards
from holdfast.topology.measure import measure

if TYPE_CHECKING:
    from holdfast.comm.group import Group

_MOST_BUDGET_S = 600.0
# Maps of 1024 ranks, pair by pair, have about 12 MiB.
_MOST_BYTES = 16 << 20
# Seven names of 64 bytes, with a slash between.
_DOMAIN_BYTES = 7 * 64 + 6
# A name of an interface, as the kernel has it.
_CARD_BYTES = 16
# In place of a length: the map that a rank gave cannot be used.
_REFUSED = -1
_LABELS = re.compile(r"^holdfast_link_(\w+?)\{([^}]*)\} (\S+)", re.MULTILINE)
_PEER = re.compile(r'peer="(\d+)"')
# Of a path, in a row of the look that all ranks gather.
_FACTS = {"rtt_seconds": 0, "least_rtt_seconds": 1, "delivered_bytes_per_second": 2}
_SCALES = (1e9, 1e9, 1.0)


class _Collectives(Protocol):
    """What is asked of the group itself."""

    _native: _core.Communicator
    _node: _core.Node | None
    _watch: traffic.Watch

    @property
    def rank(self) -> int: ...
    @property
    def size(self) -> int: ...
    @property
    def live_ranks(self) -> tuple[int, ...]: ...
    def all_reduce(self, array: Any) -> Any: ...
    def broadcast(self, array: Any, root: int) -> Any: ...
    def set_topology(self, text: str | None) -> None: ...
    def topology(self) -> dict[str, Any]: ...
    def measure(self, budget: float = ...) -> dict[str, Any]: ...


class Maps(Calls):
    """A group's map of links."""

    def __init__(self, native: _core.Communicator, node: _core.Node | None = None) -> None:
        super().__init__(native, node)
        self._watch = traffic.Watch()

    def topology(self) -> dict[str, Any]:
        """Return the map of links by which this rank's next collective goes.

        Returns
        -------
        dict
            ``version``: how many maps the group has taken; ``source``: ``"none"``, ``"option"`` or
            ``"agreed"``; ``digest``, the same on all ranks; ``map``: as of its JSON, or None.
        """
        version, text = self._native.map
        if text is None:
            return {"version": version, "source": "none", "digest": None, "map": None}
        return {
            "version": version,
            "source": "agreed" if version > 0 else "option",
            "digest": chart.read(text).digest,
            "map": json.loads(text),
        }

    def explain(self, collective: str, nbytes: int, root: int = 0) -> forest.ForestPlan:
        """Return what the map's plan of a collective is, how long it takes, and why.

        Parameters
        ----------
        collective : str
            One of `holdfast.topology.forest.COLLECTIVES`.
        nbytes : int
            Bytes of payload.
        root : int
            Of broadcast and reduce, a number among the ranks that are there.

        Returns
        -------
        holdfast.topology.forest.ForestPlan
            ``why`` is a sentence; ``predicted_s``, ``bound_s``, ``at``.

        Raises
        ------
        ConfigError
            Without a map, and for a collective or root that cannot be used.
        """
        _, text = self._native.map
        if text is None:
            raise ConfigError(
                f"{self._label}: explain() without a map of links; accepted: after the option "
                "topology, or set_topology()"
            )
        gone = sorted(set(range(self._size)) - set(self.live_ranks))
        return forest.plan(text, collective, size=nbytes, root=root, without=gone)

    def set_topology(self: _Collectives, text: str | None) -> None:
        """Agree on a map of links; ops called from now on go by it, on all ranks.

        All ranks call it, between the same collectives. Those that pass None take the map of the
        lowest rank that has one. A loss on the way leaves all survivors with the new map, or all
        with the old one. Ranks that come in later are given it. Groups of some ranks that exist
        already keep theirs.

        Parameters
        ----------
        text : str or None
            The map, as JSON, of as many ranks as the group has (docs/guide/topology.md).

        Raises
        ------
        ConfigError
            On all ranks: one of them passed a map that cannot be used, and is named; or nobody
            passed one.
        PeerLost
            On all ranks: the one that had the map was lost. They go on by the old one.
        Unsupported
            The group has not all ranks of its world.
        """
        if not _distribute(self, text):
            raise ConfigError("set_topology(None) on all ranks; accepted: a map on one at least")

    def measure(self: _Collectives, budget: float = 5.0) -> dict[str, Any]:
        """Measure the links between hosts, and agree on the map of what was found.

        All ranks call it, between the same collectives, and leave the network alone meanwhile.
        Hosts measure each other pair by pair, by one rank each; then hosts try their cards, and
        sites their lines, with several flows at once. Sites are the outermost names of the option
        domain; without names, they are where a clear gap in rates or latencies is.

        Parameters
        ----------
        budget : float
            Seconds that it should take about.

        Returns
        -------
        dict
            As of :meth:`topology`.

        Raises
        ------
        ConfigError
            For a budget that is no positive number.
        PeerLost, Unsupported
            As of :meth:`set_topology`. What a lost rank would have measured is taken to be
            middling.
        """
        if not 0 < budget <= _MOST_BUDGET_S:
            raise ConfigError(f"budget {budget}; accepted: more than 0, to {_MOST_BUDGET_S}, in s")
        text = measure(cast("Group", self), budget, self._native.hosts, _domains(self))
        self.set_topology(text)
        return self.topology()

    def discover(self: _Collectives) -> dict[str, Any]:
        """Make a map of what the hosts say of their network cards, and go by it.

        It sends nothing over the links but what hosts said. A host whose card tells no rate, as
        virtual ones do, has the default of 20 Gbit/s; :meth:`measure` knows better. All ranks call
        it.

        Returns
        -------
        dict
            As of :meth:`topology`; the names of shared capacities say what they come from.

        Raises
        ------
        PeerLost, Unsupported
            As of :meth:`set_topology`.
        """
        own = card_to_others("" if self._node is None else self._node.address)
        rates = np.zeros(self.size, np.int64)
        rates[self.rank] = own.kbit_per_s
        names = np.zeros((self.size, _CARD_BYTES), np.uint8)
        said = own.name.encode()[:_CARD_BYTES]
        names[self.rank, : len(said)] = np.frombuffer(said, np.uint8)
        self.all_reduce(rates)
        self.all_reduce(names)
        texts = [row.tobytes().rstrip(b"\0").decode("ascii", "replace") for row in names]
        cards = list(zip(texts, rates.tolist(), strict=True))
        self.set_topology(map_of_cards(self._native.hosts, cards, _domains(self)))
        return self.topology()

    def _measure_first(self: _Collectives, budget: float) -> None:
        """Do what the option measure asks for, before the group's first op.

        Whether the group is new, and of how many hosts, is the same on all ranks that come at its
        beginning; one that comes later is given the map with its view.
        """
        late = self._native.is_newcomer or self._native.map[0] > 0
        if budget == 0 or late or max(self._native.hosts, default=0) <= 0:
            return
        try:
            self.measure(budget)
        except PeerLost as error:
            # All ranks go on without a map; where losses raise, the next op says so again.
            warnings.warn(f"option measure: no map of links was agreed on: {error}", stacklevel=4)

    def refresh_topology(self: _Collectives) -> list[str]:
        """Compare the map with the traffic of late, and agree on another one where it is wrong.

        All ranks call it, between the same collectives: every few seconds, at a step's end, say.
        What the kernel knows of each connection over TCP is gathered (least and smoothed round
        trip, what it delivered when it was full); a capacity is believed to have changed when three
        looks in a row say so. It names 64 peers at most (docs/reference/metrics.md).

        Returns
        -------
        list of str
            What changed, the same on all ranks; empty mostly.

        Raises
        ------
        ConfigError
            Without a map.
        """
        _, text = self._native.map
        if text is None:
            raise ConfigError(
                "refresh_topology() without a map of links; accepted: after the option topology, "
                "or set_topology()"
            )
        rows = np.zeros((self.size, self.size, len(_FACTS)), np.int64)
        rows[self.rank] = _look(self._node, self.size)
        self.all_reduce(rows)
        new = None
        if self.rank == min(self.live_ranks):
            known = matrix_of(text)
            changes = self._watch.look(known, _paths(rows))
            new = json.dumps(traffic.changed(known, changes)) if changes else None
        if not _distribute(self, new):
            return []
        _, taken = self._native.map
        return list(chart.differences(chart.read(text), chart.read(taken or text), 0.0))


def _domains(group: _Collectives) -> list[list[str]]:
    """By rank, the names of its option domain, from the outside in."""
    own = ("" if group._node is None else group._node.domain).encode()
    rows = np.zeros((group.size, _DOMAIN_BYTES), np.uint8)
    rows[group.rank, : len(own)] = np.frombuffer(own, np.uint8)
    group.all_reduce(rows)
    texts = [row.tobytes().rstrip(b"\0").decode(errors="replace") for row in rows]
    return [text.split("/") if text else [] for text in texts]


def matrix_of(text: str) -> dict[str, Any]:
    """Return a map with a rate for each pair, as JSON has it."""
    known: dict[str, Any] = json.loads(text)
    rate, ranks = known["gbit_per_s"], known["ranks"]
    if not isinstance(rate, list):
        known["gbit_per_s"] = [[0 if a == b else rate for b in range(ranks)] for a in range(ranks)]
    return known


def _distribute(group: _Collectives, text: str | None) -> bool:
    """Give all ranks the map of the lowest rank that has one; whether one had."""
    sizes = np.zeros(group.size, np.int64)
    refusal: ConfigError | None = None
    payload = np.empty(0, np.uint8)
    if text is not None:
        try:
            payload = _bytes_of(_core.canonical_map(text), group.size)
            sizes[group.rank] = len(payload)
        except ConfigError as error:
            refusal = error
            sizes[group.rank] = _REFUSED
    group.all_reduce(sizes)
    # What a peer says is bounded before memory is asked for.
    if refused := np.flatnonzero((sizes < 0) | (sizes > _MOST_BYTES)).tolist():
        raise refusal or ConfigError(f"the map of links of rank {refused[0]} cannot be used")
    given = np.flatnonzero(sizes)
    if not given.size:
        return False
    root = int(given[0])
    if group.rank != root:
        payload = np.empty(int(sizes[root]), np.uint8)
    group.broadcast(payload, root=root)
    group._native.take_map(payload.tobytes().decode(errors="replace"))
    return True


def _bytes_of(text: str, size: int) -> npt.NDArray[np.uint8]:
    ranks = json.loads(text)["ranks"]
    if ranks != size:
        raise ConfigError(f"the map of links has {ranks} ranks; accepted: {size}, as the group has")
    encoded = text.encode()
    if len(encoded) > _MOST_BYTES:
        raise ConfigError(f"a map of links of {len(encoded)} bytes; accepted: {_MOST_BYTES}")
    return np.frombuffer(bytearray(encoded), np.uint8)


def _look(node: _core.Node | None, size: int) -> npt.NDArray[np.int64]:
    """By peer, what this rank's kernel says of the connection."""
    row = np.zeros((size, len(_FACTS)), np.int64)
    text = "" if node is None else node.metrics_text(openmetrics=True)
    for name, labels, value in _LABELS.findall(text):
        peer = _PEER.search(labels)
        if name in _FACTS and peer is not None and int(peer[1]) < size:
            fact = _FACTS[name]
            row[int(peer[1]), fact] = int(float(value) * _SCALES[fact])
    return row


def _paths(rows: npt.NDArray[np.int64]) -> Sequence[dict[int, traffic.Path]]:
    return [
        {
            int(peer): traffic.Path(*(int(fact) for fact in row[peer]))
            for peer in np.flatnonzero(row.any(axis=1))
        }
        for row in rows
    ]
