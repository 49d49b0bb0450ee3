"""Reclaiming without a solver: the best of three orders of picking, each improved by swaps."""

from collections import Counter

from parts.lending.replay.reclaim_orders import BaseLayout, ReclaimCost, pick_in_order


def pick_greedily(layout: BaseLayout, count: int) -> list[int]:
    """Return `count` servers of the layout (it has as many), in the order of their ids."""
    picks = [swapped(layout, pick_in_order(layout, count, measure)) for measure in ReclaimCost]
    return min(picks, key=lambda servers: (layout.cost(servers), servers))


def swapped(layout: BaseLayout, picks: list[int]) -> list[int]:
    """Exchange a picked server for one that stays, the best exchange first, as long as that spares jobs."""
    picked = dict.fromkeys(picks)
    stays = [server for server in range(len(layout.gpus_on)) if server not in picked]
    times = Counter(job for server in picks for job in layout.gpus_on[server])  # servers picked, by job
    while True:
        best = (0, 0, 0)
        added = [sum(not times[job] for job in layout.gpus_on[server]) for server in stays]
        for out in picked:
            spared = {job for job in layout.gpus_on[out] if times[job] == 1}
            for into, jobs in zip(stays, added, strict=True):
                if len(spared) - jobs + best[0] > 0:
                    gain = len(spared) - jobs - len(spared & layout.gpus_on[into].keys())
                    best = min(best, (-gain, out, into))
        gain, out, into = best
        if not gain:
            return sorted(picked)
        del picked[out]
        picked[into] = None
        stays[stays.index(into)] = out
        times.subtract(layout.gpus_on[out].keys())
        times.update(layout.gpus_on[into].keys())
