"""The tasks of the DAG `search_pareto_front`, each a step (`foundation/steps.py`)."""

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from foundation.site import Site
from foundation.steps import Done, StepRun
from parts.elastic.pareto import plan as search
from parts.elastic.pareto.presented import front_markdown, keep_page, read_front
from parts.elastic.pareto.release_choice import build_picked_release, describe_choice
from parts.elastic.pareto.report import finish_search
from pipeline.steps.release import built
from pipeline.training.windows import DEFAULT_HOLD_OUT_DAYS, only_cluster, read_as_of
from pipeline.validation.held_out_days import HeldOutDays, usual_held_out

_log = logging.getLogger(__name__)


def plan_search(*, run: StepRun, site: Site, rounds: int, round_size: int, asked: Mapping[str, Any]) -> Done:
    """Freeze a cluster's jobs before the held-out window, and what is preferred.

    That many `rounds` of `round_size` configurations each. Returns the search's URI and the lake's.
    """
    site = site.of(site.cluster or only_cluster(site.lake))
    run.check_right(site.cluster)
    days = asked.get("hold_out_days") or usual_held_out(site) or DEFAULT_HOLD_OUT_DAYS
    sizes = {"evaluations": int(rounds) * int(round_size), "round_size": int(round_size)}
    plan = search.plan_search(site, asked={**asked, **sizes, "hold_out_days": days})
    for remark in plan["remarks"]:
        _log.warning("%s", remark)
    _log.info("The search is at %s", plan["study_uri"])
    return Done(
        {**plan, "lake_uri": site.lake, "cluster": site.cluster, "hold_out_days": days},
        f"The front of {site.cluster} is searched in {plan['rounds']} rounds.",
        on_the_way=True,
    )


def collect_front(
    *, site: Site, state_dir: Path, airflow_url: str, mlflow_ui_url: str | None, study_uri: str
) -> Done:
    """Write the front with its interactive page, here and in MLflow.

    Returns the front's rows, the run in MLflow, and Markdown for the person that picks.
    """
    finished = finish_search(study_uri=study_uri, tracking_uri=site.registry)
    front, path = read_front(study_uri), finished["mlflow_path"]
    kept = keep_page(front, finished["files"], pages_dir=state_dir / "fronts", cluster=site.cluster)
    page = f"lucid/fronts/{kept}" if kept else None
    summary = front_markdown(
        front,
        page_url=f"{urlsplit(airflow_url).path}/{page}" if page else None,
        mlflow_url=f"{mlflow_ui_url}/#/{path}" if mlflow_ui_url and path else None,
    )
    _log.info("%s", summary)
    return Done(
        {"front": finished["front"], "run_id": finished["run_id"], "summary": summary},
        f"The front of {site.cluster} has {len(finished['front'])} points to choose from.",
        page=page,
        mlflow_path=path,
    )


def build_release(
    *,
    run: StepRun,
    site: Site,
    study_uri: str,
    front_id: str,
    hold_out_days: int,
    run_id: str | None = None,
    as_of: str | None = None,
    jct_price_pct: float | None = None,
) -> Done:
    """Pin the picked configuration, with the models of the current release, in a new challenger.

    Returns the release's name and version, and what it was chosen for.
    """
    release = build_picked_release(
        site,
        front=read_front(study_uri),
        front_id=str(front_id),
        run_id=run_id,
        held_out=HeldOutDays(int(hold_out_days), read_as_of(as_of)),
        jct_price_pct=None if jct_price_pct is None else float(jct_price_pct),
    )
    says = describe_choice(release.choice or {})
    return built(
        run,
        site.registry,
        (release.cluster, int(release.version)),
        f"Release {release.version} of {site.cluster} was built: {says}",
        {"name": release.name, "version": release.version, "says": says},
        lake_uri=site.lake,
        hold_out_days=int(hold_out_days),
        as_of=as_of,
    )
