"""Draws explanations (plain data, see explanation) as PNG files: Figures 6 and 7 of the Lucid paper."""

import math
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from matplotlib.ticker import FixedLocator, FuncFormatter

from foundation.errors import BadInputError
from foundation.human_times import human_duration, time_unit
from foundation.png_figures import new_figure, save_figure
from lucid_models.explanation.axes import FeatureAxis, feature_axis, feature_words
from lucid_models.explanation.tree_plots import draw_tree

_MOST_IMPORTANCES, _MOST_TERMS = 15, 12
_BLUE, _RED, _GREY, _PALE = "#2c6fbb", "#c0392b", "#888888", "#c9dcf0"
LOG_SECONDS = "log seconds"
# Shapes worth a picture in every model that has them, besides its most important ones.
_ALWAYS_DRAWN = ("hour", "log_gpus")
_MOST_IMPORTANT = 2
_FACTORS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98, 0.99, 1.0, 1.01,
            1.02, 1.05, 1.1, 1.2, 1.3, 1.5, 2.0, 3.0, 5.0, 10.0, 20.0, 50.0, 100.0)  # fmt: skip


def draw_explanations(
    explained: Mapping[str, Any], folder: Path, *, local: Mapping[str, Any] | None = None
) -> list[Path]:
    """Every picture that a model's global (and one local) explanation allows, as PNG files in `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    drawn = [draw_importances(explained, folder / "global_importances.png")]
    if "tree" in explained:
        drawn.append(draw_tree(explained, folder / "tree.png"))
    shapes = explained.get("shapes", {})
    important = sorted(shapes, key=lambda name: (-explained["importances"][name], name))[:_MOST_IMPORTANT]
    drawn += [
        draw_shape(explained, name, folder / f"shape_{name.replace(':', '_')}.png")
        for name in dict.fromkeys([*(name for name in _ALWAYS_DRAWN if name in shapes), *important])
    ]
    return drawn if local is None else drawn + draw_prediction(explained, local, folder)


def draw_prediction(explained: Mapping[str, Any], local: Mapping[str, Any], folder: Path) -> list[Path]:
    """The pictures of one prediction of a model with the global explanation `explained`."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "local_explanation.png"
    if "tree" in explained and "decisions" in local:
        return [draw_tree(explained, path, local=local)]
    drawn = [draw_local(local, path)]
    if local.get("account", {}).get("history"):
        drawn.append(draw_account(local, folder / "local_account.png"))
    return drawn


def draw_importances(explained: Mapping[str, Any], path: Path) -> Path:
    """Bars of the largest global importances (Figure 6 right, Figure 7 a)."""
    ranked = sorted(explained["importances"].items(), key=lambda item: (-item[1], item[0]))[
        :_MOST_IMPORTANCES
    ]
    ranked.reverse()
    figure = new_figure(8.0, 1.2 + 0.3 * len(ranked))
    axes = figure.add_subplot()
    bars = axes.barh([feature_words(name) for name, _ in ranked], [value for _, value in ranked], color=_BLUE)
    axes.bar_label(bars, [f"{value:.2g}" for _, value in ranked], padding=3, fontsize=8, color=_GREY)
    axes.margins(x=0.08)
    tree = "tree" in explained
    axes.set_xlabel("Gini importance" if tree else f"mean absolute score ({explained['unit']})")
    axes.set_title(f"{explained['model']}: importance of the features")
    _bare(axes)
    return save_figure(figure, path)


