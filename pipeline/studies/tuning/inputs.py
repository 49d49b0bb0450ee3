"""What every trial replays, frozen: the lake as it was known at the end of training.

    STUDY/inputs/                   a lake of its own: jobs with their estimates, nodes, profiles
    STUDY/inputs/forecast.parquet   throughput bins and their forecasts, if the lake has throughput
    STUDY/inputs/inputs.json        written last; what the log did not say

What parts of the release go by lies there, too (`TunedPart.freeze`).

A trial reads nothing else, so it sees neither the held-out window nor what happened to the lake since. The
estimates and forecasts are those of models that learned until the first block begins, each with what was
known when it was needed: as the gate replays a release that learned until its window begins.
"""

import hashlib
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from cluster_logs.job_table import FINISHED_STATES, to_digest
from cluster_logs.lake import Lake
from foundation.errors import BadInputError, NotFoundError
from foundation.progress import Progress, silent
from foundation.run_manifest import frame_sha256
from foundation.site import Site
from foundation.storage import read_bytes, write_frame
from lucid_models.duration.model import DurationSettings, WorkloadEstimateModel
from lucid_models.known_profiles import with_known_profiles
from lucid_models.qssf.rolling import rolling_estimates_s
from lucid_models.throughput.model import ThroughputPredictModel
from lucid_models.throughput.scorer import SERIES, ThroughputForecasts
from lucid_models.training_data import as_known_at
from pipeline.profiling.profile_store import measured_or_simulated, write_profile_set
from pipeline.replay.job_types import JobTypes
from pipeline.replay.warm_up import there_at
from pipeline.studies.store import read_json, write_json
from pipeline.studies.tuning.tuned_part import tuned_parts
from pipeline.validation.forecast_beliefs import SeriesForecast, believed_throughput, forecast_series
from pipeline.validation.held_out_data import HeldOutWindow, read_held_out
from pipeline.validation.replay_inputs import ReplayInputs, replay_inputs
from profiler_jobs.profile_table import ProfileSet

VALIDATION = "validation"
SHORTEST_HISTORY = timedelta(days=1)  # before the first block: warm-up, and something to learn from


@dataclass(frozen=True)
class TuningWindows:
    """The replayed windows by name, in the order of time, and until when the log was read."""

    search: Mapping[str, HeldOutWindow]
    validation: HeldOutWindow
    until: datetime

    @property
    def start(self) -> datetime:
        """When the first block begins: no model has learned from what comes after."""
        return next(iter(self.search.values())).start

    @property
    def warm_up_start(self) -> datetime:
        """The first submission that may be replayed."""
        return next(iter(self.search.values())).warm_up_start

    def window(self, name: str) -> HeldOutWindow:
        """A block, or the validation window."""
        return self.validation if name == VALIDATION else self.search[name]

    def to_data(self) -> dict[str, Any]:
        """The windows as plain values."""
        blocks = {**self.search, VALIDATION: self.validation}
        return {
            "until": self.until.isoformat(),
            "blocks": {
                name: [window.warm_up_start.isoformat(), window.start.isoformat(), window.end.isoformat()]
                for name, window in blocks.items()
            },
        }

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> "TuningWindows":
        """The windows that `to_data` described."""
        windows = {
            name: HeldOutWindow(*map(datetime.fromisoformat, times)) for name, times in data["blocks"].items()
        }
        validation = windows.pop(VALIDATION)
        return cls(windows, validation, datetime.fromisoformat(data["until"]))


def tuning_windows(
    first: datetime,
    until: datetime,
    *,
    search_days: float,
    validation_days: float,
    blocks: int,
    warm_up_days: float,
) -> TuningWindows:
    """Divide the days before `until` (the end of training), of a log that begins at `first`.

    Raises BadInputError when the log is too short.
    """
    for name, value, least, most in (
        ("search_days", search_days, 1, 365),
        ("validation_days", validation_days, 1, 365),
        ("blocks", blocks, 1, 50),
        ("warm_up_days", warm_up_days, 0, 30),
    ):
        if not least <= value <= most:
            raise BadInputError(f"{name} is {value!r}.", remedy=f"Use {least} to {most}.")
    validated_from = until - timedelta(days=validation_days)
    start = validated_from - timedelta(days=search_days)
    if start - SHORTEST_HISTORY < first:
        has = (until - first) / timedelta(days=1)
        raise BadInputError(
            f"Tuning needs {search_days + validation_days + 1:g} days of log before the held-out window "
            f"({search_days:g} to search on, {validation_days:g} to validate on, 1 before them); there are "
            f"{has:.1f}.",
            remedy="Use fewer search or validation days, hold out fewer days, or ingest more of the log.",
        )
    warm_up = timedelta(days=warm_up_days)
    edges = [start + (validated_from - start) * i / blocks for i in range(blocks + 1)]
    search = {
        f"block {i + 1}": HeldOutWindow(max(first, edges[i] - warm_up), edges[i], edges[i + 1])
        for i in range(blocks)
    }
    return TuningWindows(search, HeldOutWindow(validated_from - warm_up, validated_from, until), until)


