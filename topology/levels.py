"""Hierarchical partitioning: which ranks share a model's parameters, gradients and optimiser
states, and which hold copies of them, so that slow links carry as little as they can.

What moves in each layer, parameters, is sharded inside the innermost level alone. What moves once a
step, gradients and updated parameters, is sharded over all levels but the outermost. Across the
outermost one the model is replicated, or cut into the stages of a pipeline.

References
----------
.. [1] Rajbhandari et al., "ZeRO: memory optimizations toward training trillion parameter models",
   SC 2020, section 5: what is sharded, and what it costs.
.. [2] Wang et al., "ZeRO++: extremely efficient collective communication for giant model training",
   2023, section 3.2: a second copy of the parameters inside of a host.
.. [3] Yang et al., "Holmes: towards distributed training across clusters with heterogeneous NIC
   environment", 2023, section 3: stages of a pipeline across clusters, cards of one kind in each.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from holdfast.errors import ConfigError
from holdfast.topology.chart import Chart, read

Path = tuple[str, ...]

_KBIT_PER_GBIT = 1e6
# Cards are of one kind when the one is at most so much faster, and a rate between two domains is
# that of their cards when it is not less than this part of it.
_ALIKE = 1.4


@dataclass(frozen=True, slots=True)
class Partition:
    """Ranks in levels, each of which has domains of one size.

    Parameters
    ----------
    names : tuple of str
        Of the levels, from the outside in: ``"rank"`` for a flat group, ``"host_rank"`` where two
        levels became one.
    shape : tuple of int
        How many domains of each level are in one of the level before.
    order : tuple of int
        The ranks, so that those of a domain follow each other: a mesh of this shape, row by row.
    gbit_per_s : tuple of float
        What each rank gets at each level when all ranks send across it: the median.
    across : str
        What the outermost of several levels does: ``"replicate"`` or ``"pipeline"``.
    """

    names: tuple[str, ...]
    shape: tuple[int, ...]
    order: tuple[int, ...]
    gbit_per_s: tuple[float, ...]
    across: str

    @property
    def parameters(self) -> tuple[str, ...]:
        """The levels over which parameters are sharded: the innermost one."""
        return self.names[-1:]

    @property
    def gradients(self) -> tuple[str, ...]:
        """The levels over which gradients are: the two innermost but the outermost of all."""
        return self.optimizer[-2:]

    @property
    def optimizer(self) -> tuple[str, ...]:
        """The levels over which the optimiser's states are: all but the outermost."""
        return self.names[1:] if len(self.names) > 1 else self.names

    def groups(self, levels: str | Sequence[str]) -> tuple[tuple[int, ...], ...]:
        """Return the groups of ranks that differ in these levels only.

        Parameters
        ----------
        levels : str or sequence of str
            One of `names`, or several.

        Returns
        -------
        tuple of tuple of int
            Ranks of each group, in the order of the mesh.

        Raises
        ------
        ConfigError
            For a level that there is not.
        """
        wanted = [levels] if isinstance(levels, str) else list(levels)
        for name in wanted:
            if name not in self.names:
                raise ConfigError(f"level {name!r}; accepted: {', '.join(self.names)}")
        axes = [self.names.index(name) for name in self.names if name in wanted]
        mesh = np.moveaxis(np.array(self.order).reshape(self.shape), axes, range(-len(axes), 0))
        size = math.prod(self.shape[axis] for axis in axes)
        return tuple(tuple(int(r) for r in row) for row in mesh.reshape(-1, size))

    def bytes_out(
        self, parameter_bytes: int, gradient_bytes: int | None = None, *, outermost: float = 1.0
    ) -> dict[str, float]:
        """Predict what a step of training sends out of one domain of each level.

        Gradients are reduce-scattered from the inside out, all-reduced across the outermost level;
        updated parameters are gathered on the way back, and gathered in the innermost level for
        each forward and each backward pass.

        Parameters
        ----------
        parameter_bytes, gradient_bytes : int
            Of the whole model; gradients have as many as parameters unless told.
        outermost : float
            What a codec leaves of a byte at the outermost of several levels.

        Returns
        -------
        dict of str to float
            Bytes by level; 0 across the stages of a pipeline, whose activations are not counted.
        """
        gradients = parameter_bytes if gradient_bytes is None else gradient_bytes
        out: dict[str, float] = {}
        passes = _passes(len(self.names), self.across)
        for name, size, (of_parameters, of_gradients) in zip(
            self.names, self.shape, passes, strict=True
        ):
            sent = of_parameters * parameter_bytes + of_gradients * gradients
            coded = outermost if name == self.names[0] and len(self.names) > 1 else 1.0
            out[name] = (size - 1) / size * sent * coded
        return out


