"""The constants of the cost model, from measured collectives.

References
----------
.. [1] Hockney, "The communication challenge for MPP", Parallel Computing 20(3), 1994: time is
   latency plus bytes by bandwidth.
.. [2] Thakur, Rabenseifner, Gropp, "Optimization of Collective Communication Operations in MPICH",
   IJHPCA 19(1), 2005, section 2: the same of a whole collective, with the cost of reduction.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, slots=True)
class LinkModel:
    """The constants of a link, of which the cost model makes seconds.

    Parameters
    ----------
    alpha : float
        Seconds a message.
    beta : float
        Seconds a byte on the wire.
    gamma : float
        Seconds a reduced byte.
    """

    alpha: float
    beta: float
    gamma: float


def fit(terms: Sequence[tuple[float, float, float]], seconds: Sequence[float]) -> LinkModel | None:
    """Fit the constants to measurements, all of which count alike, whatever their size.

    Parameters
    ----------
    terms : sequence of (float, float, float)
        Messages, bytes on the wire and bytes reduced of each measurement.
    seconds : sequence of float
        What each took.

    Returns
    -------
    LinkModel or None
        None of its constants negative, with the least squares of relative errors; None when there
        are fewer than three measurements.
    """
    measured = np.asarray(seconds, dtype=np.float64)
    known = measured > 0
    if known.sum() < 3:
        return None
    matrix = np.asarray(terms, dtype=np.float64)[known] / measured[known, None]
    scale = matrix.max(axis=0)
    used = [i for i in range(3) if scale[i] > 0]
    best, least = np.zeros(3), np.inf
    # Three unknowns: the best of all ways to hold some at zero is the best there is.
    for count in range(1, len(used) + 1):
        for columns in itertools.combinations(used, count):
            part = matrix[:, columns] / scale[list(columns)]
            found, *_ = np.linalg.lstsq(part, np.ones(len(part)), rcond=None)
            error = float(np.sum((part @ found - 1) ** 2))
            if np.all(found >= 0) and error < least:
                best, least = np.zeros(3), error
                best[list(columns)] = found / scale[list(columns)]
    return LinkModel(*(float(x) for x in best))
