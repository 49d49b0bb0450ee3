"""`lucid live run` and `lucid live slurm`: the live scheduler of a cluster, by its adapter."""

import logging
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lucid_cli.options import TrackingOption

if TYPE_CHECKING:
    from live_scheduler.live_settings import LiveSettings

SettingsOption = Annotated[
    Path | None, typer.Option("--settings", metavar="FILE", help="Settings in TOML; options go before them.")
]
ModeOption = Annotated[
    str | None,
    typer.Option(
        help="observe (change nothing), advise (write expected times) or control (order the queue)."
    ),
]
ReleaseOption = Annotated[str | None, typer.Option(metavar="ALIAS", help="Which release to follow.")]
PolicyOption = Annotated[str | None, typer.Option(help="A policy of the simulator that never preempts.")]
ClusterOption = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="The cluster's name in releases and logs; default: the only one.",
    ),
]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command()(run)
    app.command()(slurm)


def run(
    adapter: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="The cluster's adapter; default: the one of the settings."),
    ] = None,
    cluster: ClusterOption = None,
    mode: ModeOption = None,
    settings_file: SettingsOption = None,
    release: ReleaseOption = None,
    policy: PolicyOption = None,
    tracking_uri: TrackingOption = None,
) -> None:
    """Order the queue of a cluster with any adapter by the published release, until told to end.

    An adapter's own settings are the table of its name. It changes nothing unless the mode says so.
    """
    from live_scheduler.settings_file import read_live_settings

    chosen = read_live_settings(
        settings_file,
        adapter=adapter,
        cluster=cluster,
        mode=mode,
        release=release,
        policy=policy,
        find_cluster=cluster_finder(tracking_uri),
    )
    run_live(chosen, tracking_uri)


def slurm(
    cluster: ClusterOption = None,
    mode: ModeOption = None,
    settings_file: SettingsOption = None,
    release: ReleaseOption = None,
    policy: PolicyOption = None,
    profiling_partition: Annotated[
        str | None, typer.Option(metavar="NAME", help="Where new small jobs are measured first.")
    ] = None,
    tracking_uri: TrackingOption = None,
) -> None:
    """Order the queue of the Slurm cluster that SLURM_CONF names by the published release, until told to end.

    It changes nothing unless the mode says so, and nothing at all without a release.
    """
    from live_scheduler.settings_file import read_live_settings

    run_live(
        read_live_settings(
            settings_file,
            adapter="slurm",
            cluster=cluster,
            mode=mode,
            release=release,
            policy=policy,
            profiling_partition=profiling_partition,
            find_cluster=cluster_finder(tracking_uri),
        ),
        tracking_uri,
    )


def cluster_finder(tracking_uri: str | None) -> Callable[[str], str]:
    """Return what finds the cluster whose alias is followed, where no option or setting names one."""

    def find(alias: str) -> str:
        from live_scheduler.assembly import RELEASES_DIR
        from live_scheduler.followed_cluster import followed_cluster
        from pipeline import settings

        kept = (settings.state_dir() / "live").glob(f"*/{RELEASES_DIR}")
        return followed_cluster(tracking_uri or settings.server_uri(), alias, kept)

    return find


def run_live(chosen: "LiveSettings", tracking_uri: str | None) -> None:
    """Run the live scheduler of the cluster that the settings describe until told to end."""
    from live_scheduler.adapters import open_cluster
    from live_scheduler.assembly import assemble, open_releases, run_until_told
    from live_scheduler.state_folder import state_folder
    from lucid_cli.output import say
    from pipeline import settings
    from pipeline.release.live_needs import known_needs

    logging.getLogger("lucid.live").setLevel(logging.INFO)
    for handler in logging.getLogger().handlers:
        handler.setLevel(min(handler.level, logging.INFO))
    folder = state_folder(settings.state_dir(), chosen.cluster)
    opened = open_cluster(chosen, folder)
    client = open_releases(tracking_uri or settings.server_uri(), chosen, folder)
    say(f"Live scheduler of {chosen.cluster}, mode {chosen.mode}; state in {folder}.")
    try:
        needs = known_needs(settings.lake_uri(), chosen.cluster, client) if chosen.shared_partitions else None
        run_until_told(assemble(opened, client, chosen, folder, profile_of=needs))
    finally:
        client.close()