def describe(parts: Partition, parameter_bytes: int) -> Iterator[str]:
    """Yield lines that say who shares what, and what a step of training takes at each level.

    Parameters
    ----------
    parts : Partition
        Of a map.
    parameter_bytes : int
        Of the whole model; its gradients have as many.
    """
    out = parts.bytes_out(parameter_bytes)
    for number, (name, size) in enumerate(zip(parts.names, parts.shape, strict=True)):
        held = [
            what
            for what, over in (
                ("parameters", parts.parameters),
                ("gradients", parts.gradients),
                ("optimiser", parts.optimizer),
            )
            if name in over
        ]
        across = {"replicate": "replicas", "pipeline": "stages"}[parts.across]
        does = f"shards {', '.join(held)}" if held else across
        ranks = math.prod(parts.shape[number + 1 :])
        seconds = out[name] / ranks * 8 / (parts.gbit_per_s[number] * 1e9)
        yield (
            f"{size} x {name}: {does}; {out[name] / 1e9:.3g} GB a step out of each, "
            f"{seconds:.3g} s at {parts.gbit_per_s[number]:.3g} Gbit/s a rank"
        )
    yield f"ranks in this order: {' '.join(str(rank) for rank in parts.order)}"


def partition(
    map_text: str, levels: int = 3, *, across: Literal["replicate", "pipeline"] = "replicate"
) -> Partition:
    """Group the ranks of a map into levels.

    Of a map with more levels than are asked for those are joined for which a step takes the least
    time. ``across="pipeline"`` cuts at the slowest level: a stage is one of its domains, or those
    whose cards are of one kind, where the rates between domains tell kinds apart.

    Parameters
    ----------
    map_text : str
        The map, as JSON. It says where the ranks are: by `levels`, or by `domains`.
    levels : int
        How many to have, ranks included: 1 is a flat group.
    across : str
        What the outermost level is for.

    Returns
    -------
    Partition

    Raises
    ------
    ConfigError
        For a map that does not say where ranks are, domains of unequal sizes, more levels than
        there are.
    """
    if across not in ("replicate", "pipeline"):
        raise ConfigError(f"across {across!r}; accepted: replicate, pipeline")
    chart = read(map_text)
    paths = list(chart.domains)
    _check_paths(paths)
    rates = _rates(chart)
    named = _names(paths)
    if across == "pipeline":
        paths, named = _staged(paths, named, rates)
    paths = [(*path, str(rank)) for rank, path in enumerate(paths)]
    paths, named = _without_single_domains(paths, [*named, "rank"])
    if not 1 <= levels <= len(named):
        raise ConfigError(
            f"levels {levels}; accepted: 1 to {len(named)}, as the map has {', '.join(named)}"
        )
    speeds = [_speed(paths, rates, level) for level in range(len(named))]
    if levels == 1:
        rate = min(speeds) / _KBIT_PER_GBIT
        return Partition(("rank",), (len(paths),), _order(paths), (rate,), across)
    order, shape = _rows(paths, named)
    spans = _joined(shape, speeds, levels, across)
    return Partition(
        tuple("_".join(named[first:last]) for first, last in spans),
        tuple(math.prod(shape[first:last]) for first, last in spans),
        order,
        tuple(min(speeds[first:last]) / _KBIT_PER_GBIT for first, last in spans),
        across,
    )


def _check_paths(paths: list[Path]) -> None:
    for rank, path in enumerate(paths):
        if not path:
            raise ConfigError(
                f"the map does not say where rank {rank} is; give it `domains`, or `levels`"
            )
        if len(path) != len(paths[0]):
            raise ConfigError(
                f"rank {rank} is in {len(path)} domains, rank 0 in {len(paths[0])}; "
                "accepted: as many for all"
            )


def _rates(chart: Chart) -> npt.NDArray[np.float64]:
    """By sender and receiver, kbit/s where all ranks send across what they share at once."""
    rates = chart.kbit_per_s.astype(np.float64)
    for one in chart.shared:
        at = np.ix_(one.senders, one.receivers)
        rates[at] = np.minimum(
            rates[at], one.kbit_per_s / min(len(one.senders), len(one.receivers))
        )
    return rates


def _names(paths: list[Path]) -> list[str]:
    """What the levels are called: "site" where domains are "site-a" and "site-b"."""
    names: list[str] = []
    for level in range(len(paths[0])):
        stems = {path[level].rpartition("-")[0] for path in paths}
        stem = stems.pop() if len(stems) == 1 else ""
        names.append(stem if stem and stem not in (*names, "rank") else f"level{level}")
    return names


def _level_of_pairs(paths: list[Path]) -> npt.NDArray[np.int64]:
    """By pair, how many domains they share from the outside in: the level that parts them."""
    level = np.zeros((len(paths), len(paths)), dtype=np.int64)
    for depth in range(1, len(paths[0]) + 1):
        numbers = _numbered([path[:depth] for path in paths])
        level += numbers[:, None] == numbers[None, :]
    return level


def _numbered(paths: list[Path]) -> npt.NDArray[np.int64]:
    known: dict[Path, int] = {}
    return np.array([known.setdefault(path, len(known)) for path in paths])


def _speed(paths: list[Path], rates: npt.NDArray[np.float64], level: int) -> float:
    """What pairs have that this level parts: the median, of those that have a way."""
    parted = rates[_level_of_pairs(paths) == level]
    parted = parted[parted > 0]
    return float(np.median(parted)) if parted.size else 0.0


