"""`lucid monitor`: whether the live release still fits the cluster."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from foundation.site import Site
from lucid_cli.options import (
    AsOfOption,
    LakeOption,
    TrackingOption,
    lake_or_default,
    tracking_or_default,
)
from lucid_cli.output import JsonFlag, print_facts, print_table, progress_reporter, show
from lucid_cli.setting_pairs import named_values

if TYPE_CHECKING:
    from pipeline.monitoring.live import LiveHealth


def monitor(
    cluster: Annotated[
        str | None,
        typer.Option("--cluster", metavar="NAME", help="Its name in the lake; default: the release's."),
    ] = None,
    lake: LakeOption = None,
    alias: Annotated[str, typer.Option(metavar="ALIAS", help="The release to watch.")] = "champion",
    window_days: Annotated[
        float, typer.Option(min=0.5, help="Newest days to judge; never before the release learned.")
    ] = 7.0,
    as_of: AsOfOption = None,
    setting: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=VALUE", help="Another threshold; see docs/monitoring.md. Repeatable."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Where the page goes; default .lucid/monitoring.")
    ] = None,
    live: Annotated[
        str | None,
        typer.Option(
            metavar="DIR|URL",
            help="A live scheduler's state folder or address; default: .lucid/live/CLUSTER, if there is one.",
        ),
    ] = None,
    live_token_file: Annotated[
        Path | None, typer.Option("--live-token-file", metavar="FILE", help="The token for a URL.")
    ] = None,
    tracking_uri: TrackingOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Watch a release on the log since it learned: drift, live errors, missing data; ok, watch or retrain.

    Writes a page and report.json, and a run of MLflow. Requests nothing: the DAG monitor_live does.
    """
    from pipeline import settings as places
    from pipeline.monitoring.live import LiveRecords
    from pipeline.monitoring.records import PAGES, PassRequest, make_pass
    from pipeline.monitoring.rules import monitor_settings
    from pipeline.training.windows import read_as_of

    values: dict[str, object] = {"window_days": window_days}
    values |= named_values(setting, "--setting", "psi_major=0.3")
    with progress_reporter() as progress:
        done = make_pass(
            Site(lake_or_default(lake), tracking_or_default(tracking_uri), cluster or "", progress),
            pages_dir=out or places.state_dir() / PAGES,
            settings=monitor_settings(values),
            asked=PassRequest(alias, read_as_of(as_of)),
            live=LiveRecords(live, places.state_dir() / "live", live_token_file),
        )
    report = done.report
    page = done.folder / "index.html"
    document = {**report.to_dict(), "page": str(page), "retraining": done.retraining.sentence}

    def people() -> None:
        rows = [
            {"asks_for": str(finding.level), "area": finding.area, "finding": finding.sentence}
            for finding in report.findings
        ]
        if rows:
            print_table(rows, title=f"Findings on {report.cluster}")
        overall = report.duration.overall
        print_facts(
            {
                "decision": str(report.decision),
                "release": report.release_version,
                "window": f"{report.window.start:%Y-%m-%d %H:%M} to {report.window.end:%Y-%m-%d %H:%M} UTC",
                "jobs": report.data.jobs,
                "error_of_log10": overall.mae_log10 if overall else None,
                "at_validation": report.duration.validation.get("mae_log10"),
                "naive_rival": overall.naive_mae_log10 if overall else None,
                **_live_facts(report.live),
                "page": str(page),
            },
            title="" if rows else f"No finding on {report.cluster}",
        )

    show(document, as_json=as_json, people=people)


def _live_facts(live: "LiveHealth | None") -> dict[str, object]:
    if live is None:
        return {}
    past, errors = live.hindsight, live.errors
    predictions = live.predictions
    watched = None if predictions is None else predictions.watched
    expected = (predictions.expected or {}).get("mean_pred_err_pct") if predictions else None
    return {
        "live_prediction_error_pct": watched.mean_pct if watched else None,
        "live_prediction_error_p99_pct": watched.p99_pct if watched else None,
        "promised_by_the_gate_pct": expected,
        "live_error_of_log10": errors.mae_log10 if errors else None,
        "live_regret_against_fifo_s": past.against_backfill.point_s if past else None,
        "live_note": live.note or None,
    }


def register(app: typer.Typer) -> None:
    """Add the command to the program."""
    app.command()(monitor)
