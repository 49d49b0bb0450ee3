"""What all runs of a sweep share: jobs, sizes and profiles, frozen in one folder that any worker can read.

    FOLDER/inputs/DIGEST/jobs.parquet, sizes.parquet[, solo.parquet, pairs.parquet], inputs.json

A sweep that goes on tomorrow, or on another machine, replays the very same jobs, whatever happened to the log
or the lake in between.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import pyarrow.parquet as pq

from cluster_logs.lake import Lake
from foundation.errors import BadInputError, NotFoundError
from foundation.progress import Progress, silent
from foundation.run_manifest import frame_sha256
from foundation.site import Site
from foundation.storage import locate, write_frame
from lucid_models.known_profiles import with_own_metrics
from lucid_models.qssf.rolling import rolling_estimates_s
from lucid_models.releases.lifecycle import ReleaseInfo, ReleaseModels, load_release_models, show_release
from pipeline.profiling.profile_store import measured_or_simulated
from pipeline.release.release_settings import own_settings
from pipeline.replay.cluster_events import EVERYONE, ClusterEvents, ClusterSize, lake_sizes
from pipeline.replay.job_types import JobTypes
from pipeline.replay.log_file import LogFile, read_lake_jobs
from pipeline.replay.log_scenario import read_measurements
from pipeline.replay.warm_up import WARM_UP_DAYS
from pipeline.studies.store import digest, read_json, write_json
from pipeline.validation.contenders import learned_until
from simulator.scenario.rules import load_rules
from simulator.workload.job_columns import ARRIVAL

INPUTS_FILE = "inputs.json"
# What a replay may depend on; columns that a source lacks are null.
JOB_COLUMNS = (
    "job_id",
    "virtual_cluster",
    "user",
    "name",
    "gpus",
    "cpus",
    "state",
    "submit_time",
    "start_time",
    "end_time",
    "duration_s",
    "time_limit_s",
    "estimated_duration_s",
    "order_in_vc",
    "job_type",
    "gpu_util_pct",
    "gpu_mem_util_pct",
    "gpu_mem_mib",
    ARRIVAL,
)
EVENTS = ("cpu_cores_per_node", "failure_mtbf_hours", "failure_repair_hours")  # of ClusterEvents
SIZE_COLUMNS = ("virtual_cluster", "from_time", "nodes", "gpus_per_node", "node", "partitions")


@dataclass(frozen=True)
class SweepInputs:
    """The tables that a sweep replays, and how.

    - `sizes`: virtual_cluster, from_time (UTC; NaT: from the beginning), nodes, gpus_per_node.
    - `job_types`: a job without a profile in the log has one "drawn" from `solo` with the run's seed,
      or (with "log") never shares its GPUs.
    - `solo` with a column sharing_score: scores are these labels, and pairs are used in the published order
      (`Rules.labelled_scores`); without it the packing model learns from both tables.
    - `packing_model`: what scores jobs, as `PackingAnalyzeModel.to_data` says it; None: one that learns from
      both tables.
    - `events`: the cluster's cores and failures (the fields named in `EVENTS`); failures are drawn with the
      run's seed.
    - `counted_from`: jobs submitted earlier fill the cluster and are not counted; None: all are counted.
    - `remarks`: sentences for people on what the log lacks.
    """

    jobs: pd.DataFrame
    sizes: pd.DataFrame
    rules: str = "default"
    job_types: JobTypes = "log"
    solo: pd.DataFrame | None = None
    pairs: pd.DataFrame | None = None
    events: ClusterEvents = field(default_factory=ClusterEvents)
    packing_model: Mapping[str, Any] | None = None
    counted_from: datetime | None = None
    remarks: tuple[str, ...] = ()
    sha256: str = field(default="", compare=False)

    def __post_init__(self) -> None:
        load_rules(self.rules)
        if (self.solo is None) != (self.pairs is None):
            raise BadInputError("Colocation needs both measurements.", remedy="Give solo and pair profiles.")
        if self.job_types == "drawn" and self.solo is None:
            raise BadInputError(
                "Job types cannot be drawn without measured profiles.", remedy="Give solo and pair profiles."
            )
        if not self.sha256:
            object.__setattr__(self, "sha256", self._digest())

    @property
    def one_pool(self) -> bool:
        """Whether all jobs share one virtual cluster, whatever the log says."""
        return set(self.sizes["virtual_cluster"]) == {EVERYONE}

    def tables(self) -> dict[str, pd.DataFrame]:
        """Return the tables that are there, by name."""
        frames = {"jobs": self.jobs, "sizes": self.sizes, "solo": self.solo, "pairs": self.pairs}
        return {name: frame for name, frame in frames.items() if frame is not None}

    def choices(self) -> dict[str, Any]:
        """Return what is not a table and changes results, by name."""
        packing = {} if self.packing_model is None else {"packing_model": dict(self.packing_model)}
        counted = {} if self.counted_from is None else {"counted_from": self.counted_from.isoformat()}
        return {
            "rules": self.rules,
            "job_types": self.job_types,
            **{name: getattr(self.events, name) for name in EVENTS},
            **packing,
            **counted,
        }

    def _digest(self) -> str:
        digests = {name: frame_sha256(frame) for name, frame in self.tables().items()}
        return digest({**digests, **self.choices()})


def read_log(
    log: LogFile,
    size: ClusterSize,
    *,
    events: ClusterEvents,
    rules: str = "default",
    job_types: JobTypes = "log",
    measured: tuple[str, str] | None = None,
    progress: Progress = silent,
) -> SweepInputs:
    """Read a log file, the cluster's size and, if given, profiles.

    `measured`: where the measurements of job types lie, alone and in pairs. Raises BadInputError for what
    cannot be used.
    """
    sizes = size.read(log.zone)
    frame, remarks = log.read(progress)
    solo, pairs = (None, None) if measured is None else read_measurements(*measured, load_rules(rules))
    warm = log.part(frame)
    remarks += [] if warm.remark is None else [warm.remark]
    return SweepInputs(
        jobs=_columns(warm.jobs, JOB_COLUMNS),
        sizes=_columns(sizes, SIZE_COLUMNS),
        rules=rules,
        job_types=job_types,
        solo=solo,
        pairs=pairs,
        events=events,
        counted_from=warm.counted_from,
        remarks=tuple(remarks),
    )


def read_lake(
    site: Site,
    *,
    start: datetime | None = None,
    end: datetime | None = None,
    events: ClusterEvents,
    rules: str = "default",
    job_types: JobTypes = "drawn",
    warm_up_days: float = WARM_UP_DAYS,
) -> SweepInputs:
    """Read a cluster's jobs submitted in [start, end), its nodes and its profiles from the lake.

    The jobs of `warm_up_days` before them fill the cluster; 0: it starts empty.

    Without stored profiles the zoo is measured on the simulated GPU, which a remark states. Raises
    NotFoundError when the lake has no jobs or no nodes of the cluster.
    """
    warm = read_lake_jobs(site, start, end, warm_up_days=warm_up_days)
    jobs = with_own_metrics(warm.jobs, Lake(site.lake).read_job_metrics(site.cluster))
    sizes = lake_sizes(site, warm.since, ZoneInfo("UTC"))
    profiles, remarks = measured_or_simulated(site)
    return SweepInputs(
        jobs=_columns(jobs, JOB_COLUMNS),
        sizes=_columns(sizes, SIZE_COLUMNS),
        rules=rules,
        job_types=job_types,
        solo=profiles.solo,
        pairs=profiles.pairs,
        events=events,
        counted_from=warm.counted_from,
        remarks=(*remarks, *([] if warm.remark is None else [warm.remark])),
    )


def _columns(frame: pd.DataFrame, names: Sequence[str]) -> pd.DataFrame:
    """Keep these columns, in this order, as far as they are there."""
    return frame[[name for name in names if name in frame.columns]].reset_index(drop=True)


# -- storing -------------------------------------------------------------------------------------------------


def store_inputs(inputs: SweepInputs, folder_uri: str) -> str:
    """Write the inputs below a sweep's folder and return their URI; the same inputs are written once."""
    uri = f"{folder_uri.rstrip('/')}/inputs/{inputs.sha256[:20]}"
    if read_json(f"{uri}/{INPUTS_FILE}") is not None:
        return uri
    for name, frame in inputs.tables().items():
        write_frame(f"{uri}/{name}.parquet", frame)
    document = {
        "sha256": inputs.sha256,
        "tables": sorted(inputs.tables()),
        **inputs.choices(),
        "remarks": list(inputs.remarks),
    }
    write_json(f"{uri}/{INPUTS_FILE}", document)  # last: inputs without this file are not complete
    return uri


