"""Cluster Energy Saving (section 4.3): Table 5, Figures 14 and 15 by the artifact's control."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd

from cluster_logs.node_series import NodeSeries
from experiments.reproduction.helios.published import FOLDER, HeliosRow
from parts.node_sleep.replay.control import BIN_S
from parts.node_sleep.replay.demand_window import demand_window
from parts.node_sleep.replay.power_history import energy_saved
from parts.node_sleep.replay.series_replay import replay_bins
from parts.node_sleep.replay.settings import PUBLISHED_SETTINGS
from parts.node_sleep.replay.timeline import SleepFigures, SleepTimeline, figures_of
from simulator.energy import EnergySettings

Measured = dict[tuple[str, str, str], tuple[float, str]]

_SERIES = {
    # cluster: (file, forecast, nodes that the artifact had awake, figure)
    "Philly": (FOLDER / "ces_philly_dec_artifact.csv.gz", "forecast", "active", "Figure 15"),
    "Earth": (
        Path("data") / "helios" / "earth_sep_nodes.csv.gz",
        "artifact_forecast",
        "artifact_active",
        "Figure 14",
    ),
}
_LEAKS = (
    "the artifact's own control and forecast, which reads what comes up to hours later; nodes wake at once"
)
_READ_BACK = "; the series was read back from a drawn figure, where 1.9 % of the bins are interpolated"
_BUFFERS = (20, 30, 40, 45)
_CLUSTERS = ("Venus", "Earth", "Saturn", "Uranus")


def sleeping_rows(data: Path, published: list[HeliosRow]) -> tuple[Measured, list[HeliosRow]]:
    """Return what stands beside published numbers, and further rows: bins that are equal, a plain buffer."""
    measured: Measured = {}
    further: list[HeliosRow] = []
    for cluster, (file, forecast, awake, figure) in _SERIES.items():
        bins = pd.read_csv(data / file)
        settings = PUBLISHED_SETTINGS[cluster.lower()]
        window = demand_window(_series(bins))
        decided = replay_bins(window, settings, published_forecast=bins[forecast].to_numpy(dtype=np.float64))
        remark = _LEAKS + (_READ_BACK if cluster == "Earth" else "")
        for metric, value in _metrics(decided):
            measured["Table 5", "CES", f"{metric}, {cluster}"] = (value, remark)
        equal_pct = float((decided.awake == bins[awake].to_numpy()).mean() * 100)
        further.append(
            HeliosRow(
                figure,
                "CES",
                f"bins in which as many nodes are awake as in the artifact, %, {cluster}",
                100.0,
                equal_pct,
                f"{len(bins):,} bins" + ("; the forecast, too, was read back" if cluster == "Earth" else ""),
            )
        )
        if cluster == "Philly":
            for nodes in _BUFFERS:
                alone = replace(settings, control="buffer", buffer_nodes=nodes)
                further += [
                    HeliosRow(
                        "Table 5",
                        f"a buffer of {nodes} nodes, no forecast",
                        f"{metric}, {cluster}",
                        None,
                        value,
                        "not in the paper: what a forecast must be measured against; causal; gaps are zeros",
                    )
                    for metric, value in _metrics(replay_bins(window, alone))
                ]
        else:
            measured["4.3.3", "", "vanilla wake-ups a day, Helios"] = (
                _vanilla_wake_ups(bins),
                f"nodes sleep and wake with demand, without any buffer; on {cluster} alone" + _READ_BACK,
            )
    asleep = sum(
        row.published or 0.0
        for row in published
        if row.table == "Table 5" and row.metric in [f"nodes asleep, {cluster}" for cluster in _CLUSTERS]
    )
    measured["4.3.3", "", "kWh a year saved, 4 clusters, Helios"] = (
        energy_saved(asleep, 365.0, EnergySettings()).kwh_per_year,
        f"{asleep:g} published nodes asleep x 0.8 kW x 3 (cooling) x 8,760 h",
    )
    return measured, further


def _series(bins: pd.DataFrame) -> NodeSeries:
    start = pd.Timestamp(bins["time"].iloc[0], tz="UTC")
    return NodeSeries(
        start.timestamp(),
        float(BIN_S),
        bins["running"].to_numpy(dtype=np.float64),
        bins["total"].to_numpy(dtype=np.float64),
        np.zeros(len(bins), dtype=np.bool_),
    )


def _metrics(timeline: SleepTimeline) -> list[tuple[str, float]]:
    figures: SleepFigures = figures_of(timeline)
    return [
        ("nodes asleep", figures.asleep_mean),
        ("wake-ups a day", figures.wake_ups_per_day),
        ("nodes per wake-up", figures.nodes_per_wake_up),
        ("node utilisation before %", figures.utilisation_before_pct),
        ("node utilisation after %", figures.utilisation_after_pct),
    ]


def _vanilla_wake_ups(bins: pd.DataFrame) -> float:
    rises = np.diff(bins["running"].to_numpy(dtype=np.float64)) > 0
    return float(rises.sum() / (len(bins) * BIN_S / 86_400))