def _without_single_domains(paths: list[Path], names: list[str]) -> tuple[list[Path], list[str]]:
    """Leave levels out that part nobody."""
    kept = [
        level
        for level in range(len(names))
        if len({path[: level + 1] for path in paths}) > len({path[:level] for path in paths})
    ]
    # A domain's name need not be unique outside of its own, so a path keeps all names before it.
    bounds = [0, *(level + 1 for level in kept)]
    spans = list(itertools.pairwise(bounds))
    short = [tuple("/".join(path[a:b]) for a, b in spans) for path in paths]
    return short, [names[level] for level in kept]


def _joined(
    shape: tuple[int, ...], speeds: list[float], levels: int, across: str
) -> list[tuple[int, int]]:
    """Which levels become one: the first of each, and the one after its last.

    The choice takes the least time for a step of training, as `Partition.bytes_out` has it; where
    two levels become one, the slower of them decides.
    """
    passes = _passes(levels, across)

    def seconds(spans: list[tuple[int, int]]) -> float:
        spent = 0.0
        for (first, last), often in zip(spans, passes, strict=True):
            size, in_domain = math.prod(shape[first:last]), math.prod(shape[last:])
            rate = max(min(speeds[first:last]), 1.0)
            spent += sum(often) * (size - 1) / size / in_domain / rate
        return spent

    pipeline = across == "pipeline" and levels > 1
    choices = []
    for cuts in itertools.combinations(range(1, len(shape)), levels - 1):
        if pipeline and 1 not in cuts:
            continue
        choices.append(list(itertools.pairwise([0, *cuts, len(shape)])))
    return min(choices, key=seconds)


def _passes(levels: int, across: str) -> list[tuple[int, int]]:
    """By level, how often a step sends parameters, and gradients, through a reduce_scatter or an
    all_gather there; an all_reduce is both.
    """
    outermost = (0, 2) if across == "replicate" else (0, 0)
    return [outermost, *[(1, 1)] * (levels - 2), (2, 1)][-levels:]


def _rows(paths: list[Path], names: list[str]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Ranks in the mesh's order, and its shape."""
    shape: list[int] = []
    for level, name in enumerate(names):
        sizes = Counter(path[:level] for path in {path[: level + 1] for path in paths})
        (small, least), (large, most) = (
            min(sizes.items(), key=lambda item: item[1]),
            max(sizes.items(), key=lambda item: item[1]),
        )
        if least != most:
            raise ConfigError(
                f"level {name}: {'/'.join(large)} has {most}, {'/'.join(small)} has {least}; "
                f"accepted: domains of one size, or fewer levels than {len(names)}"
            )
        shape.append(most)
    return _order(paths), tuple(shape)


def _order(paths: list[Path]) -> tuple[int, ...]:
    """The ranks, domain by domain, these in the order of their lowest ranks."""
    lowest: dict[Path, int] = {}
    for rank, path in enumerate(paths):
        for level in range(1, len(path) + 1):
            lowest.setdefault(path[:level], rank)
    return tuple(
        sorted(
            range(len(paths)),
            key=lambda rank: [lowest[paths[rank][: n + 1]] for n in range(len(paths[rank]))],
        )
    )


# ---- stages of a pipeline ----------------------------------------------------------------------


def _staged(
    paths: list[Path], names: list[str], rates: npt.NDArray[np.float64]
) -> tuple[list[Path], list[str]]:
    """Put the stages before all levels; what was outside of the slowest level is gone."""
    speeds = [_speed(paths, rates, level) for level in range(len(names))]
    slowest = min(range(len(names)), key=lambda level: speeds[level] or math.inf)
    domains = _numbered([path[: slowest + 1] for path in paths])
    stage_of = _kinds(domains, rates)
    sizes = Counter(stage_of[domain] for domain in domains)
    if len(sizes) == 1 or len(set(sizes.values())) > 1:  # no kinds, or none that make a mesh
        stage_of = list(range(len(stage_of)))
    staged = [
        (f"stage-{stage_of[domains[rank]]}", *path[slowest:]) for rank, path in enumerate(paths)
    ]
    return staged, ["stage", *names[slowest:]]


def _kinds(domains: npt.NDArray[np.int64], rates: npt.NDArray[np.float64]) -> list[int]:
    """By domain, the number of the set of domains whose cards are of one kind."""
    count = int(domains.max()) + 1
    between = np.zeros((count, count))
    for a, b in itertools.permutations(range(count), 2):
        between[a, b] = np.median(rates[np.ix_(domains == a, domains == b)])
    best = between.max(axis=1, initial=0.0)
    kind = list(range(count))
    for a, b in itertools.combinations(range(count), 2):
        slow, fast = sorted((best[a], best[b]))
        if slow > 0 and fast <= slow * _ALIKE and between[a, b] * _ALIKE >= slow:
            old, new = max(kind[a], kind[b]), min(kind[a], kind[b])
            kind = [new if k == old else k for k in kind]
    return [int(k) for k in _numbered([(str(k),) for k in kind])]
