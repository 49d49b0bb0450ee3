"""Options that several commands share."""

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from foundation.errors import BadInputError

if TYPE_CHECKING:
    from pipeline.replay.log_file import LogFile
    from simulator.energy import EnergySettings
    from simulator.scenario.rules import Rules

Named = TypeVar("Named", str | None, Path | None, list[Path])


def existing_file(parameter: typer.CallbackParam, path: Named) -> Named:
    """Return the files that an option or argument names; raises BadInputError where one is not there."""
    for each in path if isinstance(path, list) else [path]:
        if each is not None and not Path(each).is_file():
            name = parameter.opts[0] if parameter.param_type_name == "option" else "FILE"
            raise BadInputError(f"{name} {str(each)!r} is not a file.", remedy="Check the path.")
    return path


def _folder(parameter: typer.CallbackParam, path: Path | None) -> Path | None:
    if path is not None and path.exists() and not path.is_dir():
        raise BadInputError(
            f"{parameter.opts[0]} {str(path)!r} is not a folder.", remedy="Name one, or a new one."
        )
    return path


def file_option(meaning: str, *names: str) -> Any:
    """Return an option that names a file to read; the command is called only if there is one."""
    return typer.Option(*names, metavar="FILE", help=meaning, callback=existing_file)


def folder_option(meaning: str, *names: str) -> Any:
    """Return an option that names a folder to write into, which need not exist yet."""
    return typer.Option(*names, metavar="DIR", help=meaning, callback=_folder)


LakeOption = Annotated[
    str | None,
    typer.Option(
        "--lake", metavar="URI", envvar="LUCID_LAKE_URI", help="Root of the lake; default .lucid/lake."
    ),
]
ClusterOption = Annotated[
    str, typer.Option("--cluster", metavar="NAME", help="The cluster's name in the lake.")
]
WaitOption = Annotated[
    float | None,
    typer.Option(
        "--wait",
        metavar="SECONDS",
        min=0,
        help="How long to wait while another process writes the cluster; default 600.",
    ),
]
TrackingOption = Annotated[
    str | None,
    typer.Option(
        "--tracking-uri",
        metavar="URI",
        envvar="LUCID_TRACKING_URI",
        help="MLflow; default: the running local stack, else a local store in .lucid/.",
    ),
]
# What ranks follows a server: a store of files tells them nothing of its changes.
ServerOption = Annotated[
    str | None,
    typer.Option(
        "--tracking-uri",
        metavar="URL",
        envvar="LUCID_TRACKING_URI",
        help="The MLflow server; default: the running local stack's.",
    ),
]
GpusPerNodeOption = Annotated[int, typer.Option("--gpus-per-node", min=1, help="GPUs of one node.")]
TrainingServersOption = Annotated[
    int | None, typer.Option("--training-servers", min=1, metavar="N", help="Or: N nodes for every job.")
]
SizeOfNodesOption = Annotated[
    int | None,
    typer.Option(
        "--gpus-per-node",
        min=1,
        help="GPUs of one node; default 8. Beside --gpus: these are in such nodes; default: in none.",
        show_default=False,
    ),
]
# A log, and the cluster that it is of.
LogFormatOption = Annotated[str | None, typer.Option("--format", metavar="F", help="The log's format.")]
NodesOption = Annotated[
    Path | None,
    file_option(
        "CSV virtual_cluster,nodes[,from]: with times or dates, or Helios's daily GPU numbers, the virtual "
        "clusters grow and shrink. Or a row a node: node,gpus,gpu_type,cpus,memory_mib,partitions; or what "
        "scontrol show node prints."
    ),
]
OnePoolOption = Annotated[
    int | None, typer.Option("--gpus", min=1, help="Or: one virtual cluster of N GPUs for every job.")
]
SinglesOption = Annotated[Path | None, file_option("Solo profiles (CSV), for colocation.")]
PairsOption = Annotated[Path | None, file_option("Colocated pairs (CSV), for colocation.")]
SpeedUpsOption = Annotated[
    Path | None, file_option("CSV model,gpus,time_us: how elastic jobs scale; else as measured.")
]
MtbfOption = Annotated[
    float | None, typer.Option(metavar="H", help="Failures at random: mean hours between a node's.")
]
PolicySettingOption = Annotated[
    list[str] | None, typer.Option(metavar="NAME=VALUE", help="A setting of the policy; may be repeated.")
]
WorkersOption = Annotated[int, typer.Option(min=1, help="Processes; the result does not depend on it.")]
AllCoresOption = Annotated[
    int | None, typer.Option("--workers", min=1, help="Processes; default: one a core that we may use.")
]
# The window of a log that a replay takes.
ColdOption = Annotated[
    bool,
    typer.Option(
        "--cold",
        help="Start with an empty cluster. Default: jobs from before --start fill it and are not counted.",
    ),
]
StartOption = Annotated[
    str | None, typer.Option("--start", metavar="TIME", help="First submission; naive: the log's zone.")
]
EndOption = Annotated[str | None, typer.Option("--end", metavar="TIME", help="Last submission, included.")]
TimeZoneOption = Annotated[
    str | None, typer.Option("--time-zone", metavar="ZONE", help="Zone of naive times in the log.")
]
AsOfOption = Annotated[
    str | None,
    typer.Option("--as-of", metavar="TIME", help="As if the log ended here (UTC unless it names a zone)."),
]
HoldOutOption = Annotated[
    int, typer.Option("--hold-out-days", min=1, help="Last days of the log that training leaves to the gate.")
]

