"""Plans of weighted trees against the bound and against rings, on random maps.

    python tests/bench/forest_maps.py --maps 200

Seven kinds of maps of 8 to 64 ranks: pairs and cards that differ, sites with uplinks, unequal
hosts, cards of four rates, one slow line, two planes, ways that are missing. For each the time of a
large all_reduce as a multiple of the bound that the search proves, which no forest goes below: of
our plan, and of rings in the order of ranks, with hosts together, by the tour of least total cost
(each link's cost is the time of a byte), and by the best order that 2-opt finds for the slowest
capacity. Prints medians and worst values, and the milliseconds that planning took.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import time

import numpy as np

from holdfast.topology import forest

KINDS = ("pairs", "sites", "hosts", "cards", "slow line", "planes", "holes")
SIZE = 256 << 20


class Chart:
    """A random map, and what rings cost on it."""

    def __init__(self, kind: str, ranks: int, dice: random.Random) -> None:
        self.ranks, self.dice = ranks, dice
        self.rates = np.full((ranks, ranks), 10.0)
        self.shared: list[dict] = []
        self.host_of = list(range(ranks))
        getattr(self, f"_{kind.replace(' ', '_')}")()
        np.fill_diagonal(self.rates, 0)
        self._inside = [self._mask(s) for s in self.shared]

    def text(self) -> str:
        return json.dumps(
            {
                "format": 1,
                "ranks": self.ranks,
                "gbit_per_s": self.rates.round(6).tolist(),
                "alpha_us": 0,
                "shared": self.shared,
            }
        )

    # ---- kinds ----

    def _card(self, rank: int, out: float, into: float) -> None:
        others = [r for r in range(self.ranks) if r != rank]
        self._share(f"out {rank}", out, [rank], others)
        self._share(f"into {rank}", into, others, [rank])

    def _share(self, name: str, rate: float, sources: list[int], targets: list[int]) -> None:
        if sources and targets:
            self.shared.append(
                {"name": name, "gbit_per_s": round(rate, 6), "from": sources, "to": targets}
            )

    def _uplinks(self, part_of: list[int], least: float, most: float) -> None:
        for part in sorted(set(part_of)):
            inside = [r for r in range(self.ranks) if part_of[r] == part]
            outside = [r for r in range(self.ranks) if part_of[r] != part]
            rate = self.dice.uniform(least, most)
            self._share(f"out of {part}", rate, inside, outside)
            self._share(f"into {part}", rate, outside, inside)

    def _pairs(self) -> None:
        for u in range(self.ranks):
            self.rates[u] = [self.dice.uniform(0.05, 1) for _ in range(self.ranks)]
            self._card(u, self.dice.uniform(0.2, 2), self.dice.uniform(0.2, 2))

    def _sites(self) -> None:
        sites = self.dice.randint(2, 4)
        self.host_of = [self.dice.randrange(sites) for _ in range(self.ranks)]
        for rank in range(self.ranks):
            self._card(rank, 1, 1)
        self._uplinks(self.host_of, 0.1, 1)

    def _hosts(self) -> None:
        hosts = self.dice.randint(2, self.ranks // 2)
        self.host_of = [
            min(self.dice.randrange(hosts), self.dice.randrange(hosts)) for _ in range(self.ranks)
        ]
        self._uplinks(self.host_of, 1, 1)
        same = np.equal.outer(self.host_of, self.host_of)
        self.rates[same] = 50

    def _cards(self) -> None:
        for rank in range(self.ranks):
            rates = (0.1, 0.25, 1, 2.5)
            self._card(rank, self.dice.choice(rates), self.dice.choice(rates))

    def _slow_line(self) -> None:
        for rank in range(self.ranks):
            rate = 0.025 if rank == self.ranks // 2 else 0.1
            self._card(rank, rate, rate)

    def _planes(self) -> None:
        for rank in range(self.ranks):
            self._card(rank, 1, 1)
        self.host_of = [rank % 2 for rank in range(self.ranks)]
        self._uplinks(self.host_of, 0.3, 3)
        self._uplinks([2 * rank // self.ranks for rank in range(self.ranks)], 0.3, 3)

    def _holes(self) -> None:
        for u in range(self.ranks):
            for v in range(self.ranks):
                there = v == (u + 1) % self.ranks or self.dice.random() < 0.4
                self.rates[u, v] = self.dice.uniform(0.05, 1) if there else 0
            self._card(u, 1, 1)

    # ---- rings ----

    def _mask(self, shared: dict) -> np.ndarray:
        mask = np.zeros((self.ranks, self.ranks), bool)
        mask[np.ix_(shared["from"], shared["to"])] = True
        return mask

    def ring_s(self, order: list[int]) -> float:
        """Seconds of an all_reduce by a ring: each hop carries 2 (n - 1) / n of the payload."""
        at, to = np.array(order), np.roll(order, -1)
        rates = self.rates[at, to]
        if not rates.all():
            return float("inf")
        worst = 1 / rates.min()
        for shared, mask in zip(self.shared, self._inside, strict=True):
            worst = max(worst, mask[at, to].sum() / shared["gbit_per_s"])
        return SIZE * 8 / 1e9 * 2 * (self.ranks - 1) / self.ranks * worst

    def tour(self) -> list[int]:
        """A tour of little total cost: from each rank to the cheapest that is left, then 2-opt."""
        with np.errstate(divide="ignore"):
            cost = 1 / self.rates
        for shared, mask in zip(self.shared, self._inside, strict=True):
            cost[mask] = np.maximum(cost[mask], 1 / shared["gbit_per_s"])
        order, left = [0], set(range(1, self.ranks))
        while left:
            order.append(min(left, key=lambda r: (cost[order[-1], r], r)))
            left.remove(order[-1])
        return self.improved(order, lambda o: float(cost[np.array(o), np.roll(o, -1)].sum()))

    def improved(self, order: list[int], cost, seconds: float = 0.5) -> list[int]:
        """Turn random pieces round and move random ranks, as long as that does no harm."""
        best, until = cost(order), time.monotonic() + seconds
        while time.monotonic() < until:
            i, j = sorted(self.dice.sample(range(self.ranks + 1), 2))
            if self.dice.random() < 0.5:
                other = order[:i] + order[i:j][::-1] + order[j:]
            else:
                other = order[:i] + order[i + 1 :]
                other.insert(j - 1, order[i])
            found = cost(other)
            if found <= best:
                order, best = other, found
        return order


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--maps", type=int, default=200)
    parser.add_argument("--ranks", default="8-64", help="least and most")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rings", action="store_true", help="rings, too: a second a map")
    arguments = parser.parse_args()
    least, most = map(int, arguments.ranks.split("-"))
    dice = random.Random(arguments.seed)
    ratios: dict[str, list[float]] = {}
    took = []
    for number in range(arguments.maps):
        chart = Chart(KINDS[number % len(KINDS)], dice.randint(least, most), dice)
        text = chart.text()
        start = time.perf_counter()
        made = forest.plan(text, size=SIZE)
        took.append(time.perf_counter() - start)
        times = {"this plan": made.predicted_s}
        if arguments.rings:
            together = sorted(range(chart.ranks), key=lambda r: (chart.host_of[r], r))
            times["ring, by rank"] = chart.ring_s(list(range(chart.ranks)))
            times["ring, hosts together"] = chart.ring_s(together)
            times["ring, tour of least cost"] = chart.ring_s(chart.tour())
            times["ring, best found"] = chart.ring_s(chart.improved(together, chart.ring_s))
        for name, seconds in times.items():
            ratios.setdefault(name, []).append(seconds / made.bound_s)
    print(f"{arguments.maps} maps of {arguments.ranks} ranks; time as a multiple of the bound")
    for name, found in ratios.items():
        over = sum(ratio > 1.05 for ratio in found) / len(found)
        print(
            f"{name:<26} median {statistics.median(found):6.3f}  worst {max(found):6.3f}  "
            f"above 1.05: {100 * over:.0f} %"
        )
    took.sort()
    print(f"planning: median {1e3 * took[len(took) // 2]:.0f} ms, worst {1e3 * took[-1]:.0f} ms")


if __name__ == "__main__":
    main()