Floats = NDArray[np.float64]

INPUTS_FILE, FORECAST_FILE = "inputs.json", "forecast.parquet"
# Raise it when the same lake gives other inputs, or the same trial other figures.
INPUTS_VERSION = 2
HISTORY_JOBS = 500_000  # as in training: older jobs add little


@dataclass(frozen=True)
class KnownLake:
    """A cluster's tables as they were known at a moment; what the log says later is not in them."""

    cluster: str
    until: datetime
    jobs: pd.DataFrame
    nodes: pd.DataFrame  # virtual_cluster, nodes, gpus_per_node, date (None: from the beginning)
    profiles: ProfileSet
    throughput: pd.DataFrame | None
    remarks: tuple[str, ...]
    metrics: pd.DataFrame  # of running jobs, day by day; maybe empty
    of_parts: Mapping[str, pd.DataFrame] = field(default_factory=dict)  # what they go by, by their fields

    @property
    def node_count(self) -> int:
        """The nodes of the whole cluster, by the newest counts."""
        dated = self.nodes["date"].dropna()
        newest = self.nodes["date"].isna() if dated.empty else self.nodes["date"] == dated.max()
        return int(self.nodes.loc[newest, "nodes"].sum())

    def sha256(self) -> str:
        """SHA-256 of all that is known."""
        frames = [
            to_digest(self.jobs),
            self.nodes.assign(date=self.nodes["date"].astype(str)),
            self.profiles.solo,
            self.profiles.pairs,
            *([] if self.throughput is None else [self.throughput]),
            *([] if self.metrics.empty else [self.metrics]),
            *self.of_parts.values(),
        ]
        digests = [frame_sha256(frame) for frame in frames]
        return hashlib.sha256("\n".join([str(INPUTS_VERSION), *digests]).encode()).hexdigest()


def read_known_lake(site: Site, until: datetime, *, parts: Collection[str] = ()) -> KnownLake:
    """Read what was known of a cluster at `until`, with what the parts of these fields go by.

    Raises NotFoundError without jobs or nodes, and without what a part needs.
    """
    lake = Lake(site.lake)
    jobs = as_known_at(lake.read_jobs(site.cluster, None, until), until)
    profiles, remarks = measured_or_simulated(site)
    first = jobs["submit_time"].min().to_pydatetime()
    return KnownLake(
        site.cluster,
        until,
        jobs,
        _known_nodes(lake, site.cluster, first, until),
        profiles,
        _known_throughput(lake, site.cluster, until),
        tuple(remarks),
        lake.read_job_metrics(site.cluster, until),
        {part.field: part.known(site, until) for part in tuned_parts() if part.field in parts},
    )


def _known_throughput(lake: Lake, cluster: str, until: datetime) -> pd.DataFrame | None:
    """The submissions of the bins that had ended by `until`; None when there are none."""
    try:
        bins = lake.read_throughput(cluster, None, until)
    except NotFoundError:
        return None
    ended = bins["bin_start"] + pd.to_timedelta(bins["bin_s"], unit="s") <= until
    ended_bins = bins.loc[ended, ["bin_start", "bin_s", *SERIES, "origin"]].reset_index(drop=True)
    return None if ended_bins.empty else ended_bins


def _known_nodes(lake: Lake, cluster: str, first: datetime, until: datetime) -> pd.DataFrame:
    """The counts at the first job, and those of the days from then on that had begun by `until`."""
    days = lake.node_dates(cluster)
    at_first = lake.read_nodes(cluster, first.date())
    if at_first.empty and days:
        at_first = lake.read_nodes(cluster, days[0])  # the counts begin after the log
    parts = [at_first.assign(date=None)]
    parts += [
        lake.read_nodes(cluster, day).assign(date=day)
        for day in days
        if first.date() < day and datetime(day.year, day.month, day.day, tzinfo=until.tzinfo) < until
    ]
    return pd.concat(parts, ignore_index=True)


def freeze(
    snapshot: KnownLake,
    windows: TuningWindows,
    folder_uri: str,
    *,
    duration: DurationSettings,
    progress: Progress = silent,
) -> tuple[str, ...]:
    """Write the frozen lake, once; returns what the log did not say.

    `duration` says how the estimates are learned.
    """
    marker = f"{folder_uri}/{INPUTS_FILE}"
    stored = read_json(marker)
    if stored is not None:
        return tuple(stored["remarks"])
    estimates, estimate_remarks = _estimates_s(snapshot, windows, duration, progress)
    jobs = _with_running_jobs(snapshot).assign(estimated_duration_s=estimates)
    submit = pd.to_datetime(jobs["submit_time"], utc=True)
    in_windows = (submit >= windows.warm_up_start) | there_at(jobs, windows.warm_up_start)
    replayed = jobs[in_windows & (jobs["gpus"] >= 1)]
    lake = Lake(folder_uri)
    lake.write_jobs(snapshot.cluster, replayed.drop(columns="cluster").reset_index(drop=True))
    lake.write_nodes(snapshot.cluster, snapshot.nodes)
    write_profile_set(Site(lake=folder_uri, cluster=snapshot.cluster), snapshot.profiles)
    lake.write_job_metrics(snapshot.cluster, snapshot.metrics.drop(columns="cluster"))
    remarks = [*snapshot.remarks, *estimate_remarks, *_store_forecast(snapshot, windows, folder_uri)]
    for part in tuned_parts():
        if part.field in snapshot.of_parts:
            rows = snapshot.of_parts[part.field]
            remarks += part.freeze(rows, snapshot.cluster, folder_uri, windows.start)
    write_json(marker, {"remarks": remarks})
    return tuple(remarks)


