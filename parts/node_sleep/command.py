"""`lucid nodes`: nodes in use, and which of them may sleep, tried on past days."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast

import typer

from foundation.errors import BadInputError, UnknownNameError
from lucid_cli import node_states
from lucid_cli.option_groups import with_options
from lucid_cli.options import (
    TimeZoneOption,
    energy,
    file_option,
    folder_option,
    parse_time,
    text_of,
)
from lucid_cli.output import JsonFlag, print_facts, print_lines, print_table, progress_reporter, show
from lucid_cli.setting_pairs import named_values
from lucid_cli.variadic import variadic

if TYPE_CHECKING:
    from parts.node_sleep.replay.settings import SleepSettings
    from simulator.energy import EnergySettings

app = typer.Typer(help="Nodes in use, and which of them may sleep.", no_args_is_help=True)

FIGURES = (
    "asleep_mean",
    "wake_ups_per_day",
    "nodes_per_wake_up",
    "utilisation_before_pct",
    "utilisation_after_pct",
    "shortages",
    "node_minutes_short",
)
CURVE = ("buffer", "asleep_mean", "wake_ups_per_day", "nodes_per_wake_up", "shortages", "node_minutes_short")


@app.callback()
def group() -> None:
    """Nodes in use, and which of them may sleep."""


@with_options(energy)
def replay(
    savings: "EnergySettings",
    series: Annotated[Path, file_option("Node counts: CSV time, busy (running, active), total; or .gz.")],
    out: Annotated[Path, folder_option("Receives bins.csv, nodes.png and replay.json.")],
    control: Annotated[
        str,
        typer.Option(
            help="causal: the best of buffers and forecasts on past weeks; buffer: idle nodes beyond the "
            "newest bins; oracle: knows the future; helios-artifact: as published."
        ),
    ] = "causal",
    rules: Annotated[
        str | None,
        typer.Option(
            help="minutes: nodes boot, finished bins only; bins: 10-minute bins as published. Default: bins "
            "for helios-artifact, else minutes."
        ),
    ] = None,
    forecast: Annotated[
        Path | None, file_option("A published forecast: CSV time, forecast; a row a bin.")
    ] = None,
    boot_s: Annotated[float, typer.Option(min=0, help="Seconds until a woken node is usable.")] = 300.0,
    buffer: Annotated[
        int | None,
        typer.Option(min=0, metavar="N", help="Idle nodes left awake; causal: nothing is chosen then."),
    ] = None,
    setting: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=VALUE ...", help="Settings of the control, such as peak_bins=6."),
    ] = None,
    parameters: Annotated[
        str | None,
        typer.Option(
            metavar="CLUSTER", help="Start from the artifact's: venus, earth, saturn, uranus, philly."
        ),
    ] = None,
    gaps: Annotated[
        str | None,
        typer.Option(help="hold the last count, or zero as published; default: zero for helios-artifact."),
    ] = None,
    start: Annotated[
        str | None, typer.Option(metavar="TIME", help="First bin; naive: the file's zone.")
    ] = None,
    end: Annotated[str | None, typer.Option(metavar="TIME", help="End, not included.")] = None,
    time_zone: TimeZoneOption = None,
    virtual_cluster: Annotated[
        str | None, typer.Option(metavar="NAME", help="Nodes of this one only.")
    ] = None,
    boot_failures: Annotated[
        float, typer.Option(metavar="SHARE", help="Share (0..1) of woken nodes that do not come up.")
    ] = 0.0,
    seed: Annotated[int, typer.Option(min=0, help="Of the boots that fail.")] = 0,
    most_wake_ups: Annotated[
        float, typer.Option(min=0, metavar="N", help="Wake-ups a day that a choice may cost.")
    ] = 1.0,
    most_short: Annotated[
        float, typer.Option(min=0, metavar="N", help="Node-minutes a day that jobs may be short of.")
    ] = 30.0,
    as_json: JsonFlag = False,
) -> None:
    """Replay a node series under a control of sleeping nodes, beside plain buffers and an oracle."""
    from parts.node_sleep.replay.choice import SleepLimits
    from parts.node_sleep.replay.series_replay import BootFailures
    from parts.node_sleep.steps.node_replay import replay_nodes
    from parts.node_sleep.steps.replay_request import NodeReplaySettings, SeriesToReplay

    settings = NodeReplaySettings(
        control,
        cast('Literal["minutes", "bins"] | None', one_of("rules", rules, ("minutes", "bins"))),
        sleep_settings(parameters, buffer, setting or []),
        boot_s,
        BootFailures(boot_failures, seed),
        SleepLimits(most_wake_ups, most_short),
        savings,
    )
    source = SeriesToReplay(
        str(series),
        parse_time(start, "--start"),
        parse_time(end, "--end"),
        cast('Literal["hold", "zero"] | None', one_of("treatment of gaps", gaps, ("hold", "zero"))),
        time_zone or "UTC",
        virtual_cluster,
    )
    with progress_reporter() as progress:
        report = replay_nodes(
            source,
            settings,
            out,
            forecast_path=text_of(forecast),
            progress=progress,
        )
    show(report.document, as_json=as_json, people=lambda: _print(report.document, series.name, str(out)))


def one_of(kind: str, name: str | None, known: tuple[str, ...]) -> str | None:
    """Return `name` when it is in the catalogue, or not given."""
    if name is not None and name not in known:
        raise UnknownNameError(kind, name, known)
    return name


def sleep_settings(parameters: str | None, buffer: int | None, pairs: list[str]) -> "SleepSettings | None":
    """Return the settings that options give; None where there is none."""
    from parts.node_sleep.replay.settings import PUBLISHED_SETTINGS, SleepSettings

    if parameters is None and buffer is None and not pairs:
        return None
    if parameters is not None and parameters not in PUBLISHED_SETTINGS:
        raise UnknownNameError("cluster of the artifact", parameters, PUBLISHED_SETTINGS)
    base = PUBLISHED_SETTINGS[parameters] if parameters else SleepSettings()
    values = named_values(pairs, "--setting", "peak_bins=6")
    for name in {"control", "boot_s"} & values.keys():
        raise BadInputError(
            f"--setting {name}={values[name]} has an option of its own.",
            remedy=f"Give --{name.replace('_', '-')}.",
        )
    changed = SleepSettings.from_data({**base.to_data(), **values})
    return changed if buffer is None else replace(changed, buffer_nodes=buffer)


def _print(document: dict[str, Any], name: str, out: str) -> None:
    title = f"{name}, {document['start'][:16]} to {document['end'][:16]}, gaps: {document['gaps']}"
    rows = [
        {"control": document["control"], **document},
        {"control": "oracle", **document["oracle"]},
    ]
    print_table(rows, title=title, columns=("control", *FIGURES))
    settings, energy = document["settings"], document["energy"]
    print_facts(
        {
            "decided by": settings["control"],
            "settings": {name: settings[name] for name in settings if name != "control"},
            "energy saved (kWh)": round(energy["kwh"]),
            "a year (kWh)": round(energy["kwh_per_year"]),
            "money saved": f"{energy['cost']:,.0f} at {energy['price_per_kwh']:g} a kWh",
            "CO2 saved (kg)": f"{energy['co2_kg']:,.0f} at {energy['co2_kg_per_kwh']:g} kg a kWh",
            "written": out,
        }
    )
    curve = [{"buffer": point["buffer_nodes"], **point} for point in document["buffer_curve"]]
    print_table(curve, title="Plain buffers on the same days", columns=CURVE)
    better = document["better_buffers"]
    sizes = f"Plain buffers of {', '.join(map(str, better))} nodes have" if better else "No plain buffer has"
    lines = [f"{sizes} more nodes asleep at fewer wake-ups and fewer node-minutes short."]
    print_lines([document["why"], *lines])


app.command(cls=variadic("--setting"))(replay)
node_states.register(app)
