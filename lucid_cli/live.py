"""`lucid live`: what a scheduler would do with the published release."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from foundation.errors import NotFoundError
from lucid_cli import live_answers, live_restore, live_run
from lucid_cli.options import ServerOption, file_option
from lucid_cli.output import JsonFlag, print_table, show, to_jsonable

if TYPE_CHECKING:
    from live_scheduler.release import Release

app = typer.Typer(help="Use a release beside a live scheduler.", no_args_is_help=True)
live_run.register(app)
live_answers.register(app)
live_restore.register(app)


@app.callback()
def group() -> None:
    """Use a release beside a live scheduler."""


@app.command()
def rank(
    queue: Annotated[Path, file_option("The waiting jobs: CSV or JSON.")],
    release: Annotated[str, typer.Option(metavar="ALIAS", help="Which release to follow.")] = "champion",
    cluster: Annotated[
        str | None,
        typer.Option("--cluster", metavar="NAME", help="Whose; default: the only cluster that has one."),
    ] = None,
    unapproved: Annotated[
        bool,
        typer.Option(
            "--unapproved", help="By a release without the gate's approval, such as a new challenger."
        ),
    ] = False,
    trust: live_run.TrustOption = None,
    tracking_uri: ServerOption = None,
    metrics: Annotated[
        str | None,
        typer.Option(
            metavar="URI",
            help="A lake whose metrics (`lucid metrics`) say what jobs need that do not say it themselves.",
        ),
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """Order a queue by the release; with none to be had, by the stated heuristic, and say so."""
    from live_scheduler.ranking import rank_queue, read_queue
    from live_scheduler.release import LiveRelease
    from pipeline import settings

    jobs = read_queue(queue)
    server = settings.server_uri(tracking_uri)
    current = _followed(server, release, cluster, trust, unapproved=unapproved)
    if metrics is not None and isinstance(current, LiveRelease):
        from cluster_logs.lake import Lake
        from lucid_models.known_profiles import queue_with_known_profiles

        jobs = queue_with_known_profiles(jobs, Lake(metrics).read_job_metrics(current.manifest.cluster))
    ranked = to_jsonable(rank_queue(jobs, current))
    document = {"release": to_jsonable(current.describe()), "jobs": ranked}

    def people() -> None:
        # Without a release one reason holds for all jobs, and the title says it.
        columns = ["job_id", "priority", "estimated_duration_s"]
        columns += ["reason"] if isinstance(current, LiveRelease) else []
        print_table(ranked, title=f"Queue by {current.describe()}", columns=columns)

    show(document, as_json=as_json, people=people)


def _followed(
    server: str, alias: str, cluster: str | None, trust: str | None, *, unapproved: bool
) -> "Release":
    """The release of a cluster (None: the only one that has one), or the fallback where there is none."""
    from live_scheduler.beliefs import trust_of
    from live_scheduler.client import ReleaseClient, followed_cluster
    from live_scheduler.release import FallbackRelease
    from lucid_models.signing.trust import UNSIGNED
    from pipeline import settings

    releases_dir = settings.state_dir() / "client"
    try:
        cluster = cluster or followed_cluster(server, alias, [releases_dir])
    except NotFoundError as error:
        return FallbackRelease(str(error))
    believed = trust_of(trust, settings.state_dir()) or UNSIGNED
    return ReleaseClient(
        server, alias, releases_dir, cluster=cluster, unapproved=unapproved, trust=believed
    ).poll()