def _with_running_jobs(snapshot: KnownLake) -> pd.DataFrame:
    """Jobs still running at `until` occupy their GPUs for as long as they had by then."""
    jobs = snapshot.jobs
    start = jobs["start_time"] if jobs["start_time"].notna().any() else jobs["submit_time"]
    so_far_s = (pd.Timestamp(snapshot.until) - pd.to_datetime(start, utc=True)).dt.total_seconds()
    unfinished = ~jobs["state"].isin([str(state) for state in FINISHED_STATES])
    running = jobs["duration_s"].isna() & unfinished & (so_far_s > 0)
    return jobs.assign(duration_s=jobs["duration_s"].where(~running, so_far_s))


def _estimates_s(
    snapshot: KnownLake, windows: TuningWindows, duration: DurationSettings, progress: Progress
) -> tuple[Floats, tuple[str, ...]]:
    """Each job's estimate: the model's from the first block on, Helios' rolling one before (warm-up)."""
    jobs = with_known_profiles(snapshot.jobs, snapshot.metrics)
    estimates = rolling_estimates_s(jobs)
    fresh = (pd.to_datetime(jobs["submit_time"], utc=True) >= windows.start).to_numpy(dtype=bool)
    history = as_known_at(jobs[~fresh], windows.start).iloc[-HISTORY_JOBS:]
    try:
        model = WorkloadEstimateModel(duration).fit(history, known_until=windows.start, progress=progress)
    except BadInputError as error:
        return estimates, (f"Estimates are Helios' rolling ones, no duration model: {error}",)
    estimates[fresh] = model.predict_causal(jobs[fresh], earlier=jobs[~fresh], progress=progress)
    return estimates, ()


def _store_forecast(snapshot: KnownLake, windows: TuningWindows, folder_uri: str) -> tuple[str, ...]:
    """Forecast every known bin by a model that learned until the first block begins."""
    bins = snapshot.throughput
    if bins is None:
        return ("The lake has no throughput: the sharing strategy has no forecast to go by.",)
    ends = bins["bin_start"] + pd.to_timedelta(bins["bin_s"], unit="s")
    try:
        models = {
            series: ThroughputPredictModel().fit(bins[ends <= windows.start].reset_index(drop=True), series)
            for series in SERIES
        }
    except BadInputError as error:
        return (f"The sharing strategy has no throughput forecast to go by: {error}",)
    forecasts = ThroughputForecasts({series: model.scorer for series, model in models.items()})
    parts = [
        pd.DataFrame({"series": name, "counted": forecast.counted, "forecast": forecast.forecast}).assign(
            first_bin_s=forecast.first_bin_s, bin_s=forecast.bin_s, lead_bins=forecast.lead_bins
        )
        for name, forecast in forecast_series(forecasts, bins).items()
    ]
    write_frame(f"{folder_uri}/{FORECAST_FILE}", pd.concat(parts, ignore_index=True))
    return ()


def read_block(
    folder_uri: str, cluster: str, window: HeldOutWindow, *, job_types: JobTypes, seed: int
) -> ReplayInputs:
    """Read one window from the frozen lake; its scenario has the frozen estimates and forecast.

    Raises BadInputError when no job was submitted in it.
    """
    inputs = replay_inputs(
        read_held_out(Site(lake=folder_uri, cluster=cluster), window), job_types=job_types, seed=seed
    )
    series = _read_forecast(folder_uri)
    if series is None:
        return inputs
    forecast = believed_throughput(series, inputs.origin.to_pydatetime(), window.end)
    return replace(inputs, scenario=replace(inputs.scenario, forecast=forecast))


def _read_forecast(folder_uri: str) -> dict[str, SeriesForecast] | None:
    data = read_bytes(f"{folder_uri}/{FORECAST_FILE}")
    if data is None:
        return None
    forecasts = {}
    for name, rows in pq.read_table(pa.BufferReader(data)).to_pandas().groupby("series", sort=True):
        first_bin_s, bin_s, lead_bins = (
            int(rows[column].iloc[0]) for column in ("first_bin_s", "bin_s", "lead_bins")
        )
        counted, forecast = (rows[column].to_numpy(np.float64) for column in ("counted", "forecast"))
        forecasts[str(name)] = SeriesForecast(first_bin_s, bin_s, lead_bins, counted, forecast)
    return forecasts
