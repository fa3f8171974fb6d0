"""What a round takes, predicted: its computation, and what of its exchanges is not hidden.

A pure function of numbers, for who chooses a codec and for who plans a training. What an exchange
takes is the cost model's: latency, bytes by rate, and coding (``topology/codec_cost.py``).
"""

from __future__ import annotations

from dataclasses import dataclass

from holdfast.topology.codec_cost import CodecCost, coded_seconds
from holdfast.topology.link_fit import LinkModel

# Progress travels as float32, whatever the model's dtype is, or as what a codec makes of that.
ELEMENT_BYTES = 4


@dataclass(frozen=True, slots=True)
class Shape:
    """The shape of a round.

    Parameters
    ----------
    counts : tuple of int
        Elements, by fragment.
    inner_steps : int
        Local steps.
    delay : int
        Of them, those that an exchange has beside it; 0: the members wait.
    """

    counts: tuple[int, ...]
    inner_steps: int
    delay: int


@dataclass(frozen=True, slots=True)
class Rates:
    """How fast members and links are.

    Parameters
    ----------
    members : int
        That exchange, 1 at least.
    step_s : float
        Computation of a local step, of the slowest member.
    link : LinkModel
        Constants of the links between them.
    """

    members: int
    step_s: float
    link: LinkModel


def exchange_s(count: int, rates: Rates, cost: CodecCost) -> float:
    """Return the seconds of an exchange.

    Parameters
    ----------
    count : int
        Elements of the fragment.
    rates : Rates
        Of links and members.
    cost : CodecCost
        Of what it travels as.
    """
    return coded_seconds(rates.link, rates.members, ELEMENT_BYTES * count, cost)


def exposed_s(shape: Shape, rates: Rates, cost: CodecCost) -> float:
    """Return for how many seconds of a round members only wait for exchanges.

    Parameters
    ----------
    shape : Shape
        Of the round.
    rates : Rates
        Of links and members.
    cost : CodecCost
        Of what exchanges travel as.
    """
    beside = shape.delay * rates.step_s
    return sum(max(0.0, exchange_s(count, rates, cost) - beside) for count in shape.counts)


def round_s(shape: Shape, rates: Rates, cost: CodecCost) -> float:
    """Return the seconds of a round.

    Parameters
    ----------
    shape, rates, cost
        As for `exposed_s`.
    """
    return shape.inner_steps * rates.step_s + exposed_s(shape, rates, cost)
