"""`lucid live run` and `lucid live slurm`: the live scheduler of a cluster, by its adapter."""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from foundation.site import Site
from lucid_cli.option_groups import with_options
from lucid_cli.options import ServerOption

if TYPE_CHECKING:
    from live_scheduler.live_settings import LiveSettings

SettingsOption = Annotated[
    Path | None, typer.Option("--settings", metavar="FILE", help="Settings in TOML; options go before them.")
]
ReleaseOption = Annotated[str | None, typer.Option(metavar="ALIAS", help="Which release to follow.")]
TrustOption = Annotated[
    str | None,
    typer.Option(
        "--trust",
        metavar="FILE",
        help="Whose signatures on releases are believed; the word `unsigned`: the registry is. Default: "
        "LUCID_TRUST, else trust.json beside the settings or in the state folder.",
    ),
]
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


@dataclass(frozen=True)
class LiveStart:
    """Group of options: which live scheduler is started, and what its settings file does not say."""

    cluster: ClusterOption = None
    mode: Annotated[
        str | None,
        typer.Option(
            help="observe (change nothing), advise (write expected times) or control (order the queue)."
        ),
    ] = None
    settings_file: SettingsOption = None
    release: ReleaseOption = None
    policy: PolicyOption = None
    trust: TrustOption = None
    tracking_uri: ServerOption = None

    def read(self, **settings: str | None) -> "LiveSettings":
        """Return the settings of the file, of the options, and those named here; None: not given."""
        from live_scheduler.settings_file import read_live_settings

        return read_live_settings(
            self.settings_file,
            cluster=self.cluster,
            mode=self.mode,
            release=self.release,
            policy=self.policy,
            trust=self.trust,
            find_cluster=cluster_finder(self.tracking_uri),
            **settings,
        )


@with_options(LiveStart)
def run(
    start: LiveStart,
    adapter: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="The cluster's adapter; default: the one of the settings."),
    ] = None,
) -> None:
    """Order the queue of a cluster with any adapter by the published release, until told to end.

    An adapter's own settings are the table of its name. It changes nothing unless the mode says so.
    """
    run_live(start.read(adapter=adapter), start.tracking_uri)


@with_options(LiveStart)
def slurm(
    start: LiveStart,
    profiling_partition: Annotated[
        str | None, typer.Option(metavar="NAME", help="Where new small jobs are measured first.")
    ] = None,
) -> None:
    """Order the queue of the Slurm cluster that SLURM_CONF names by the published release, until told to end.

    It changes nothing unless the mode says so, and nothing at all without a release.
    """
    run_live(start.read(adapter="slurm", profiling_partition=profiling_partition), start.tracking_uri)


def cluster_finder(tracking_uri: str | None) -> Callable[[str], str]:
    """Return what finds the cluster of the alias that is followed, where no option or setting names one."""

    def find(alias: str) -> str:
        from live_scheduler.assembly import RELEASES_DIR
        from live_scheduler.client import followed_cluster
        from pipeline import settings

        release_dirs = (settings.state_dir() / "live").glob(f"*/{RELEASES_DIR}")
        return followed_cluster(settings.server_uri(tracking_uri), alias, release_dirs)

    return find


def run_live(chosen: "LiveSettings", tracking_uri: str | None) -> None:
    """Run the live scheduler of the cluster that the settings describe until told to end."""
    from live_scheduler.adapters import adapter_kind
    from live_scheduler.assembly import assemble, open_releases, run_until_told
    from live_scheduler.settings_file import state_folder
    from lucid_cli.output import say
    from pipeline import settings

    logging.getLogger("lucid.live").setLevel(logging.INFO)
    for handler in logging.getLogger().handlers:
        handler.setLevel(min(handler.level, logging.INFO))
    folder = state_folder(settings.state_dir(), chosen.cluster)
    opened = adapter_kind(chosen.adapter).open(chosen, folder)
    client = open_releases(settings.server_uri(tracking_uri), chosen, folder, settings.state_dir())
    say(f"Live scheduler of {chosen.cluster}, mode {chosen.mode}; state in {folder}.")
    try:
        needs = None
        if chosen.shared_partitions:  # read from the lake, so the extra `training` brings it
            from pipeline.release.live_needs import known_needs

            needs = known_needs(Site(lake=settings.lake_uri(), cluster=chosen.cluster), client)
        run_until_told(assemble(opened, client, chosen, folder, profile_of=needs))
    finally:
        client.close()
