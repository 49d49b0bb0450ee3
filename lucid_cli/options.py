"""Options that several commands share."""

import json
from datetime import datetime
from pathlib import Path
from typing import Annotated

import typer

from foundation.errors import BadInputError

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
GpusPerNodeOption = Annotated[int, typer.Option("--gpus-per-node", min=1, help="GPUs of one node.")]
# What is known of inference servers beside their load.
ServersOption = Annotated[
    int | None, typer.Option("--servers", min=1, help="Inference servers, where their load does not say.")
]
FullLoadOption = Annotated[
    float | None,
    typer.Option(
        "--full-load",
        metavar="RATE",
        help="Requests a second that occupy all inference servers; default of a file: 65 % is its mean.",
    ),
]
RatesColumnOption = Annotated[
    str,
    typer.Option("--rates-column", metavar="NAME", help="Column of a file of inference load with its rates."),
]
ZerosAreGapsOption = Annotated[
    bool, typer.Option("--zeros-are-gaps", help="A load of exactly zero was not measured.")
]
# The window of a log that a replay takes.
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
# What sleeping nodes save (simulator.node_sleep.energy).
IdleWOption = Annotated[float, typer.Option(min=0, metavar="W", help="What an idle node draws.")]
CoolingFactorOption = Annotated[
    float, typer.Option(min=0, metavar="X", help="Node and its cooling, in multiples of the node.")
]
PricePerKwhOption = Annotated[float, typer.Option(min=0, metavar="P", help="Price of a kWh; an assumption.")]
Co2PerKwhOption = Annotated[float, typer.Option(min=0, metavar="KG", help="CO2 of a kWh; an assumption.")]
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

    return tracking_uri or settings.tracking_uri()


def parse_time(text: str | None, option: str) -> datetime | None:
    """Read an ISO date or time; the zone stays as written (none: the source's own zone)."""
    from pipeline.training.windows import read_time

    try:
        return read_time(text)
    except BadInputError as error:
        raise BadInputError(f"{option}: {error}") from None


def existing_file(path: Path, option: str) -> Path:
    """Return `path` when it is a file that can be read."""
    if not path.is_file():
        raise BadInputError(f"{option} {str(path)!r} is not a file.", remedy="Check the path.")
    return path


def setting_value(text: str) -> object:
    """Read a setting's value: JSON where it can be read as such (1, 0.5, true), else text."""
    try:
        value: object = json.loads(text)
    except json.JSONDecodeError:
        return text
    return value


def named_values(pairs: list[str]) -> dict[str, object]:
    """Read NAME=VALUE pairs; raises BadInputError for what is none."""
    settings: dict[str, object] = {}
    for pair in pairs:
        name, sign, value = pair.partition("=")
        if not sign or not name:
            raise BadInputError(f"{pair!r} is not NAME=VALUE.", remedy="Write for example sharing=apathetic.")
        settings[name] = setting_value(value)
    return settings