def load_inputs(uri: str) -> SweepInputs:
    """Read what `store_inputs` wrote. Raises NotFoundError when it is not there."""
    document = read_json(f"{uri}/{INPUTS_FILE}")
    if document is None:
        raise NotFoundError(f"There are no inputs of a sweep at {uri}.", remedy="Plan the sweep again.")
    fs, folder = locate(uri)
    frames = {}
    for name in document.pop("tables"):
        with fs.open_input_file(f"{folder}/{name}.parquet") as source:
            frames[name] = pq.read_table(source).to_pandas()
    events = ClusterEvents(**{name: document.pop(name) for name in EVENTS})
    since = document.pop("counted_from", None)
    return SweepInputs(
        **frames,
        **{**document, "events": events, "remarks": tuple(document["remarks"])},
        counted_from=None if since is None else datetime.fromisoformat(since),
    )


_KEY = ["job_id", "submit_time"]  # the lake's of a job


def live_release(site: Site) -> ReleaseInfo:
    """Return the release that is live. Raises NotFoundError when there is none."""
    try:
        return show_release(tracking_uri=site.registry, cluster=site.cluster)
    except NotFoundError as error:
        raise NotFoundError(
            f"Cluster {site.cluster!r} has no live release with models to use.",
            remedy="Replay without them, or publish a release first.",
        ) from error


