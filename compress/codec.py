"""Codecs: what an op's data travels as."""

from __future__ import annotations

from dataclasses import dataclass

from holdfast._core import codec_text as canonical_text
from holdfast.errors import ConfigError

# Codecs that lose nothing: what they move arrives bit by bit.
LOSSLESS = ("zstd", "bfloat")


@dataclass(frozen=True, slots=True)
class Codec:
    """A wire codec and what is chosen about it; None is the codec's own default.

    What a codec does not have may not be chosen about it, and is refused when this is made.

    Parameters
    ----------
    name : str
        ``bf16``, ``fp16``, ``fp8_e4m3``, ``fp8_e5m2``, ``int8``, ``int4``, ``onebit``, ``topk``;
        lossless: ``zstd`` (any dtype), ``bfloat`` (bfloat16).
    block : int, optional
        Elements to one scale: a multiple of 32, 32 to 512.
    rounding : str, optional
        ``"nearest"``, or ``"stochastic"``: right on average (bf16, int8, int4).
    grid : str, optional
        ``"symmetric"`` or ``"minmax"`` (int8, int4).
    scale : str, optional
        ``"rms"`` or ``"l1"`` (onebit).
    ratio : float, optional
        Part of the elements that is sent (topk).
    level : int, optional
        How much time goes into a smaller frame: -7 to 19, 1 if not chosen (zstd).
    tier : str, optional
        ``"fast"``, or ``"dense"``: smaller and slower (bfloat).

    Raises
    ------
    ConfigError
        Naming what cannot be used, and what is accepted.
    """

    name: str
    block: int | None = None
    rounding: str | None = None
    grid: str | None = None
    scale: str | None = None
    ratio: float | None = None
    level: int | None = None
    tier: str | None = None

    def __post_init__(self) -> None:
        """Have the runtime check the values."""
        for field, value, accepted in (
            ("rounding", self.rounding, ("nearest", "stochastic")),
            ("grid", self.grid, ("symmetric", "minmax")),
            ("scale", self.scale, ("rms", "l1")),
            ("tier", self.tier, ("fast", "dense")),
        ):
            if value is not None and value not in accepted:
                raise ConfigError(f"codec {field} = {value!r}; accepted: {' or '.join(accepted)}")
        codec_text(self)


def codec_text(codec: Codec | str | None) -> str:
    """Return a codec as the runtime takes it.

    Parameters
    ----------
    codec : Codec, str or None
        A codec, its name, or its text; None: no codec.

    Returns
    -------
    str
        Its text, ``"int8(block=128)"``; empty for None.

    Raises
    ------
    ConfigError
        For what is no codec.
    """
    if codec is None:
        return ""
    if isinstance(codec, Codec):
        words = [codec.rounding, codec.grid, codec.scale, codec.tier]
        if codec.block is not None:
            words.append(f"block={codec.block}")
        if codec.level is not None:
            words.append(f"level={codec.level}")
        if codec.ratio is not None:
            words.append(f"ratio={float(codec.ratio)!r}")
        chosen = ",".join(word for word in words if word is not None)
        return canonical_text(f"{codec.name}({chosen})" if chosen else codec.name)
    if not isinstance(codec, str):
        raise ConfigError(f"codec = {codec!r}; accepted: a name, or holdfast.Codec(...)")
    return canonical_text(codec)


def is_lossless(text: str) -> bool:
    """Return whether a codec, given by its text, loses nothing."""
    return text.partition("(")[0] in LOSSLESS


def measured_dtype(text: str) -> str:
    """Return the dtype that a codec, given by its text, is measured on.

    Parameters
    ----------
    text : str
        As `codec_text` gives it.

    Returns
    -------
    str
        ``"bf16"`` for what takes nothing else, ``"f32"`` for all others.
    """
    return "bf16" if text.startswith("bfloat") else "f32"
