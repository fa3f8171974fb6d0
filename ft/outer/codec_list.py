"""``codec="auto(bf16,int8,int4)"``: which codecs a trainer may choose from, and what is refused."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.compress.codec import Codec, codec_text, is_lossless
from holdfast.errors import ConfigError

_NAME = "auto"
_ACCEPTED = "accepted: auto(CODEC,...), from the least lossy to the most, as auto(bf16,int8,int4)"
# Reports have two numbers for each; nobody has so many codecs to choose from.
_MOST = 8


def listed(codec: Codec | str | None) -> tuple[str, ...]:
    """Return the codecs that a trainer's argument lists, as the runtime spells them.

    Parameters
    ----------
    codec : Codec, str or None
        The argument.

    Returns
    -------
    tuple of str
        Empty for what is no list.

    Raises
    ------
    ConfigError
        For a list from which nothing can be chosen, with what is accepted.
    """
    if not isinstance(codec, str) or codec.partition("(")[0].strip() != _NAME:
        return ()
    rest = codec.strip()[len(_NAME) :].strip()
    if not (rest.startswith("(") and rest.endswith(")")):
        raise _refused(codec, "no list in parentheses")
    found: list[str] = []
    for part in _parts(codec, rest[1:-1]):
        if part.partition("(")[0].strip() == _NAME:
            raise _refused(codec, f"{part!r} is a list in a list")
        try:
            text = codec_text(part)
        except ConfigError as error:
            raise _refused(codec, f"{error}") from None
        if is_lossless(text):
            raise _refused(
                codec, f"{text} loses nothing, and how much it saves is known only afterwards"
            )
        if text in found:
            raise _refused(codec, f"{text} is there twice")
        found.append(text)
    if not 1 <= len(found) <= _MOST:
        raise _refused(codec, f"{len(found)} codecs, of 1 to {_MOST}")
    return tuple(found)


def text_of(codecs: Sequence[str]) -> str:
    """Return a list as text, the same on all members that have the same one.

    Parameters
    ----------
    codecs : sequence of str
        As `listed` returns them.
    """
    return f"{_NAME}({','.join(codecs)})"


def refuse_disorder(codecs: Sequence[str], ratios: Sequence[float]) -> None:
    """Refuse a list in which larger frames stand after smaller ones.

    Parameters
    ----------
    codecs : sequence of str
        The list.
    ratios : sequence of float
        Bytes of each codec's frames by bytes of float32.

    Raises
    ------
    ConfigError
        With the two that stand in the wrong order.
    """
    for place in range(1, len(codecs)):
        if ratios[place] > ratios[place - 1]:
            raise _refused(
                text_of(codecs),
                f"frames of {codecs[place]} are larger than those of {codecs[place - 1]}, which "
                "stands before it",
            )


def _parts(codec: str, inside: str) -> list[str]:
    """Split at commas that are in no parentheses."""
    parts, depth = [""], 0
    for letter in inside:
        depth += (letter == "(") - (letter == ")")
        if depth < 0:
            break
        if letter == "," and not depth:
            parts.append("")
        else:
            parts[-1] += letter
    if depth:
        raise _refused(codec, "parentheses do not match")
    parts = [part.strip() for part in parts]
    if not all(parts):
        raise _refused(codec, "the list is empty" if parts == [""] else "a codec has no name")
    return parts


def _refused(codec: str, why: str) -> ConfigError:
    return ConfigError(f"codec = {codec!r}: {why}; {_ACCEPTED}")