def settings_of_live(site: Site) -> dict[str, Mapping[str, tuple[Any, ...]]]:
    """Return the settings that the live release gives its policy, as a sweep's `settings` are.

    Raises NotFoundError when no release is live.
    """
    live = live_release(site)
    settings = own_settings(live.policy, live.settings)
    return {live.policy: {name: (value,) for name, value in settings.items()}} if settings else {}


def with_live_beliefs(site: Site, inputs: SweepInputs) -> SweepInputs:
    """Return inputs of a cluster of the lake with what the live release believes of their jobs.

    A job that was submitted before the models had learned is estimated by Helios' rolling estimate, as in the
    gate's warm-up: they have seen how long it ran. Raises NotFoundError when no release is live,
    ReleaseRefusedError for one that does not hold.
    """
    version = int(live_release(site).version)
    release = load_release_models(tracking_uri=site.registry, cluster=site.cluster, version=version)
    last = inputs.jobs["submit_time"].max().to_pydatetime()
    jobs = Lake(site.lake).read_jobs(site.cluster)
    jobs = jobs[jobs["submit_time"] <= last].sort_values(_KEY[::-1], kind="stable")
    estimates, unseen = _estimates(release, jobs, learned_until(release.manifest))
    key = pd.MultiIndex.from_frame(inputs.jobs[_KEY])
    estimated = inputs.jobs.assign(estimated_duration_s=estimates.loc[key].to_numpy(dtype=np.float64))
    by_model = int(unseen.loc[key].sum())
    remark = (
        f"Policies that go by estimates and packing use the models of release {version}: its duration model "
        f"estimates {by_model:,} of {len(key):,} jobs; Helios' rolling estimate stands in for those that it "
        "learned from. What its parts forecast and do is left out."
    )
    return replace(
        inputs,
        jobs=estimated,
        packing_model=release.packing.to_data(),
        remarks=(*inputs.remarks, remark),
        sha256="",
    )


def _estimates(
    release: ReleaseModels, jobs: pd.DataFrame, until: datetime | None
) -> "tuple[pd.Series[Any], pd.Series[Any]]":
    """Return each job's estimate (s), and whether the model made it without having seen the job."""
    unseen = np.ones(len(jobs), dtype=bool)
    if until is not None:
        unseen = (jobs["submit_time"] >= until).to_numpy(dtype=bool)
    estimates = rolling_estimates_s(jobs)
    if unseen.any():
        estimates[unseen] = release.duration.predict_causal(jobs[unseen], earlier=jobs[~unseen])
    index = pd.MultiIndex.from_frame(jobs[_KEY])
    return pd.Series(estimates, index=index), pd.Series(unseen, index=index)
