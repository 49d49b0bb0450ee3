"""A search's front as a page and a table beside it, and as a run of MLflow; one point of it."""

import io
from collections.abc import Mapping, Sequence
from typing import Any

from markupsafe import Markup

from foundation import strict_json
from foundation.csv_files import write_rows
from foundation.errors import BadInputError, NotFoundError
from foundation.html_pages import render_page
from foundation.site import Site
from foundation.storage import write_bytes
from lucid_models.registry import Registry
from lucid_models.tracking_run import OpenRun
from parts.elastic.configurations import configuration_to_json
from parts.elastic.pareto.objectives import Objective, hypervolume
from parts.elastic.pareto.presented import FRONT_FILE, Front, FrontPoint, present, read_front
from parts.elastic.pareto.samples import PREDICTED_BY
from parts.elastic.pareto.study import (
    ParetoSearch,
    candidates_of,
    estimates,
    front_on_all_samples,
    search_samples,
    within_3pct,
)
from parts.elastic.rules.wfq import WfqConfig
from pipeline.studies.store import log_stored

REFRESH_S = 5
TRIED, CHOSEN = "#b8bec6", "#c2410c"


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


EXPERIMENT = "lucid-pareto"
PAGE_FILE, TABLE_FILE = "front.html", "front.csv"
STUDY_TAG, NAME_TAG = "pareto_study", "cluster"


def front_rows(front: Front) -> list[dict[str, Any]]:
    """Return the front as a table: id, figures on fresh samples, the configuration."""
    return [
        {
            "front_id": point.front_id,
            **point.figures,
            "thresholds_s": " ".join(f"{bound:g}" for bound in point.config.thresholds_s),
            "weights": " ".join(f"{weight:g}" for weight in point.config.weights),
            "efficiency_min": point.config.efficiency_min,
            "efficiency_step": point.config.efficiency_step,
        }
        for point in front.points
    ]


def write_progress(study: ParetoSearch) -> None:
    """Draw the front as it stands, while the search runs."""
    write_bytes(f"{study.uri}/{PAGE_FILE}", progress_page(study).encode())


def write_report(study: ParetoSearch, front: Front) -> tuple[str, ...]:
    """Write front.html and front.csv beside front.json; return the URIs of all three."""
    rows = front_rows(front)
    table = io.StringIO()
    write_rows(rows, list(rows[0]), table)
    write_bytes(f"{study.uri}/{PAGE_FILE}", front_page(study, front).encode())
    write_bytes(f"{study.uri}/{TABLE_FILE}", table.getvalue().encode())
    return tuple(f"{study.uri}/{name}" for name in (PAGE_FILE, TABLE_FILE, FRONT_FILE))


def record_search(study: ParetoSearch, front: Front, *, tracking_uri: str) -> tuple[str, str]:
    """Log a finished search as a run of MLflow, once; return the run's id and its page in MLflow's UI."""
    registry = Registry(tracking_uri)
    tags = {STUDY_TAG: study.sha256, NAME_TAG: study.name, "evaluations": str(front.evaluations)}
    for recorded in registry.find_runs(EXPERIMENT, tags, most=1):
        return recorded.run_id, OpenRun(registry, recorded.run_id).ui_path()
    name = f"{study.name} front, {front.evaluations} evaluations"
    with registry.run(EXPERIMENT, name, {**tags, "study_uri": study.uri}) as run:
        run.log_params(
            {
                "preference": " ".join(front.preference),
                "evaluations": front.evaluations,
                "simulations": front.simulations,
                "jobs_per_sample": front.jobs_per_sample,
                "samples": study.samples,
                "held_out_samples": study.held_out_samples,
                "round_size": study.round_size,
                "seed": study.seed,
                "gpus": study.gpus,
                "whole_gpus": study.whole_gpus,
                "jobs": study.jobs,
                **study.about,
            }
        )
        run.log_metrics(_metrics(front))
        run.set_tag("mlflow.note.content", _note(study, front))
        names = (study.plan_file, FRONT_FILE, PAGE_FILE, TABLE_FILE)
        log_stored(run, [f"{study.uri}/{name}" for name in names])
        return run.run_id, run.ui_path()


