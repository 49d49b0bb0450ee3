"""The front as a page: an interactive plot that needs no network, and a table to pick from."""

from collections.abc import Sequence
from typing import Any

from markupsafe import Markup

from foundation.html_pages import render_page
from parts.elastic.pareto.evaluate import PREDICTED_BY
from parts.elastic.pareto.objectives import Objective
from parts.elastic.pareto.presented import Front, FrontPoint
from parts.elastic.pareto.rounds import (
    candidates_of,
    estimates,
    front_on_all_samples,
    search_samples,
    within_3pct,
)
from parts.elastic.pareto.study import ParetoSearch
from parts.elastic.rules.wfq import WfqConfig

REFRESH_S = 5
TRIED, FOUND, CHOSEN = "#b8bec6", "#7a9cc6", "#c2410c"


def bounds_text(config: WfqConfig) -> str:
    """Return thresholds as people read them: `20 min, 12 h, inf`."""
    return ", ".join(_duration(bound) for bound in config.thresholds_s)


def _duration(seconds: float) -> str:
    if seconds == float("inf"):
        return "∞"
    for unit, name in ((86_400.0, "d"), (3_600.0, "h"), (60.0, "min")):
        if seconds >= unit:
            return f"{seconds / unit:.3g} {name}"
    return f"{seconds:.3g} s"


def front_page(study: ParetoSearch, front: Front) -> str:
    """Return the page of a finished search."""
    objectives = study.objectives
    tried = [values for _, values in estimates(study, candidates_of(study))]
    drawn = _plot(
        objectives,
        tried,
        [tuple(point.figures[str(objective)] for objective in objectives) for point in front.points],
        [_hover(point, objectives) for point in front.points],
        [point.front_id for point in front.points],
        name="front, on fresh samples",
    )
    head, rows = _table(front, objectives)
    return render_page(
        "parts.elastic.pareto",
        "front.html",
        title=f"Pareto front of {study.name}",
        front=front,
        predicted_by=PREDICTED_BY,
        plot=drawn,
        head=head,
        rows=rows,
    )


def progress_page(study: ParetoSearch) -> str:
    """Return the page of a search that is running, which shows itself anew every few seconds."""
    candidates = candidates_of(study)
    samples = search_samples(study)
    estimated = estimates(study, candidates)
    front = front_on_all_samples(study, candidates)
    drawn = _plot(
        study.objectives,
        [values for _, values in estimated],
        [candidate.values(study, samples) for candidate in front],
        [f"{bounds_text(candidate.config)}<br>{_weights(candidate.config)}" for candidate in front],
        [""] * len(front),
        name="front so far",
    )
    return render_page(
        "parts.elastic.pareto",
        "progress.html",
        title=f"Pareto search of {study.name}",
        refresh_s=REFRESH_S,
        tried=len(estimated),
        evaluations=study.evaluations,
        near=len(within_3pct(study, candidates)),
        plot=drawn,
    )


def _plot(
    objectives: Sequence[Objective],
    tried: Sequence[Sequence[float]],
    front: Sequence[Sequence[float]],
    hover: Sequence[str],
    labels: Sequence[str],
    *,
    name: str,
) -> Markup:
    """Draw the first two objectives; a third one is the colour of the front's points."""
    import plotly.graph_objects as go

    marker: dict[str, Any] = {"size": 10, "color": CHOSEN, "line": {"width": 1, "color": "white"}}
    if len(objectives) > 2:
        marker |= {
            "color": [point[2] for point in front],
            "colorscale": "Viridis",
            "colorbar": {"title": {"text": objectives[2].title}},
        }
    figure = go.Figure(
        [
            go.Scattergl(
                x=[point[0] for point in tried],
                y=[point[1] for point in tried],
                mode="markers",
                name="tried",
                hoverinfo="skip",
                marker={"size": 5, "color": TRIED},
            ),
            go.Scatter(
                x=[point[0] for point in front],
                y=[point[1] for point in front],
                mode="markers+text" + ("+lines" if len(objectives) == 2 else ""),
                line={"color": CHOSEN, "width": 1, "shape": "hv"},
                text=list(labels),
                textposition="top right",
                textfont={"size": 10},
                customdata=list(hover),
                hovertemplate="%{customdata}<extra></extra>",
                name=name,
                marker=marker,
            ),
        ]
    )
    scales = [
        {
            "label": label,
            "method": "relayout",
            "args": [{"xaxis.type": horizontal, "yaxis.type": vertical}],
        }
        for label, horizontal, vertical in (
            ("linear", "linear", "linear"),
            ("log (hides 0)", "log", "log"),
        )
    ]
    figure.update_layout(
        template="plotly_white",
        height=620,
        margin={"l": 70, "r": 20, "t": 50, "b": 60},
        xaxis_title=objectives[0].title,
        yaxis_title=objectives[1].title,
        legend={"orientation": "h", "y": 1.08},
        updatemenus=[{"type": "buttons", "direction": "right", "x": 1, "y": 1.12, "buttons": scales}],
    )
    return Markup(figure.to_html(full_html=False, include_plotlyjs=True, div_id="front"))  # noqa: S704


def _weights(config: WfqConfig) -> str:
    return ", ".join(f"{100 * weight:.3g} %" for weight in config.weights)


def _hover(point: FrontPoint, objectives: Sequence[Objective]) -> str:
    lines = [f"<b>{point.front_id}</b>"]
    lines += [
        f"{objective.title}: {point.figures[str(objective)]:,.4g} ± {point.spread[str(objective)]:,.2g}"
        for objective in objectives
    ]
    lines += [f"{name}: {point.figures[name]:,.4g}" for name in ("JCT:avg", "Pred_err:avg", "Pred_err:p99")]
    lines += [
        f"classes up to {bounds_text(point.config)}",
        f"weights {_weights(point.config)}",
        f"efficiency at least {point.config.efficiency_min:.3g}, step {point.config.efficiency_step:.3g}",
    ]
    return "<br>".join(lines)


def _table(front: Front, objectives: Sequence[Objective]) -> tuple[list[str], list[list[str]]]:
    shown = dict.fromkeys(
        [*map(str, objectives), "JCT:avg", "Pred_err:avg", "Pred_err:p99", "unfairness:avg"]
    )
    head = ["id", *shown, "efficiency", "step", "weights", "classes up to"]
    rows = [
        [
            point.front_id,
            *(f"{point.figures[name]:,.4g}" for name in shown),
            f"{point.config.efficiency_min:.3g}",
            f"{point.config.efficiency_step:.3g}",
            _weights(point.config),
            bounds_text(point.config),
        ]
        for point in front.points
    ]
    return head, rows
