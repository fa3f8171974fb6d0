"""What else is done with a mean that has arrived: mixing, penalty and clip; functions of tensors.

What they compute from shared tensors has the same bits on all members.
"""

from __future__ import annotations

import math

import torch

# Elements to one partial sum of a norm.
_ROW = 4096


def mix(local: torch.Tensor, outer: torch.Tensor, keep: float) -> torch.Tensor:
    """Return the local parameters mixed with the shared ones.

    Streaming DiLoCo, arXiv:2501.18512, section 2.3, equation 3, where `keep` is alpha.

    Parameters
    ----------
    local, outer : torch.Tensor
        Of one shape.
    keep : float
        The local parameters' part, 0 to 1; with 0 it is the shared ones, bit for bit.
    """
    return outer.lerp(local, keep) if keep else outer


def norm(flat: torch.Tensor) -> float:
    """Return the Euclidean norm, the same whatever the number of threads.

    Rows are added up by themselves, and their sums exactly.

    Parameters
    ----------
    flat : torch.Tensor
        One-dimensional, contiguous.
    """
    whole = flat.numel() // _ROW * _ROW
    squares = flat[:whole].double().square().view(-1, _ROW).sum(1).tolist()
    rest = flat[whole:].double().square().tolist()
    return math.sqrt(math.fsum([*squares, *rest]))


def staleness(moved: float, progress: float) -> float:
    """Return CO2's staleness gap: by how many lengths of the progress its ground has moved.

    CO2, arXiv:2401.16265, divides the outer step by its gap. This one is measured: 1 when the
    shared parameters are where the progress began, and 1 more for each length of the progress that
    they have moved since.

    Parameters
    ----------
    moved : float
        The norm of how far the shared parameters have moved since the progress began.
    progress : float
        The norm of the mean progress.
    """
    return 1.0 + moved / progress if progress > 0 else 1.0


def clip(momentum: torch.Tensor, limit: float) -> float:
    """Shorten the outer momentum to a limit, in place, and return its norm before.

    CO2, arXiv:2401.16265: outer momentum clipping.

    Parameters
    ----------
    momentum : torch.Tensor
        Flat.
    limit : float
        The longest that it may be.
    """
    length = norm(momentum)
    if length > limit:
        momentum.mul_(limit / length)
    return length
