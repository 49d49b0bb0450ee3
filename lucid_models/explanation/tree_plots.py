"""Draws a packing tree, and the way of one job through it (Figure 6 left)."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from foundation.png_figures import new_figure, save_figure
from lucid_models.explanation.axes import feature_axis

_GREY, _INK, _WAY = "#888888", "#333333", "#c0392b"
_COLOURS = {"TINY": "#d7ecd9", "MEDIUM": "#fdebc8", "JUMBO": "#f6cfca"}


def draw_tree(explained: Mapping[str, Any], path: Path, *, local: Mapping[str, Any] | None = None) -> Path:
    """The decision tree; with a local explanation, the way of that job and its reason."""
    root = explained["tree"]
    leaves, depth = _leaves(root), _depth(root)
    figure = new_figure(max(6.0, 2.2 * leaves), 1.8 + 1.4 * depth)
    axes = figure.add_subplot()
    axes.set_axis_off()
    axes.set_xlim(0, leaves)
    axes.set_ylim(-depth - 0.4, 0.5)
    way = None if local is None else [step["at_most"] for step in local["decisions"]]
    _draw_node(axes, root, 0.0, 0, way)
    if local is not None:
        axes.set_title(local["reason"], fontsize=9, loc="left", wrap=True)
    return save_figure(figure, path)


def _draw_node(axes: Any, node: Mapping[str, Any], left: float, level: int, way: list[bool] | None) -> float:
    """Draw a node and what is below it in columns from `left`; returns the x of the node.

    `way` lists the turns (True: left) that the job takes from here on, None off its way.
    """
    colour = _GREY if way is None else _WAY
    score = f"{node['score'].capitalize()}"
    if "feature" not in node:
        shares = "  ".join(
            f"{name.capitalize()} {share:.0%}" for name, share in node["shares"].items() if share > 0
        )
        _box(axes, left + 0.5, -level, f"{score}\n{shares}\n{node['samples']:g} configurations", node, colour)
        return left + 0.5
    axis = feature_axis(node["feature"])
    turns = (None if way is None else way[1:]) if way else None
    x_left = _draw_node(axes, node["at_most"], left, level + 1, turns if way and way[0] else None)
    middle = left + _leaves(node["at_most"])
    x_right = _draw_node(axes, node["above"], middle, level + 1, turns if way and not way[0] else None)
    x = (x_left + x_right) / 2
    for child, sign, taken in ((x_left, "≤", bool(way and way[0])), (x_right, ">", bool(way and not way[0]))):
        line = _WAY if taken else _GREY
        axes.plot([x, child], [-level, -level - 1], color=line, linewidth=2.5 if taken else 1.2, zorder=1)
        limit = axis.text(axis.value(node["threshold"]))
        text = f"{sign} {limit}" if node["feature"] != "amp" else ("no" if sign == "≤" else "yes")
        axes.text((x + child) / 2, -level - 0.5, text, fontsize=9, ha="center", color=_INK, zorder=2,
                  bbox={"facecolor": "white", "edgecolor": "none", "pad": 1.5})  # fmt: skip
    _box(axes, x, -level, f"{axis.label}?\n{node['samples']:g} configurations", node, colour)
    return x


def _box(axes: Any, x: float, y: float, text: str, node: Mapping[str, Any], edge: str) -> None:
    face = _COLOURS[node["score"]] if "feature" not in node else "white"
    width = 2.0 if edge == _WAY else 1.0
    box = {"boxstyle": "round,pad=0.5", "facecolor": face, "edgecolor": edge, "linewidth": width}
    axes.text(x, y, text, ha="center", va="center", fontsize=9, bbox=box, zorder=3)


def _leaves(node: Mapping[str, Any]) -> int:
    return 1 if "feature" not in node else _leaves(node["at_most"]) + _leaves(node["above"])


def _depth(node: Mapping[str, Any]) -> int:
    return 0 if "feature" not in node else 1 + max(_depth(node["at_most"]), _depth(node["above"]))
