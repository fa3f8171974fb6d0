"""The one link by which a coded all_reduce between all ranks of a map goes.

All ranks send at the same time, each two parts of its frame to each other rank: the slowest pair
says how fast, or a capacity that many pairs share; the longest way says how late.
"""

from __future__ import annotations

import numpy as np

from holdfast.errors import ConfigError
from holdfast.topology.chart import Chart
from holdfast.topology.link_fit import LinkModel

_BYTES_PER_KBIT = 125.0


def slowest_link(chart: Chart) -> LinkModel:
    """Return the constants that `codec_cost.coded_seconds` takes for a map.

    Parameters
    ----------
    chart : Chart
        The map, of two ranks or more.

    Returns
    -------
    LinkModel
        Its rate is of what a rank sends to all others together.

    Raises
    ------
    ConfigError
        For one rank, and where a pair has no way.
    """
    if chart.ranks < 2:
        raise ConfigError("a map of 1 rank; accepted: 2 and more, between which there are links")
    apart = ~np.eye(chart.ranks, dtype=bool)
    kbit = float(chart.kbit_per_s[apart].min())
    if kbit <= 0:
        a, b = (int(rank) for rank in np.argwhere(apart & (chart.kbit_per_s <= 0))[0])
        raise ConfigError(f"rank {a} has no way to rank {b}; accepted: a map in which all have one")
    for one in chart.shared:
        pairs = sum(a != b for a in one.senders for b in one.receivers)
        # Of what a rank sends, one in (ranks - 1) parts goes to each other rank.
        if pairs:
            kbit = min(kbit, one.kbit_per_s * (chart.ranks - 1) / pairs)
    alpha_s = float(chart.alpha_ns[apart].max()) / 1e9
    return LinkModel(alpha_s, 1 / (kbit * _BYTES_PER_KBIT), 0.0)
