"""The choice of a codec as a fixed tensor: newcomers take it over, and a checkpoint has it."""

from __future__ import annotations

import torch

from holdfast.ft.outer.codec_choice import Report, State
from holdfast.ft.outer.round_time import Rates
from holdfast.topology.link_fit import LinkModel

# The number of the next exchange; of `State`: index, since, anchor, is_proven, before.
_HEAD = 6
# Of a report, before its speeds: members, seconds of a step, alpha, beta.
_REPORT = 4


class Record:
    """A state, and the reports that are not yet in it.

    Parameters
    ----------
    codecs : int
        How many are listed.
    in_flight : int
        Exchanges that are under way at a time, at most.
    """

    def __init__(self, codecs: int, in_flight: int) -> None:
        self._codecs = codecs
        self._in_flight = in_flight
        self._width = _REPORT + 2 * codecs
        rows = 2 * self._width + in_flight * (1 + self._width)
        self.tensor = torch.zeros(_HEAD + rows, dtype=torch.float64)
        """What is shared; written in place."""
        self.write(State(codecs - 1))
        for number in range(in_flight):
            self.keep(number - in_flight, None)

    @property
    def number(self) -> int:
        """Of the exchange that is about to begin; all members count alike."""
        return int(self.tensor[0])

    @number.setter
    def number(self, value: int) -> None:
        self.tensor[0] = value

    def read(self) -> State:
        """Return the state."""
        index, since, anchor, is_proven, before = self.tensor[1:_HEAD].tolist()
        latest, reason = (self._report(_HEAD + part * self._width) for part in range(2))
        return State(int(index), int(since), anchor, bool(is_proven), latest, int(before), reason)

    def write(self, state: State) -> None:
        """Write a state down."""
        head = [state.index, state.since, state.anchor, state.is_proven, state.before]
        self.tensor[1:_HEAD] = torch.tensor(head, dtype=torch.float64)
        for part, report in enumerate((state.latest, state.reason)):
            self._put(_HEAD + part * self._width, report)

    def keep(self, number: int, report: Report | None) -> None:
        """Write down what came with an exchange.

        Parameters
        ----------
        number : int
            Its number.
        report : Report, optional
            What members have agreed on.
        """
        at = self._slot(number)
        self.tensor[at] = number
        self._put(at + 1, report)

    def kept(self, number: int) -> Report | None:
        """Return what `keep` has written of an exchange; None: nothing, or no report."""
        at = self._slot(number)
        return self._report(at + 1) if self.tensor[at] == number else None

    def _slot(self, number: int) -> int:
        return _HEAD + 2 * self._width + number % self._in_flight * (1 + self._width)

    def _put(self, at: int, report: Report | None) -> None:
        values = [0.0] * self._width
        if report is not None:
            rates = report.rates
            values[:_REPORT] = [rates.members, rates.step_s, rates.link.alpha, rates.link.beta]
            values[_REPORT:] = report.speeds
        self.tensor[at : at + self._width] = torch.tensor(values, dtype=torch.float64)

    def _report(self, at: int) -> Report | None:
        members, step_s, alpha, beta, *speeds = self.tensor[at : at + self._width].tolist()
        if not members:
            return None
        return Report(Rates(int(members), step_s, LinkModel(alpha, beta, 0.0)), tuple(speeds))
