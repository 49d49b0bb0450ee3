"""Sleeping nodes on public series of busy nodes: what past weeks chose, beside plain buffers and an oracle.

    python -m experiments.policies.node_series_study --write parts/node_sleep/README.md

Needs the reference data. The fortnight of 1 to 14 December is that of the paper; 17 to 30 November was kept
back when the product's settings were made.
"""

from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from experiments.pages import run_study
from foundation.markdown import markdown_table, number
from foundation.process_lock import scratch_folder
from parts.node_sleep.replay.settings import SleepSettings
from parts.node_sleep.steps.node_replay import replay_nodes
from parts.node_sleep.steps.replay_request import Gaps, NodeReplaySettings, SeriesToReplay

ON_MINUTES = (
    "days",
    "control",
    "nodes asleep",
    "wake-ups a day",
    "node-minutes short",
    "better plain buffers",
)
ON_BINS = ("control", "nodes asleep", "wake-ups a day", "nodes each", "utilisation after (%)")
PLAIN_BUFFERS = (20, 25, 30, 35, 40)  # of the curve that every replay prints


@dataclass(frozen=True)
class Fortnight:
    """Days of a public series, [start, end)."""

    name: str
    file: str
    start: str
    end: str

    def of(self, data: Path) -> SeriesToReplay:
        """Return the series to replay."""
        start, end = (datetime.fromisoformat(day).replace(tzinfo=UTC) for day in (self.start, self.end))
        return SeriesToReplay(str(data / "data" / self.file), start, end)


_PHILLY = "philly/philly_node_sequence.csv.gz"
DECEMBER = Fortnight("Philly, 1-14 December 2017", _PHILLY, "2017-12-01", "2017-12-15")
FORTNIGHTS = (
    DECEMBER,
    Fortnight("Philly, 17-30 November", _PHILLY, "2017-11-17", "2017-12-01"),
    Fortnight("Philly, 3-16 November", _PHILLY, "2017-11-03", "2017-11-17"),
    Fortnight("Philly, 20 October-2 November", _PHILLY, "2017-10-20", "2017-11-03"),
    Fortnight(
        "Earth, 8-21 September 2020",
        "helios/earth_sep_nodes.csv.gz",
        "2020-09-08",
        "2020-09-22",
    ),
)


def tables(data: Path) -> dict[str, str]:
    """Return the tables by the markers that they stand between."""
    return {
        "node sleep on series": markdown_table(ON_MINUTES, _on_minutes(data)),
        "node sleep in bins": markdown_table(ON_BINS, _on_bins(data)),
    }


def _on_minutes(data: Path) -> list[list[str]]:
    rows: list[list[str]] = []
    for fortnight in FORTNIGHTS:
        series = fortnight.of(data)
        chosen = _replayed(series, NodeReplaySettings())
        first = len(rows)
        rows.append(_minutes(f"chosen: {_in_words(chosen['settings'])}", chosen, chosen["better_buffers"]))
        if fortnight is DECEMBER:
            fixed = _replayed(series, NodeReplaySettings(sleep=SleepSettings()))
            rows.append(_minutes("forecast, Helios' settings", fixed, fixed["better_buffers"]))
            curve = {point["buffer_nodes"]: point for point in chosen["buffer_curve"]}
            rows += [_minutes(f"plain buffer of {nodes}", curve[nodes]) for nodes in PLAIN_BUFFERS]
        rows.append(_minutes("oracle, the same buffer", chosen["oracle"]))
        for number_of_row, row in enumerate(rows[first:]):
            row.insert(0, "" if number_of_row else fortnight.name)
    return rows


def _minutes(name: str, figures: dict[str, Any], better: list[int] | None = None) -> list[str]:
    return [
        name,
        number(figures["asleep_mean"], 1),
        number(figures["wake_ups_per_day"], 2),
        number(figures["node_minutes_short"], 0),
        "–" if better is None else ", ".join(map(str, better)) or "none",
    ]


def _on_bins(data: Path) -> list[list[str]]:
    december = DECEMBER.of(data)
    published = data / "reference" / "helios" / "ces_philly_dec_artifact.csv.gz"
    artifact = _replayed(
        replace(december, path=str(published)), NodeReplaySettings("helios-artifact"), str(published)
    )
    rows = [_bins("the artifact's decisions", artifact)]
    treatments: tuple[tuple[Gaps, str], ...] = (("zero", "gaps as zeros"), ("hold", "gaps held"))
    for gaps, words in treatments:
        series = replace(december, gaps=gaps)
        ours = _replayed(series, NodeReplaySettings(rules="bins", sleep=SleepSettings()))
        rows.append(_bins(f"the product's forecast, {words}", ours))
        rows.append(_bins(f"oracle, {words}", ours["oracle"]))
    curve = {point["buffer_nodes"]: point for point in ours["buffer_curve"]}
    rows += [_bins(f"plain buffer of {nodes}, gaps held", curve[nodes]) for nodes in PLAIN_BUFFERS]
    return rows


def _bins(name: str, figures: dict[str, Any]) -> list[str]:
    return [
        name,
        number(figures["asleep_mean"], 1),
        number(figures["wake_ups_per_day"], 2),
        number(figures["nodes_per_wake_up"], 1),
        number(figures.get("utilisation_after_pct"), 2),
    ]


def _in_words(settings: dict[str, Any]) -> str:
    bins, nodes = settings["peak_bins"], settings["buffer_nodes"]
    newest = "the newest bin" if bins == 1 else f"the highest of {bins} bins"
    return f"{settings['control']}, {nodes} nodes beyond {newest}"


def _replayed(
    series: SeriesToReplay, settings: NodeReplaySettings, forecast: str | None = None
) -> dict[str, Any]:
    with scratch_folder("node-series") as folder:
        return replay_nodes(series, settings, folder, forecast_path=forecast).document


if __name__ == "__main__":
    run_study("experiments.policies.node_series_study", __doc__, tables)
