"""What Holdfast counts, in a registry of ``prometheus_client``: for processes that serve or push
their own metrics already. The numbers are those of the page ``/metrics``.

In its multi-process mode, ``prometheus_client`` keeps its own values in files and asks no
collectors. Here likewise: each process has a `Publisher`, and the one that is scraped a collector
of their folder.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, delete_from_gateway, push_to_gateway
from prometheus_client.metrics_core import Metric
from prometheus_client.openmetrics.parser import text_string_to_metric_families
from prometheus_client.registry import Collector
from prometheus_client.samples import Sample

from holdfast import _process
from holdfast.errors import ConfigError, HoldfastError

if TYPE_CHECKING:
    from types import TracebackType

    from typing_extensions import Self

# The files of prometheus_client end in .db: both may share a folder.
_SUFFIX = ".holdfast"
_SHORTEST_S = 0.1


class HoldfastCollector(Collector):
    """Collects what this process's nodes count, or what the publishers of a folder wrote.

    Parameters
    ----------
    folder : path, optional
        Of publishers; their metrics get the label ``pid``. Default: this process.

    Examples
    --------
    >>> from prometheus_client import REGISTRY
    >>> REGISTRY.register(HoldfastCollector())
    """

    def __init__(self, folder: str | os.PathLike[str] | None = None) -> None:
        self._folder = None if folder is None else Path(folder)

    def describe(self) -> Iterable[Metric]:
        """Return nothing: what there is to collect is not known before a group is open.

        Returns
        -------
        iterable of Metric
            Empty.
        """
        return ()

    def collect(self) -> Iterator[Metric]:
        """Yield every family, with all its samples.

        Yields
        ------
        Metric
            As on the page ``/metrics``. A process that has used several sets of options has several
            nodes, told apart by the label ``node``.
        """
        families: dict[str, Metric] = {}
        for labels, text in self._texts():
            # Its parser alone has no types.
            for family in text_string_to_metric_families(text):  # type: ignore[no-untyped-call]
                known = families.setdefault(
                    family.name,
                    Metric(family.name, family.documentation, family.type, family.unit),
                )
                known.samples += [_labelled(sample, labels) for sample in family.samples]
        yield from families.values()

    def _texts(self) -> Iterator[tuple[dict[str, str], str]]:
        if self._folder is not None:
            yield from _published(self._folder)
            return
        texts = _process.metrics_texts()
        for number, text in enumerate(texts):
            yield ({"node": str(number)} if len(texts) > 1 else {}), text


def _labelled(sample: Sample, labels: dict[str, str]) -> Sample:
    return sample._replace(labels={**labels, **sample.labels}) if labels else sample


def _published(folder: Path) -> Iterator[tuple[dict[str, str], str]]:
    for path in sorted(folder.glob(f"*{_SUFFIX}")):
        pid, _, node = path.stem.partition("-")
        if not pid.isdecimal() or not _lives(int(pid)):
            continue
        try:
            text = path.read_text(encoding="utf-8")
        except FileNotFoundError:
            continue  # it has ended meanwhile
        yield ({"pid": pid, "node": node} if node != "0" else {"pid": pid}), text


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


class Publisher:
    """Writes what this process counts to a folder, again and again, for a collector in another.

    Parameters
    ----------
    folder : path
        For example that of ``PROMETHEUS_MULTIPROC_DIR``; made when it is not there.
    interval_s : float
        Seconds between two writes, 0.1 and more.

    Raises
    ------
    ConfigError
        For an interval that cannot be used.
    """

    def __init__(self, folder: str | os.PathLike[str], interval_s: float = 5.0) -> None:
        if not interval_s >= _SHORTEST_S:
            raise ConfigError(f"interval_s {interval_s}; accepted: {_SHORTEST_S} and more")
        self._folder = Path(folder)
        self._folder.mkdir(parents=True, exist_ok=True)
        self._stop = threading.Event()
        self._interval_s = interval_s
        self._written: set[Path] = set()
        self.write()
        # A daemon: a program that ends must not wait for it; the folder's reader sees that it has.
        self._thread = threading.Thread(target=self._run, name="holdfast-publish", daemon=True)
        self._thread.start()

    def write(self) -> None:
        """Write now. A reader sees the file before, or this one, never a part."""
        for number, text in enumerate(_process.metrics_texts()):
            path = self._folder / f"{os.getpid()}-{number}{_SUFFIX}"
            fresh = path.with_suffix(".new")
            fresh.write_text(text, encoding="utf-8")
            fresh.replace(path)
            self._written.add(path)

    def close(self) -> None:
        """Stop, and remove what was written."""
        self._stop.set()
        self._thread.join()
        for path in self._written:
            path.unlink(missing_ok=True)

    def _run(self) -> None:
        while not self._stop.wait(self._interval_s):
            try:
                self.write()
            except OSError:
                continue  # a full disk: the next time may do

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close it."""
        self.close()


def push(
    gateway: str,
    job: str,
    rank: int,
    registry: CollectorRegistry | None = None,
    timeout_s: float = 10.0,
) -> None:
    """Push this process's metrics to a Pushgateway: for jobs too short to be scraped.

    Parameters
    ----------
    gateway : str
        ``"host:port"``, or its URL.
    job : str
        Name under which the gateway keeps them, together with the rank.
    rank : int
        Of this process. What the rank has pushed before is replaced.
    registry : CollectorRegistry, optional
        What to push. Default: what Holdfast counts, and nothing else.
    timeout_s : float
        Seconds to wait for the gateway.

    Raises
    ------
    HoldfastError
        When the gateway does not answer, or refuses.
    """
    if registry is None:
        registry = CollectorRegistry()
        registry.register(HoldfastCollector())
    try:
        push_to_gateway(gateway, job, registry, {"rank": str(rank)}, timeout_s)
    except (OSError, ValueError) as error:
        raise HoldfastError(f"pushing metrics to {gateway}: {error}", (rank,)) from error


def remove_pushed(gateway: str, job: str, rank: int, timeout_s: float = 10.0) -> None:
    """Remove what a rank has pushed: the gateway keeps it for ever.

    Parameters
    ----------
    gateway : str
        ``"host:port"``, or its URL.
    job : str
        As pushed.
    rank : int
        As pushed.
    timeout_s : float
        Seconds to wait for the gateway.

    Raises
    ------
    HoldfastError
        When the gateway does not answer, or refuses.
    """
    try:
        delete_from_gateway(gateway, job, {"rank": str(rank)}, timeout_s)
    except (OSError, ValueError) as error:
        raise HoldfastError(f"removing metrics from {gateway}: {error}", (rank,)) from error
