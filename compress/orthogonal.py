"""Orthonormal columns by Cholesky-QR, twice.

Fukaya, Nakatsukasa, Yanagisawa, Yamamoto, "CholeskyQR2: a simple and communication-avoiding
algorithm for computing a tall-skinny QR factorization", ScalA 2014, section 3. Departures: columns
are scaled to length 1 first; the work is done in float64, which a tall-skinny matrix can afford and
which makes the method good for any float32 input of full rank; where the Cholesky factor says that
the columns depend on each other, Householder's QR takes over, which completes the basis.
"""

from __future__ import annotations

import torch

# Below this ratio of the Cholesky factor's diagonal the columns count as dependent: float32 input
# carries nothing beyond it.
_DEPENDENT = 1e-6


def orthonormalise(columns: torch.Tensor) -> torch.Tensor:
    """Return an orthonormal basis whose span holds the columns.

    Equal input gives equal bits on equal hardware, so that ranks need not talk about it.

    Parameters
    ----------
    columns : torch.Tensor
        Shape (m, r) with m >= r, floating, finite.

    Returns
    -------
    torch.Tensor
        Shape (m, r), float64. Of dependent or zero columns, too, all r are orthonormal.
    """
    x = columns.to(torch.float64)
    lengths = torch.linalg.vector_norm(x, dim=0)
    if bool((lengths == 0).any()):
        return _householder(x)
    scaled = x / lengths
    for _ in range(2):
        factor, failed = torch.linalg.cholesky_ex(scaled.T @ scaled)
        diagonal = factor.diagonal()
        if int(failed) != 0 or bool(diagonal.min() < _DEPENDENT * diagonal.max()):
            return _householder(x)
        scaled = torch.linalg.solve_triangular(factor.T, scaled, upper=True, left=False)
    basis: torch.Tensor = scaled
    return basis


def _householder(x: torch.Tensor) -> torch.Tensor:
    basis: torch.Tensor = torch.linalg.qr(x).Q
    return basis
