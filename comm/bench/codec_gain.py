"""``holdfast plan --codec``: from which size on a codec makes an all_reduce over TCP faster.

Predicted: by the link's constants, and by how fast this machine encodes.
"""

from __future__ import annotations

from dataclasses import dataclass

from holdfast import _core
from holdfast.comm import codec_speed
from holdfast.comm.bench import report
from holdfast.compress.codec import measured_dtype
from holdfast.topology.codec_cost import break_even
from holdfast.topology.link_fit import LinkModel, fit


@dataclass(frozen=True, slots=True)
class Gain:
    """What the cost model says of one codec; `bytes` is None where it never pays.

    `dtype` is that of the array, as ``_core`` names it.
    """

    ranks: int
    codec: str
    bytes: int | None
    ratio: float
    encode_gb_per_s: float
    decode_gb_per_s: float
    dtype: str = "f32"

    def line(self) -> str:
        """Return it for people."""
        wins = "at no size" if self.bytes is None else f"from {report.size_text(self.bytes)} on"
        return (
            f"all_reduce of {self.dtype}, {self.ranks} ranks over tcp, is faster with {self.codec} "
            f"{wins}: frames of {self.ratio:.1%}, encodes {self.encode_gb_per_s:.1f} GB/s, "
            f"decodes {self.decode_gb_per_s:.1f} GB/s"
        )


def plain_seconds(ranks: int, size: int, table: str) -> tuple[str, float]:
    """Return the algorithm that is predicted to run without a codec, and its seconds."""
    rows = _core.predictions("all_reduce", ranks, ranks, False, size, table)
    return min(rows, key=lambda row: row[1])


def link_of(table: str) -> LinkModel:
    """Return the constants of TCP links that the cost model takes from a table of plans."""
    terms, seconds = [], []
    for size in (1 << 10, 1 << 20, 1 << 30):
        for algorithm, took in _core.predictions("all_reduce", 4, 4, False, size, table):
            of_model = _core.cost_terms("all_reduce", algorithm, 4, size)
            if of_model is not None:
                terms.append(of_model)
                seconds.append(took)
    # Predictions are made of the constants without an error, so that these are they.
    return fit(terms, seconds) or LinkModel(0.0, 0.0, 0.0)


def gain(ranks: int, codec: str, table: str) -> Gain:
    """Predict from which size on a codec pays.

    Parameters
    ----------
    ranks : int
        Each on a host of its own.
    codec : str
        Its text.
    table : str
        The text of a table of plans.

    Returns
    -------
    Gain
        For the table's links and this machine.
    """
    cost = codec_speed.measure(codec)
    least = break_even(link_of(table), ranks, cost, lambda n: plain_seconds(ranks, n, table)[1])
    encode, decode = (round(1e-9 / rate, 1) for rate in (cost.encode, cost.decode))
    ratio = round(cost.ratio, 4)
    return Gain(ranks, codec, least, ratio, encode, decode, measured_dtype(codec))