def draw_shape(explained: Mapping[str, Any], feature: str, path: Path) -> Path:
    """The learned shape function of one feature (Figure 7 b), how far the bags lie apart (band: two standard
    deviations on either side), and how many training rows stand behind it.
    """
    shapes = explained["shapes"]
    if feature not in shapes:
        raise BadInputError(
            f"The model has no shape function of {feature!r}.", remedy=f"Choose one of: {', '.join(shapes)}."
        )
    shape, axis = shapes[feature], feature_axis(feature)
    scores, edges = shape["scores"], _edges(shape["cuts"], axis)
    figure = new_figure(7.5, 4.4)
    above, below = figure.subplots(2, 1, sharex=True, height_ratios=[3, 1])
    if "spread" in shape:
        low = [score - 2 * spread for score, spread in zip(scores, shape["spread"], strict=True)]
        high = [score + 2 * spread for score, spread in zip(scores, shape["spread"], strict=True)]
        above.fill_between(edges, [*low, low[-1]], [*high, high[-1]], step="post", color=_PALE, linewidth=0)
    above.stairs(scores, edges, color=_BLUE, linewidth=2, baseline=None)
    above.axhline(0.0, color=_GREY, linewidth=0.8)
    _score_axis(above.yaxis, explained)
    above.set_ylabel(_score_label(explained))
    above.set_title(f"{explained['model']}: shape function of {axis.label}")
    if shape["missing_rows"]:
        text = (
            f"unknown: {_score_text(shape['missing_score'], explained)} ({shape['missing_rows']:,.0f} rows)"
        )
        above.annotate(text, (0.99, 0.97), xycoords="axes fraction", ha="right", va="top", fontsize=8)
    below.stairs(shape["rows"], edges, fill=True, color=_GREY)
    below.set_ylabel("training rows")
    below.set_xlabel(axis.label)
    below.set_xlim(edges[0], edges[-1])
    ticks = [axis.number(value) for value in axis.ticks]
    if ticks:
        below.set_xticks(
            _spaced([tick for tick in ticks if edges[0] <= tick <= edges[-1]], edges[-1] - edges[0])
        )
    below.xaxis.set_major_formatter(FuncFormatter(lambda number, _: axis.text(axis.value(number))))
    _bare(above)
    _bare(below)
    return save_figure(figure, path)


def draw_local(explained: Mapping[str, Any], path: Path) -> Path:
    """What each feature adds to one prediction (Figure 7 c), with the reason in words."""
    terms = explained["terms"]
    shown = [(_label(term), term["contribution"]) for term in terms[:_MOST_TERMS]]
    if len(terms) > _MOST_TERMS:
        rest = sum(term["contribution"] for term in terms[_MOST_TERMS:])
        shown.append((f"{len(terms) - _MOST_TERMS} other features", rest))
    shown.reverse()
    title = textwrap.wrap(explained.get("reason") or f"One prediction: {explained['prediction']:.4g}", 95)
    figure = new_figure(9.0, 1.3 + 0.32 * len(shown) + 0.18 * len(title))
    axes = figure.add_subplot()
    values = [value for _, value in shown]
    colours = [_RED if value > 0 else _BLUE for value in values]
    bars = axes.barh([name for name, _ in shown], values, color=colours)
    axes.bar_label(
        bars, [_score_text(value, explained) for value in values], padding=3, fontsize=8, color=_GREY
    )
    axes.margins(x=0.12)
    axes.axvline(0.0, color=_GREY, linewidth=0.8)
    _score_axis(axes.xaxis, explained)
    start = explained["intercept"]
    base = human_duration(math.exp(start)) if explained.get("score_unit") == LOG_SECONDS else f"{start:+.4g}"
    axes.set_xlabel(f"{_score_label(explained)}; all start from {base}")
    figure.suptitle("\n".join(title), fontsize=9, x=0.01, ha="left")
    _bare(axes)
    return save_figure(figure, path)


