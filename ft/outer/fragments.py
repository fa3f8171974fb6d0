"""Which parameters make a fragment: by their names alone, so that every member has the same ones.

Layers are dealt to fragments in strides, as Streaming DiLoCo does (arXiv:2501.18512, section 2.2):
with P fragments, layer l is in fragment l mod P.
"""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.errors import ConfigError


def layer_of(name: str) -> str:
    """Return the layer of a parameter: its name up to the first number, else without its last word.

    Parameters
    ----------
    name : str
        As ``named_parameters()`` has it: ``"blocks.3.attention.weight"`` is of ``"blocks.3"``.
    """
    words = name.split(".")
    for count, word in enumerate(words, 1):
        if word.isdigit():
            return ".".join(words[:count])
    return ".".join(words[:-1]) or name


def strides(names: Sequence[str], fragments: int) -> tuple[tuple[str, ...], ...]:
    """Deal parameters to fragments, layer by layer in turn.

    Parameters
    ----------
    names : sequence of str
        The parameters' names, in the model's order.
    fragments : int
        How many.

    Raises
    ------
    ConfigError
        When there are fewer layers than fragments.
    """
    layers = list(dict.fromkeys(layer_of(name) for name in names))
    if not 1 <= fragments <= len(layers):
        raise ConfigError(
            f"fragments = {fragments} for a model of {len(layers)} layers; accepted: 1 to "
            f"{len(layers)}"
        )
    place = {layer: number % fragments for number, layer in enumerate(layers)}
    return tuple(
        tuple(name for name in names if place[layer_of(name)] == fragment)
        for fragment in range(fragments)
    )
