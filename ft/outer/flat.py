"""The parameters of a fragment as one flat vector, and what of a model is trained in rounds."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence

import torch

from holdfast.errors import ConfigError
from holdfast.ft.outer import shards
from holdfast.ft.outer.fragments import strides
from holdfast.ft.outer.rounds import Rounds, table

Model = torch.nn.Module | Mapping[str, torch.Tensor]


def trained(model: Model) -> dict[str, torch.Tensor]:
    """Return the parameters that members share, by name.

    Parameters
    ----------
    model : torch.nn.Module or mapping of str to torch.Tensor
        Of a module, the parameters that require a gradient; of a mapping, all.

    Raises
    ------
    ConfigError
        Without any, or for what cannot be averaged.
    """
    found: dict[str, torch.Tensor]
    if isinstance(model, torch.nn.Module):
        found = {name: p for name, p in model.named_parameters() if p.requires_grad}
    else:
        found = dict(model)
    if not found:
        raise ConfigError("model: no parameter requires a gradient; accepted: one and more")
    for name, p in found.items():
        if not p.dtype.is_floating_point:
            raise ConfigError(
                f"parameter {name!r} is of {p.dtype}, which has no average and which no codec of "
                "progress takes; accepted: floating parameters; leave it out of the mapping"
            )
    shards.refuse_partial(found)
    return found


def rounds_of(
    method: str, model: Model, inner_steps: int, fragments: int, delay: int, own: bool = False
) -> Rounds:
    """Return the rounds of a method for a model.

    Parameters
    ----------
    method : str
        Its name.
    model : torch.nn.Module or mapping of str to torch.Tensor
        Whose parameters are dealt to fragments.
    inner_steps, fragments, delay : int
        As `rounds.table` has them.
    own : bool
        Whether members put in something of their own when an exchange has begun.
    """
    return table(method, inner_steps, strides(list(trained(model)), fragments), delay, own)


class Flat:
    """A fragment's parameters, as one vector of float32, or of float64 where one of them is.

    Parameters
    ----------
    parameters : sequence of torch.Tensor
        On one device; read and written. Of DTensors, the part that is here.
    """

    def __init__(self, parameters: Sequence[torch.Tensor]) -> None:
        self._parameters = list(parameters)
        self.count = sum(part.numel() for part in self._here())
        self.device = parameters[0].device
        wide = any(p.dtype == torch.float64 for p in parameters)
        self.dtype = torch.float64 if wide else torch.float32
        self._is_narrow = any(p.dtype != self.dtype for p in parameters)

    def read(self) -> torch.Tensor:
        """Return a copy of the parameters."""
        return torch.cat([part.reshape(-1).to(self.dtype) for part in self._here()])

    def write(self, flat: torch.Tensor) -> None:
        """Set the parameters, each rounded to its own dtype."""
        for here, part in zip(self._here(), self._parts(flat), strict=True):
            here.copy_(part.view(here.shape))

    def rounded(self, flat: torch.Tensor) -> torch.Tensor:
        """Return what `read` would after a `write`; the vector itself where nothing is rounded."""
        if not self._is_narrow:
            return flat
        parts = zip(self._parameters, self._parts(flat), strict=True)
        return torch.cat([part.to(p.dtype).to(self.dtype) for p, part in parts])

    def views(self, flat: torch.Tensor) -> list[torch.Tensor]:
        """Return the parts of a vector in the shapes of the parameters.

        Parameters
        ----------
        flat : torch.Tensor
            As `read` returns it.
        """
        parts = zip(self._here(), self._parts(flat), strict=True)
        return [part.view(here.shape) for here, part in parts]

    def zeros(self, count: int | None = None) -> torch.Tensor:
        """Return zeros of the vector's dtype and device; default: as many as it has elements."""
        return torch.zeros(
            self.count if count is None else count, dtype=self.dtype, device=self.device
        )

    def mend(self, inner: torch.optim.Optimizer) -> None:
        """Drop what the inner optimiser keeps of parameters where that is not finite."""
        for p in self._parameters:
            kept = inner.state.get(p, {})
            tensors = [
                shards.local(value) for value in kept.values() if isinstance(value, torch.Tensor)
            ]
            if any(value.is_floating_point() and not value.isfinite().all() for value in tensors):
                del inner.state[p]

    def _parts(self, flat: torch.Tensor) -> Sequence[torch.Tensor]:
        return torch.split(flat, [here.numel() for here in self._here()])

    def _here(self) -> list[torch.Tensor]:
        """Return the parts of the parameters that are here; whoever shards them may move them."""
        return [shards.local(p) for p in self._parameters]


def digests(parameters: Mapping[str, torch.Tensor], settings: str) -> list[tuple[str, int]]:
    """Return 63 bits of each of what members must have alike.

    Parameters
    ----------
    parameters : mapping of str to torch.Tensor
        By name.
    settings : str
        The trainer's.
    """
    kinds = [f"{name} {shards.kind(p)}" for name, p in parameters.items()]
    values = hashlib.sha256()
    for p in parameters.values():
        bits = shards.local(p).cpu().contiguous().reshape(-1).view(torch.uint8)
        values.update(bits.numpy().tobytes())
    return [
        ("model (names, shards, shapes or dtypes of parameters)", digest("\n".join(kinds))),
        ("trainer (method, rounds or codec)", digest(settings)),
        ("model's parameter values", _bits(values)),
    ]


def digest(text: str) -> int:
    """Return 63 bits of a text.

    Parameters
    ----------
    text : str
        Any.
    """
    return _bits(hashlib.sha256(text.encode()))


def _bits(digest: hashlib._Hash) -> int:
    return int.from_bytes(digest.digest()[:8], "little") >> 1
