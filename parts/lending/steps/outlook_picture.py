"""The picture of the next hours: usage as it was and is expected to be, and servers that could be lent."""

from datetime import UTC, datetime

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from parts.lending.steps.load_outlook import LoadOutlook

PAST_BINS = 288  # a day of what was
SHADES = ("#d62728", "#ff7f0e", "#8c564b")

Floats = NDArray[np.float64]


def draw_outlook(outlook: LoadOutlook, times_s: Floats, usage: Floats, cluster: str) -> Figure:
    """Draw the last day of usage (0 to 1, NaN: a gap) and the outlook; times are UTC."""
    past, then = _instants(times_s[-PAST_BINS:]), _instants(outlook.times_s)
    figure = Figure(figsize=(8, 5), layout="constrained")
    above, below = figure.subplots(2, 1, sharex=True, height_ratios=(2, 1))
    above.plot(past, 100 * usage[-PAST_BINS:], color="#1f77b4", linewidth=1.2, label="usage")
    above.plot(then, 100 * outlook.mean, color="#d62728", linewidth=1.2, label="forecast")
    levels = sorted(outlook.bounds)
    for level, colour in zip(levels, SHADES, strict=False):
        label = f"below it: {100 * level:g} %"
        above.plot(then, 100 * outlook.bounds[level], color=colour, linestyle=":", linewidth=1.2, label=label)
    above.set_ylim(0, 105)
    above.set_ylabel("inference servers\nin use (%)")
    above.set_title(f"{cluster}: {outlook.servers} inference servers", fontsize="medium")
    above.grid(visible=True, alpha=0.3)
    above.legend(fontsize="x-small", loc="lower left")
    below.step(then, outlook.lendable, where="post", color="#2ca02c")
    below.set_ylim(0, max(1, int(outlook.lendable.max())) * 1.1)
    below.set_ylabel("servers that\ncould be lent")
    below.set_xlabel("time (UTC)")
    below.grid(visible=True, alpha=0.3)
    figure.autofmt_xdate()
    return figure


def _instants(times_s: Floats) -> list[datetime]:
    return [datetime.fromtimestamp(at_s, UTC) for at_s in times_s.tolist()]
