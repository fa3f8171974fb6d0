"""Reductions of successive buckets: one order of ops on every rank, and no op left half done."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", reason="waits for torch: reducers are made of it")

from thread_exchange import Alone  # noqa: E402

from holdfast.compress import PowerSGD, Reducer, hook  # noqa: E402
from holdfast.compress.reducer import Pipeline  # noqa: E402


class Op:
    def __init__(self, log: list[str], name: str) -> None:
        self._log = log
        self._name = name
        log.append(f"begin {name}")

    def wait(self) -> None:
        self._log.append(f"wait {self._name}")


def reduction(log: list[str], name: str, fails: bool = False):
    try:
        yield Op(log, f"{name}1")
        if fails:
            raise ConnectionError(name)
        yield Op(log, f"{name}2")
    except BaseException:
        log.append(f"rollback {name}")
        raise


def test_a_buckets_second_op_runs_while_the_next_one_begins():
    log: list[str] = []
    pipeline = Pipeline()
    pipeline.push(reduction(log, "a"), lambda: log.append("landed a"), last=False)
    pipeline.push(reduction(log, "b"), lambda: log.append("landed b"), last=True)
    assert log == [
        *("begin a1", "wait a1", "begin a2", "begin b1", "wait a2", "landed a"),
        *("wait b1", "begin b2", "wait b2", "landed b"),
    ]


def test_a_failure_rolls_back_everything_under_way():
    log: list[str] = []
    pipeline = Pipeline()
    pipeline.push(reduction(log, "a"), lambda: log.append("landed a"), last=False)
    with pytest.raises(ConnectionError):
        pipeline.push(reduction(log, "b", fails=True), lambda: log.append("landed b"), last=True)
    assert "rollback b" in log
    assert "landed b" not in log
    pipeline.push(reduction(log, "c"), lambda: log.append("landed c"), last=True)
    assert log[-1] == "landed c"


class Bucket:
    """DDP's, as far as the hook looks."""

    def __init__(self, number: int, last: bool, parameter: torch.Tensor) -> None:
        self._number = number
        self._last = last
        self._parameter = parameter
        chance = torch.Generator().manual_seed(number)
        self.gradient = torch.randn(parameter.shape, generator=chance)

    def index(self) -> int:
        return self._number

    def is_last(self) -> bool:
        return self._last

    def buffer(self) -> torch.Tensor:
        return self.gradient.view(-1)

    def gradients(self) -> list[torch.Tensor]:
        return [self.gradient]

    def parameters(self) -> list[torch.Tensor]:
        return [self._parameter]


def test_a_backward_that_was_cut_off_leaves_no_trace():
    reducer: Reducer = PowerSGD(2, exchange=Alone())
    parameters = [torch.zeros(40, 30), torch.zeros(30, 40)]
    cut_off = hook(reducer, Bucket(0, False, parameters[0]))
    first = hook(reducer, Bucket(0, False, parameters[0]))
    second = hook(reducer, Bucket(1, True, parameters[1]))
    assert not cut_off.done()
    assert first.wait().shape == (1200,)
    assert second.wait().shape == (1200,)
    assert len(reducer.residuals) == 2


def test_parameters_are_named_by_the_model_or_by_the_order_in_which_they_come():
    reducer = PowerSGD(2, exchange=Alone())
    model = torch.nn.Linear(3, 4)
    reducer.name_parameters(model)
    other = torch.zeros(2)
    assert reducer.name_of(model.weight) == "weight"
    assert reducer.name_of(other) == reducer.name_of(other) == "parameter 2"
