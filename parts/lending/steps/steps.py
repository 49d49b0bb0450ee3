"""Steps of the load of inference servers: it is read into the lake, announced, forecast."""

import logging
from dataclasses import replace
from typing import Any

from foundation.site import Site
from foundation.steps import Done, NothingToDo, StepRun
from parts.lending.load.ingest import ingest_recorded_load
from parts.lending.load.queries import configured_queries
from parts.lending.load.table import LoadReading
from parts.lending.steps import forecast_hours, forecast_plan
from pipeline.ingest.measured_series import RecordedSeries
from pipeline.steps.ingest import asked_window, series_read
from pipeline.training.windows import read_as_of

_log = logging.getLogger(__name__)


def ingest_load(
    *,
    run: StepRun,
    site: Site,
    prometheus_url: str | None,
    inference_load_uri: str | None = None,
    servers: int | None = None,
    time_zone: str | None = None,
    start: Any = None,
    end: Any = None,
) -> Done:
    """Read the load of inference servers from a file, or from Prometheus.

    Prometheus is asked where `LUCID_INFERENCE_QUERIES` says how, and a made log brings its own. Nothing to do
    where there is none: not every cluster has inference servers.
    """
    begun, ended = asked_window(run, start, end)
    source = RecordedSeries(
        site.lake,
        site.cluster,
        input_uri=inference_load_uri,
        time_zone=time_zone,
        prometheus_url=prometheus_url,
        queries=configured_queries(),
        start=begun,
        end=ended,
    )
    load = LoadReading(servers=None if servers is None else int(servers))
    return series_read(
        "the inference load", source, lambda named: ingest_recorded_load(named, load, site.progress)
    )


def announce_load(*, site: Site, as_of: str | None = None) -> Done:
    """Announce to the DAG that forecasts it that there is new load of a cluster's inference servers."""
    told = {"cluster": site.cluster, "lake_uri": site.lake, "as_of": as_of}
    sentence = f"The inference load of {site.cluster} is announced: forecast_inference_load starts."
    return Done(told, sentence, announced=told, on_the_way=True)


def resolve_load(
    *,
    run: StepRun,
    site: Site,
    hold_out_days: int | None = None,
    as_of: str | None = None,
    train_anew: bool = False,
) -> Done:
    """Find out which cluster's load is forecast, and whether its forecast is trained anew.

    The form's cluster, else the one that was announced, else every cluster of the lake with load; of several
    the first, the rest is left to runs of their own. Nothing to do where no cluster has any.
    """
    announced = [{"cluster": site.cluster}] if site.cluster else run.announced()
    announced = announced or [{"cluster": name} for name in forecast_plan.clusters_with_load(site.lake)]
    if not announced:
        raise NothingToDo("The lake has no inference load yet: nothing to forecast.")
    mine = run.take_first(announced, "cluster")[-1]
    run.check_right(mine["cluster"])
    site = replace(site, lake=mine.get("lake_uri") or site.lake)
    until = read_as_of(as_of or mine.get("as_of"))
    plan = forecast_plan.plan_load_forecast(
        site.of(str(mine["cluster"])),
        hold_out_days=int(hold_out_days) if hold_out_days else None,
        as_of=until,
        anew=bool(train_anew),
    )
    for remark in (*plan.remarks, *plan.reasons.values()):
        _log.info("%s", remark)
    value = {
        "cluster": plan.cluster,
        "lake_uri": site.lake,
        "as_of": until.isoformat() if until else None,
        "training_until": plan.training_until.isoformat(),
        "models": list(plan.models),
        "version": plan.version,
        "reasons": dict(plan.reasons),
    }
    anew = "is trained anew" if plan.models else "is new enough"
    return Done(value, f"The forecast of {plan.cluster}'s inference load {anew}.", on_the_way=True)


def forecast_load(
    *,
    site: Site,
    trained_version: int | None,
    kept_version: int | None,
    hours: float = 3.0,
    as_of: str | None = None,
) -> Done:
    """Forecast the next hours of a cluster's inference load, and log the picture in MLflow.

    By `trained_version` of the forecast, if one was trained, else `kept_version`. Returns how many servers
    could be lent now and over the hours.
    """
    announced = forecast_hours.forecast_hours(
        site,
        version=int(trained_version or kept_version or 0),  # 0: there is none
        hours=float(hours),
        as_of=read_as_of(as_of),
    )
    return Done(announced.to_data(), announced.sentence, mlflow_path=announced.mlflow_path)
