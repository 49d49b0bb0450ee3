"""Draws explanations (plain data, see explanation and packing) as PNG files."""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from cluster_logs.errors import BadInputError

_BLUE, _RED, _GREY = "#2c6fbb", "#c0392b", "#888888"
_SCORE_COLOURS = {"TINY": "#d7ecd9", "MEDIUM": "#fdebc8", "JUMBO": "#f6cfca"}
_DPI = 120


def draw_importances(explained: Mapping[str, Any], path: Path, *, most: int = 15) -> Path:
    """Bars of the largest global importances (Figure 6 right, Figure 7 a)."""
    ranked = sorted(explained["importances"].items(), key=lambda item: (-item[1], item[0]))[:most]
    figure = _figure(7.0, 1.2 + 0.3 * len(ranked))
    axes = figure.add_subplot()
    axes.barh([name for name, _ in reversed(ranked)], [value for _, value in reversed(ranked)], color=_BLUE)
    gini = explained["model"] == "packing"
    axes.set_xlabel("Gini importance" if gini else "mean absolute score")
    axes.set_title(f"{explained['model']}: importance of the features")
    return _save(figure, path)


def draw_shape(explained: Mapping[str, Any], feature: str, path: Path) -> Path:
    """The learned shape function of one feature (Figure 7 b) and how many training rows stand behind it."""
    shapes = explained["shapes"]
    if feature not in shapes:
        raise BadInputError(
            f"The model has no shape function of {feature!r}.", remedy=f"Choose one of: {', '.join(shapes)}."
        )
    shape = shapes[feature]
    cuts, scores, rows = shape["cuts"], shape["scores"], shape["rows"]
    figure = _figure(7.0, 4.2)
    above, below = figure.subplots(2, 1, sharex=True, height_ratios=[3, 1])
    edges = _edges(cuts)
    above.stairs(scores, edges, color=_BLUE, linewidth=2, baseline=None)
    above.axhline(0.0, color=_GREY, linewidth=0.8)
    above.set_ylabel("score" if explained["link"] == "identity" else "score (log)")
    above.set_title(f"{explained['model']}: shape function of {feature}")
    if shape["missing_rows"]:
        above.annotate(
            f"unknown: {shape['missing_score']:+.3g} ({shape['missing_rows']:.0f} rows)",
            (0.99, 0.97),
            xycoords="axes fraction",
            ha="right",
            va="top",
            fontsize=8,
        )
    below.stairs(rows, edges, fill=True, color=_GREY)
    below.set_ylabel("rows")
    below.set_xlabel(feature)
    return _save(figure, path)


def draw_local(explained: Mapping[str, Any], path: Path, *, most: int = 12) -> Path:
    """What each feature adds to one prediction (Figure 7 c)."""
    terms = explained["terms"]
    shown = [(_label(term), term["contribution"]) for term in terms[:most]]
    rest = sum(term["contribution"] for term in terms[most:])
    if len(terms) > most:
        shown.append((f"{len(terms) - most} other terms", rest))
    figure = _figure(7.5, 1.4 + 0.32 * len(shown))
    axes = figure.add_subplot()
    values = [value for _, value in reversed(shown)]
    axes.barh(
        [name for name, _ in reversed(shown)],
        values,
        color=[_RED if value > 0 else _BLUE for value in values],
    )
    axes.axvline(0.0, color=_GREY, linewidth=0.8)
    axes.set_xlabel(f"added to the score (intercept {explained['intercept']:+.4g})")
    axes.set_title(f"One prediction: {explained['prediction']:.4g}")
    return _save(figure, path)


def draw_tree(explained: Mapping[str, Any], path: Path) -> Path:
    """The decision tree (Figure 6 left)."""
    root = explained["tree"]
    leaves, depth = _leaves(root), _depth(root)
    figure = _figure(max(4.0, 2.1 * leaves), 1.5 + 1.4 * depth)
    axes = figure.add_subplot()
    axes.set_axis_off()
    axes.set_xlim(0, leaves)
    axes.set_ylim(-depth - 0.4, 0.5)
    _draw_node(axes, root, 0.0, 0)
    return _save(figure, path)


def draw_explanations(
    explained: Mapping[str, Any], folder: Path, *, local: Mapping[str, Any] | None = None
) -> list[Path]:
    """Every picture that a model's global (and one local) explanation allows, as PNG files in `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    drawn = [draw_importances(explained, folder / "global_importances.png")]
    if "tree" in explained:
        drawn.append(draw_tree(explained, folder / "tree.png"))
    if "hour" in explained.get("shapes", {}):
        drawn.append(draw_shape(explained, "hour", folder / "shape_hour.png"))
    if local is not None and "terms" in local:
        drawn.append(draw_local(local, folder / "local_explanation.png"))
    return drawn


def _draw_node(axes: Any, node: Mapping[str, Any], left: float, level: int) -> float:
    """Draw a node and what is below it in columns from `left`; returns the x of the node."""
    if "feature" not in node:
        shares = "  ".join(f"{name[0]} {share:.0%}" for name, share in node["shares"].items() if share > 0)
        _box(axes, left + 0.5, -level, f"{node['score']}\n{shares}\n{node['samples']:g} jobs", node["score"])
        return left + 0.5
    middle = left + _leaves(node["at_most"])
    below = (
        _draw_node(axes, node["at_most"], left, level + 1),
        _draw_node(axes, node["above"], middle, level + 1),
    )
    x = sum(below) / 2
    for child, sign in zip(below, ("≤", ">"), strict=True):
        axes.plot([x, child], [-level, -level - 1], color=_GREY, zorder=1)
        axes.text((x + child) / 2, -level - 0.5, f" {sign} {node['threshold']:.4g}", fontsize=9, ha="center")
    _box(axes, x, -level, f"{node['feature']}\n{node['samples']:g} jobs", node["score"])
    return x


def _box(axes: Any, x: float, y: float, text: str, score: str) -> None:
    box = {"boxstyle": "round", "facecolor": _SCORE_COLOURS[score], "edgecolor": _GREY}
    axes.text(x, y, text, ha="center", va="center", fontsize=9, bbox=box, zorder=2)


def _leaves(node: Mapping[str, Any]) -> int:
    return 1 if "feature" not in node else _leaves(node["at_most"]) + _leaves(node["above"])


def _depth(node: Mapping[str, Any]) -> int:
    return 0 if "feature" not in node else 1 + max(_depth(node["at_most"]), _depth(node["above"]))


def _edges(cuts: list[float]) -> list[float]:
    """The cuts with ends for the two open bins, as wide as the bins beside them."""
    if not cuts:
        return [0.0, 1.0]
    first, last = (cuts[1] - cuts[0], cuts[-1] - cuts[-2]) if len(cuts) > 1 else (1.0, 1.0)
    return [cuts[0] - first, *cuts, cuts[-1] + last]


def _label(term: Mapping[str, Any]) -> str:
    values = ", ".join(
        "unknown" if value is None or math.isnan(value) else f"{value:.4g}" for value in term["values"]
    )
    return f"{term['term']} = {values}"


def _figure(width: float, height: float) -> Figure:
    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def _save(figure: Figure, path: Path) -> Path:
    # A fixed metadata entry keeps equal explanations equal in bytes.
    figure.savefig(path, format="png", dpi=_DPI, metadata={"Software": None})
    return path