ReleaseClusterOption = Annotated[
    str | None,
    typer.Option("--cluster", metavar="NAME", help="Whose release; default: the only cluster that has one."),
]
ReleaseVersionOption = Annotated[
    int | None, typer.Option("--version", min=1, help="Default: the challenger.")
]


def lake_or_default(lake: str | None) -> str:
    """Return `lake`, or the default root."""
    from pipeline import settings

    return lake or settings.lake_uri()


def tracking_or_default(tracking_uri: str | None) -> str:
    """Return `tracking_uri`, or the default address."""
    from pipeline import settings

    return settings.tracking_uri(tracking_uri)


def parse_time(text: str | None, option: str) -> datetime | None:
    """Read an ISO date or time; the zone stays as written (none: the source's own zone)."""
    from pipeline.training.windows import read_time

    try:
        return read_time(text)
    except BadInputError as error:
        raise BadInputError(f"{option}: {error}") from None


@dataclass(frozen=True)
class LogWindow:
    """Group of options: the part of a log that a replay takes."""

    start: StartOption = None
    end: EndOption = None
    time_zone: TimeZoneOption = None
    cold: ColdOption = False

    def log(self, jobs: str, source_format: str, rules: "Rules") -> "LogFile":
        """Return that part of a file; jobs before it fill the cluster, unless the rules replay a cold one."""
        from pipeline.replay.log_file import LogFile
        from pipeline.replay.warm_up import warm_up_days_of

        begins, ends = parse_time(self.start, "--start"), parse_time(self.end, "--end")
        return LogFile(
            jobs, source_format, begins, ends, self.time_zone, warm_up_days_of(rules, cold=self.cold)
        )


def energy(
    idle_w: Annotated[float, typer.Option(min=0, metavar="W", help="What an idle node draws.")] = 800.0,
    cooling_factor: Annotated[
        float, typer.Option(min=0, metavar="X", help="Node and its cooling, in multiples of the node.")
    ] = 3.0,
    price_per_kwh: Annotated[
        float, typer.Option(min=0, metavar="P", help="Price of a kWh; an assumption.")
    ] = 0.10,
    co2_kg_per_kwh: Annotated[
        float, typer.Option(min=0, metavar="KG", help="CO2 of a kWh; an assumption.")
    ] = 0.4,
) -> "EnergySettings":
    """Group of options: what sleeping nodes save."""
    from simulator.energy import EnergySettings

    return EnergySettings(idle_w, cooling_factor, price_per_kwh, co2_kg_per_kwh)


@dataclass(frozen=True)
class ReleasedCluster:
    """Group of options: a cluster with releases in a registry."""

    cluster: ReleaseClusterOption = None
    tracking_uri: TrackingOption = None

    def find(self) -> tuple[str, str]:
        """Return (address of MLflow, cluster): the only cluster that has a release, where none is named."""
        from lucid_models.releases.clusters import which_cluster

        tracking = tracking_or_default(self.tracking_uri)
        return tracking, which_cluster(tracking, self.cluster)


def text_of(path: Path | None) -> str | None:
    """Return a path as text."""
    return None if path is None else str(path)
