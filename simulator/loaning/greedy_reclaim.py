"""Reclaiming without a solver: the best of two orders by server fractions, each improved by swaps."""

from collections import Counter

from simulator.loaning.base_layout import BaseLayout
from simulator.loaning.fraction_reclaim import pick_by_fractions


def pick_greedily(layout: BaseLayout, count: int) -> list[int]:
    """Return `count` servers of the layout, in the order of their ids; the same for the same layout."""
    orders = [pick_by_fractions(layout, count, capped=capped) for capped in (False, True)]
    improved = [sorted(_swapped(layout, order)) for order in orders]
    return min(improved, key=lambda picks: (*layout.cost(picks), picks))


def _swapped(layout: BaseLayout, picks: list[int]) -> list[int]:
    """Exchange a picked server for one that stays, the best exchange first, as long as that spares jobs."""
    picked = dict.fromkeys(picks)
    stays = [server for server in range(len(layout.gpus_on)) if server not in picked]
    times = Counter(job for server in picks for job in layout.gpus_on[server])  # servers picked, by job
    while True:
        spared = {server: {job for job in layout.gpus_on[server] if times[job] == 1} for server in picked}
        added = {server: {job for job in layout.gpus_on[server] if not times[job]} for server in stays}
        best: tuple[int, int, int] | None = None
        for out, jobs in spared.items():
            for into in stays:
                gain = len(jobs) - len(added[into])
                if gain > 0:
                    gain -= len(jobs & layout.gpus_on[into].keys())
                if gain > 0 and (best is None or (-gain, out, into) < best):
                    best = (-gain, out, into)
        if best is None:
            return list(picked)
        _, out, into = best
        del picked[out]
        picked[into] = None
        stays[stays.index(into)] = out
        times.subtract(layout.gpus_on[out].keys())
        times.update(layout.gpus_on[into].keys())