def draw_account(explained: Mapping[str, Any], path: Path) -> Path:
    """An estimate as an account: from what jobs like it usually run, part by part, to the estimate."""
    account = explained["account"]
    unit_s, unit = time_unit(max(account["estimate_s"], account["history"]["usual_s"]))
    parts = sorted(account["parts"], key=lambda part: -abs(part["seconds"]))
    rows = [(f"{account['history']['subject']} usually", 0.0, account["history"]["usual_s"], _GREY)]
    at = account["history"]["usual_s"]
    for part in parts:
        colour = _RED if part["seconds"] > 0 else _BLUE
        rows.append((part["subject"], at, part["seconds"], colour))
        at += part["seconds"]
    rows.append(("estimate", 0.0, account["estimate_s"], _GREY))
    rows.reverse()
    title = textwrap.wrap(explained["reason"], 95)
    figure = new_figure(9.0, 1.3 + 0.32 * len(rows) + 0.18 * len(title))
    axes = figure.add_subplot()
    bars = axes.barh(
        [name for name, *_ in rows],
        [width / unit_s for _, _, width, _ in rows],
        left=[left / unit_s for _, left, _, _ in rows],
        color=[colour for *_, colour in rows],
    )
    labels = [f"{width / unit_s:{'+' if colour != _GREY else ''}.3g}" for _, _, width, colour in rows]
    axes.bar_label(bars, labels, padding=3, fontsize=8, color=_GREY)
    axes.margins(x=0.1)
    axes.set_xlabel(f"run time ({unit})")
    figure.suptitle("\n".join(title), fontsize=9, x=0.01, ha="left")
    _bare(axes)
    return save_figure(figure, path)


# -- scores and values in words


def _score_label(explained: Mapping[str, Any]) -> str:
    unit = explained.get("score_unit", explained.get("unit", "score"))
    if unit == LOG_SECONDS:
        return "multiplies run time by"
    return f"adds ({unit})" if explained["link"] == "identity" else "score (log)"


def _score_text(score: float, explained: Mapping[str, Any]) -> str:
    if explained.get("score_unit", explained.get("unit")) == LOG_SECONDS:
        return f"x {math.exp(score):.2f}"
    return f"{score:+.3g}"


def _score_axis(axis: Any, explained: Mapping[str, Any]) -> None:
    """Scores of log run time read as factors."""
    if explained.get("score_unit", explained.get("unit")) == LOG_SECONDS:
        low, high = sorted(axis.get_view_interval())
        scores = sorted((math.log(factor) for factor in _FACTORS), key=abs)  # those near 1 first
        inside = [score for score in scores if low <= score <= high]
        axis.set_major_locator(FixedLocator(_spaced(inside, high - low)))
        axis.set_major_formatter(FuncFormatter(lambda score, _: f"{math.exp(score):.4g}"))


def _label(term: Mapping[str, Any]) -> str:
    names = term["term"].split(" x ")
    axes = [feature_axis(name) for name in names]
    values = [
        "unknown" if value is None else axis.text(axis.value(value))
        for axis, value in zip(axes, term["values"], strict=True)
    ]
    return f"{feature_words(term['term'])} = {', '.join(values)}"


def _edges(cuts: Sequence[float], axis: FeatureAxis) -> list[float]:
    """The cuts with ends for the two open bins: the feature's, else as wide as the bins beside them."""
    low, high = (None if limit is None else axis.number(limit) for limit in axis.limits)
    if not cuts:
        first = 0.0 if low is None else low
        return [first, first + 1.0 if high is None else high]
    widths = (cuts[1] - cuts[0], cuts[-1] - cuts[-2]) if len(cuts) > 1 else (1.0, 1.0)
    start, end = cuts[0] - widths[0], cuts[-1] + widths[1]
    if low is not None:
        start = low if high is not None else max(start, low)
    if high is not None:
        end = high
    return [min(start, cuts[0]), *cuts, max(end, cuts[-1])]


def _spaced(ticks: Iterable[float], width: float) -> list[float]:
    """Ticks that do not run into each other: at least a fifteenth of the axis apart, the first ones first."""
    spaced: list[float] = []
    for tick in ticks:
        if all(abs(tick - other) >= width / 15 for other in spaced):
            spaced.append(tick)
    return sorted(spaced)


def _bare(axes: Any) -> None:
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