def _metrics(front: Front) -> dict[str, float]:
    metrics: dict[str, float] = {"front_points": len(front.points)}
    for name in front.preference:
        values = [point.figures[name] for point in front.points]
        plain_name = name.replace(":", "_")
        metrics |= {f"least_{plain_name}": min(values), f"most_{plain_name}": max(values)}
    worst = [max(point.figures[name] for point in front.points) for name in front.preference]
    if all(worst):
        shares = [
            tuple(point.figures[name] / most for name, most in zip(front.preference, worst, strict=True))
            for point in front.points
        ]
        metrics["hypervolume_of_own_range"] = hypervolume(shares, [1.0] * len(worst))
    return metrics


def _note(study: ParetoSearch, front: Front) -> str:
    first = front.preference[0]
    return (
        f"{len(front.points)} configurations of PCS for {study.name}, from the least {first} "
        f"({front.points[0].front_id}) to the most ({front.points[-1].front_id}). Open `{PAGE_FILE}` among "
        "the artifacts, and pick one by its id: `lucid pareto pick ID`."
    )


def newest_front(site: Site, *, run_id: str | None = None) -> tuple[Front, str]:
    """Return a recorded front and its run: that run's, or else the newest of a cluster.

    Raises NotFoundError when there is none.
    """
    registry = Registry(site.registry)
    if run_id is None:
        wanted: Mapping[str, str] = {NAME_TAG: site.cluster} if site.cluster else {}
        runs = registry.find_runs(EXPERIMENT, wanted, most=1)
        if not runs:
            of_cluster = f" of {site.cluster!r}" if site.cluster else ""
            raise NotFoundError(
                f"MLflow on {site.registry} has no Pareto search{of_cluster}.",
                remedy="Run `lucid pareto search ... --track`, or the DAG search_pareto_front.",
            )
        run_id = runs[0].run_id
    return Front.from_data(strict_json.loads(registry.read_run_file(run_id, FRONT_FILE))), run_id


def finish_search(*, study_uri: str, tracking_uri: str | None = None) -> dict[str, Any]:
    """Write the front, its tables and its interactive page, and log the search in MLflow.

    Returns `front` (rows as `pick_configuration` returns them), `preference`, `evaluations`, `simulations`,
    `files`, and `run_id` and `mlflow_path` (None without `tracking_uri`).
    """
    study = ParetoSearch.load(study_uri)
    front = present(study)
    files = write_report(study, front)
    run_id, path = (None, None)
    if tracking_uri is not None:
        run_id, path = record_search(study, front, tracking_uri=tracking_uri)
    return {
        "preference": list(front.preference),
        "predict_by": PREDICTED_BY,
        "evaluations": front.evaluations,
        "simulations": front.simulations,
        "front": [point_row(point) for point in front.points],
        "files": list(files),
        "run_id": run_id,
        "mlflow_path": path,
    }


def point_row(point: FrontPoint) -> dict[str, Any]:
    """Return a point for people and programs: id, figures by name, and settings of policy `pcs`."""
    configuration = configuration_to_json(point.config)
    return {
        "front_id": point.front_id,
        "figures": dict(point.figures),
        "spread": dict(point.spread),
        "configuration": configuration,
        "settings": {name: value for name, value in configuration.items() if name != "format_version"},
    }


def pick_configuration(
    site: Site, *, front_id: str, study_uri: str | None = None, run_id: str | None = None
) -> dict[str, Any]:
    """Return one row of a front, with `study`, `preference`, `name` and `run_id` besides.

    A row has `front_id`, `figures` (on fresh samples, by name), `spread`, `configuration` (a JSON document)
    and `settings` (of policy `pcs`). The front is that of a stored study, or of MLflow: that run's, or else
    the newest search of the cluster. Raises UnknownNameError for an id that the front does not have,
    NotFoundError when there is no front.
    """
    if study_uri is not None:
        front, run_id = read_front(study_uri), None
    elif site.registry:
        front, run_id = newest_front(site, run_id=run_id)
    else:
        raise BadInputError("No front is named.", remedy="Give a study, or MLflow's address.")
    return {
        **point_row(front.point(front_id)),
        "study": front.study,
        "name": front.name,
        "preference": list(front.preference),
        "predict_by": PREDICTED_BY,
        "run_id": run_id,
    }
