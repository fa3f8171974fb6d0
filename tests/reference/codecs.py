"""codecs.md: the table of codecs of native/compress/codec.cpp, above what is written by hand."""

from __future__ import annotations

from typing import NamedTuple

from holdfast import _core
from reference.markdown import item, paragraph, put, section, words

# Names of dtypes as users have them.
DTYPES = {"f32": "float32", "bf16": "bfloat16", "f16": "float16"}
ELEMENTS = 1 << 20


class Codec(NamedTuple):
    """A row of the table."""

    name: str
    lossless: bool
    takes_residual: bool
    fixed_size: bool
    error_bound: str
    uses: list[str]
    dtypes: list[str]
    on_devices: bool
    # Pairs (dtype, most bytes of a frame of ELEMENTS elements).
    bytes: list[tuple[str, int]]


def bytes_text(codec: Codec) -> str:
    """How large a frame is, for each element and beside what it stands for."""
    size = dict(codec.bytes)
    dtype, width = ("f32", 4) if "f32" in size else ("bf16", 2)
    if codec.fixed_size:
        each = size[dtype] / ELEMENTS
        return f"{each:.4g} an element, {width / each:.3g} times fewer than {DTYPES[dtype]}"
    more = size[dtype] - width * ELEMENTS
    return f"as the data is; of {DTYPES[dtype]} at most {more} more than without"


def dtypes_text(names: list[str]) -> str:
    if len(names) == len(_core.dtypes()):
        return "every dtype"
    return ", ".join(DTYPES[name] for name in names)


def entry(codec: Codec) -> str:
    text = section(f"`{codec.name}`", 3)
    text += item("loses nothing" if codec.lossless else "lossy; sum and avg, and what is moved")
    text += item(f"bytes: {bytes_text(codec)}")
    if not codec.lossless:
        text += item(f"error of an element x: {codec.error_bound}")
    text += item(f"dtypes: {dtypes_text(codec.dtypes)}")
    usual = _core.codec_text(codec.name)
    text += item(f"options: {words(codec.uses)}; as it is by itself: `{usual}`")
    text += item(f"error feedback: {'yes' if codec.takes_residual else 'no, nothing is owed'}")
    return text + item("encoded by: the processor" + (", or a GPU" if codec.on_devices else ""))


def part() -> str:
    text = paragraph(
        "Bytes are those of a frame of 2^20 elements with the codec's own options, which "
        "[`holdfast.Codec`](python/holdfast.md#class-codec) explains."
    )
    return text + "".join(entry(Codec(*row)) for row in _core.codec_rows())


def page(old: str) -> str:
    return put(old, "codecs", part())
