"""What ranks do whose compression, syncs and waits are counted; numbers are what happened."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from health_ranks import await_file, page, scrape, total
from waiting import eventually

import holdfast
from holdfast.comm.group import Group

WAIT_S = 30.0


def grown(address: str, act: Callable[[], object]) -> dict[str, float]:
    """What every counter has grown by, and where every gauge is, when that is done."""
    before = scrape(address)
    act()
    after = scrape(address)
    return {k: v - before.get(k, 0) if "_total" in k else v for k, v in after.items()}


def add_up(group: Group, *values: float) -> list[float]:
    """Sums over the ranks."""
    array = np.array(values, np.float64)
    group.all_reduce(array)
    return [float(value) for value in array]


def sync_a_state() -> None:
    """Rank 2 has another state: what it fetches is what the others send, and that is the state."""
    with holdfast.init() as group:
        value = float(group.rank == 2)
        state = {"weights": np.full(3_000_000, value, np.float32), "step": np.full(1, value)}
        size = sum(array.nbytes for array in state.values())
        moved = grown(group.http_address, lambda: group.sync(state))
        sent = moved['holdfast_sync_bytes_total{direction="sent"}']
        received = moved['holdfast_sync_bytes_total{direction="received"}']
        assert received == (size if group.rank == 2 else 0)
        assert add_up(group, sent, received) == [size, size]
        assert (sent == 0) == (group.rank == 2)
        assert moved["holdfast_syncs_total"] == 1
        assert 0 < moved["holdfast_sync_seconds_total"] < WAIT_S
        # Now all are the same: hashes are compared, and nothing moves.
        again = grown(group.http_address, lambda: group.sync(state))
        assert again["holdfast_syncs_total"] == 1
        assert total(again, "holdfast_sync_bytes_total") == 0
        group.barrier()


def send_coded() -> None:
    """Frames of int8 are a bit more than a quarter of float32; the residual has a norm."""
    with holdfast.init() as group:
        count, ops = 400_000, 3
        chance = np.random.default_rng(group.rank)
        values = chance.standard_normal(count).astype(np.float32)
        residual = np.zeros(count, np.float32)
        plain = grown(group.http_address, lambda: group.all_reduce(values.copy()))
        assert total(plain, "holdfast_codec_raw_bytes_total") == 0

        def reduce(codec: str, residual: np.ndarray | None = None) -> None:
            group.all_reduce(values.copy(), op="avg", codec=codec, residual=residual)

        first = grown(group.http_address, lambda: reduce("int8", residual))
        norm = first['holdfast_codec_residual_norm{codec="int8"}']
        assert np.isclose(norm, np.linalg.norm(residual.astype(np.float64)), rtol=1e-6)
        assert 0 < norm < 0.02 * np.linalg.norm(values)
        # Of the whole array half goes to the other rank, and half of the result comes from here.
        more = grown(group.http_address, lambda: [reduce("int8") for _ in range(ops)])
        raw = more['holdfast_codec_raw_bytes_total{codec="int8"}']
        wire = more['holdfast_codec_wire_bytes_total{codec="int8"}']
        assert raw == ops * values.nbytes
        assert 3.8 < raw / wire < 4
        halves = grown(group.http_address, lambda: reduce("bf16"))
        assert halves['holdfast_codec_raw_bytes_total{codec="bf16"}'] == values.nbytes
        assert halves['holdfast_codec_wire_bytes_total{codec="bf16"}'] == values.nbytes / 2
        assert halves['holdfast_codec_raw_bytes_total{codec="int8"}'] == 0
        group.barrier()


def look_at_residuals_now_and_then() -> None:
    """A residual is looked at by the first op, and not again within the second after it."""
    with holdfast.init() as group:
        values = np.linspace(-1, 1, 10_000, dtype=np.float32)
        key = 'holdfast_codec_residual_norm{codec="onebit"}'
        residual = np.zeros_like(values)
        seen: list[float] = []
        began = time.monotonic()
        # Every rank goes on until the last of them has seen a second one.
        all_seen = np.zeros(1, np.int64)
        while all_seen[0] < 2:
            group.all_reduce(values.copy(), codec="onebit", residual=residual)
            norm = scrape(group.http_address)[key]
            if norm not in seen:
                seen.append(norm)
                assert len(seen) <= 1 + (time.monotonic() - began)
            all_seen[0] = len(seen)
            group.all_reduce(all_seen, op="min")
            assert time.monotonic() < began + WAIT_S
        assert time.monotonic() - began > 1
        group.barrier()


def hide_communication() -> None:
    """Who computes while ops are under way hides them; who waits at once, or blocks, does not."""
    with holdfast.init() as group:
        array = np.ones(4_000_000, np.float32)
        group.all_reduce(array)

        def run(act: Callable[[], object]) -> tuple[float, float]:
            """Seconds in which ops were under way, and those of them that were exposed."""
            group.barrier()
            began = time.monotonic()
            found = grown(group.http_address, act)
            active = found["holdfast_op_active_seconds_total"]
            assert 0 < active < time.monotonic() - began
            return active, found["holdfast_op_exposed_seconds_total"]

        def compute() -> None:
            work = group.all_reduce(array, async_op=True)
            assert work is not None
            deadline = time.monotonic() + WAIT_S
            while not work.done():
                assert time.monotonic() < deadline
                time.sleep(0.002)
            work.wait()

        active, exposed = run(compute)
        assert exposed < 0.1 * active, (active, exposed)

        def wait_at_once() -> float:
            """The share that was hidden, but for the time of the call: a machine may be busy."""
            calling: list[float] = []

            def begin_and_wait() -> None:
                called = time.monotonic()
                work = group.all_reduce(array, async_op=True)
                calling.append(time.monotonic() - called)
                assert work is not None
                work.wait()

            active, exposed = run(begin_and_wait)
            return (active - exposed - calling[0]) / active

        # Of three times the best, as the caller may be taken away between two lines all the same.
        hidden = min(wait_at_once() for _ in range(3))
        assert hidden < 0.3, hidden
        for blocks, times in (np.ones(100, np.float32), 200), (array, 3):
            active, exposed = run(lambda b=blocks, n=times: [group.all_reduce(b) for _ in range(n)])
            assert 0.9 < exposed / active < 1.01, (active, exposed)
        wait_in_vain(group, array, run)
        group.barrier()


def wait_in_vain(
    group: Group, array: np.ndarray, run: Callable[[Callable[[], object]], tuple[float, float]]
) -> None:
    """The peer is late: waits that are given up count, too."""
    waits, wait_s = 10, 0.02
    given_up = 0

    def give_up() -> None:
        nonlocal given_up
        if group.rank == 1:
            await_file(Path("waited"))
        work = group.all_reduce(array, async_op=True)
        assert work is not None
        while not work.done():
            try:
                work.wait(wait_s)
            except holdfast.Timeout:
                given_up += 1
                if given_up == waits:
                    Path("waited").touch()

    active, exposed = run(give_up)
    if group.rank == 0:
        assert given_up >= waits
        # They lasted so long at least, but for one that is given up as the op ends.
        waited = (given_up - 1) * wait_s
        assert waited < exposed < 1.001 * active, (waited, active, exposed)


def show_maps() -> None:
    """What operators see of the map: metrics, the status page, and its events."""
    with holdfast.init() as group:
        where = group.http_address
        assert where
        assert not [name for name in scrape(where) if name.startswith("holdfast_map")]
        taken_at = 0.0
        for version in (1, 2):
            started = time.time()
            chart = {"format": 1, "ranks": group.size, "gbit_per_s": version, "alpha_us": 50}
            group.set_topology(json.dumps(chart))
            # The map is this rank's when it has taken part in an op that goes by it.
            group.barrier()
            digest = group.topology()["digest"]
            told = {k: v for k, v in scrape(where).items() if k.startswith("holdfast_map")}
            after = told.pop('holdfast_map_taken_timestamp_seconds{group="default"}')
            assert max(taken_at, started - 1) <= after <= time.time() + 1
            taken_at = after
            assert told == {
                f'holdfast_map_info{{group="default",digest="{digest}"}}': 1,
                'holdfast_map_version{group="default"}': version,
                'holdfast_map_ranks{group="default"}': group.size,
            }
            shown = await_map(where, version)
            assert (shown["digest"], shown["ranks"]) == (digest, group.size)
        kinds = [e["why"] for e in status(where)["events"] if e["kind"] == "map"]
        assert [why.split(",")[0] for why in kinds] == ["version 1", "version 2"]
        group.barrier()


def status(where: str) -> dict[str, Any]:
    answer: dict[str, Any] = json.loads(page(where, "/status")[1])
    return answer


def await_map(where: str, version: int) -> dict[str, Any]:
    """The status is of the last heartbeat."""

    def shown() -> dict[str, Any]:
        worlds = status(where)["worlds"]
        found: dict[str, Any] = worlds[0].get("map", {}) if worlds else {}
        return found

    eventually(lambda: shown().get("version") == version)
    return shown()
