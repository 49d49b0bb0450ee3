"""The picture of nodes that sleep."""

from collections.abc import Mapping

import numpy as np
from matplotlib.figure import Figure

from simulator.recorders.usage import binned, most_done_s
from simulator.scenario.companion import Floats

DAY_S = 86_400.0
EDGES = 500  # of the bins of a line


def nodes_over_time(states: Mapping[str, Mapping[str, Floats]], *, from_s: float = 0.0) -> Figure:
    """Draw busy, awake and all nodes over time (days), one plot a policy (Helios, figure 14).

    Means over equal bins; nodes that boot are drawn with those awake. The picture ends as `usage_over_time`.
    """
    figure = Figure(figsize=(9, 1.0 + 2.2 * len(states)), layout="constrained")
    plots = figure.subplots(len(states), 1, sharex=True, sharey=True, squeeze=False)[:, 0]
    end_s = max(most_done_s(each["at_s"], each["busy"]) for each in states.values()) or 1.0
    edges = np.linspace(from_s, max(end_s, from_s + 1.0), EDGES)
    for axes, (name, each) in zip(plots, states.items(), strict=True):
        powered = each["awake"] + each["booting"]
        for values, label in (
            (powered + each["asleep"], "all"),
            (powered, "awake or booting"),
            (each["busy"], "busy"),
        ):
            means = binned(each["at_s"], values, edges)
            axes.stairs(means, (edges - from_s) / DAY_S, baseline=None, label=label, linewidth=1)
        axes.set_title(name, fontsize="medium")
        axes.set_ylabel("nodes")
        axes.set_ylim(bottom=0)
        axes.grid(visible=True, alpha=0.3)
    plots[0].legend(fontsize="small", loc="center left", bbox_to_anchor=(1, 0.5))
    plots[-1].set_xlabel("days from the first submission")
    return figure
