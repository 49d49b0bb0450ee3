"""The pictures of a study: its course, what each setting does, and which of them matter."""

from collections.abc import Mapping, Sequence

import pandas as pd
from matplotlib.figure import Figure

from pipeline.studies.tuning.space import SearchSpace, shown, symbol_of
from pipeline.studies.tuning.study import Trial


def course(trials: Sequence[Trial], best: Trial | None) -> Figure:
    """Draw each trial's score in the order of trials, with the best so far."""
    scored = [(t.number, t.change_pct, t.round_number) for t in trials if t.change_pct is not None]
    figure = Figure(figsize=(8, 3.6), layout="constrained")
    axes = figure.subplots()
    for first, colour, label in ((True, "#7f7f7f", "one change at a time"), (False, "#1f77b4", "optimiser")):
        points = [(n, change) for n, change, round_number in scored if (round_number == 0) is first]
        places, changes = [n for n, _ in points], [change for _, change in points]
        axes.scatter(places, changes, s=16, color=colour, label=label)
    numbers = [number for number, _, _ in scored]
    lowest = pd.Series([change for _, change, _ in scored], dtype=float).cummin()
    axes.step(numbers, lowest, where="post", color="#d62728", linewidth=1.2, label="best so far")
    if best is not None and best.change_pct is not None:
        axes.annotate(
            f"trial {best.number}",
            (best.number, best.change_pct),
            textcoords="offset points",
            xytext=(4, -10),
        )
    axes.axhline(0.0, color="black", linewidth=0.6)
    axes.set_title("Trials of the search: mean score beside the current settings", fontsize="medium")
    axes.set_xlabel("trial")
    axes.set_ylabel("change against the\ncurrent settings (%)")
    axes.grid(visible=True, alpha=0.3)
    axes.legend(fontsize="x-small")
    return figure


def sensitivity(space: SearchSpace, table: pd.DataFrame) -> Figure:
    """Draw the score along each setting's values, all others at their current ones."""
    count = max(1, len(space.free))
    columns = min(4, count)
    figure = Figure(figsize=(3 * columns, 2.6 * -(-count // columns)), layout="constrained")
    panels = figure.subplots(-(-count // columns), columns, squeeze=False, sharey=True).ravel()
    for panel, parameter in zip(panels, space.free, strict=False):
        rows = table[(table["parameter"] == parameter.name) & table["change_pct"].notna()]
        places = range(len(rows))
        panel.plot(places, rows["change_pct"], marker="o", markersize=4)
        now = [i for i, current in enumerate(rows["current"]) if current]
        panel.plot(now, rows["change_pct"].iloc[now], "o", color="#d62728", markersize=6)
        panel.set_xticks(list(places), [shown(parameter.name, v).split(" ")[0] for v in rows["value"]])
        panel.tick_params(labelsize="small")
        panel.set_title(parameter.symbol, fontsize="small")
        panel.grid(visible=True, alpha=0.3)
    for panel in panels[len(space.free) :]:
        panel.set_visible(False)
    figure.suptitle("Each setting alone, the others as they are", fontsize="medium")
    figure.supylabel("change (%); red: current value", fontsize="small")
    return figure


def importance(weights: Mapping[str, float]) -> Figure:
    """Draw the share of the scores' variance that each setting explains."""
    ordered = sorted(weights.items(), key=lambda item: item[1])
    figure = Figure(figsize=(6, 0.8 + 0.3 * max(1, len(ordered))), layout="constrained")
    axes = figure.subplots()
    axes.barh([symbol_of(name) for name, _ in ordered], [100 * share for _, share in ordered])
    axes.set_title("Which settings matter", fontsize="medium")
    axes.set_xlabel("share of the trials' variance (%), fANOVA")
    axes.grid(visible=True, axis="x", alpha=0.3)
    return figure
