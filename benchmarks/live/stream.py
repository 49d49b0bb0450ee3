"""A stream of jobs as values: made by a seed, or read from a file.

The world is one small cluster's users and their habits; `history` are days of its past, `stream` is what the
benchmark replays. What is copied from the field (Helios, SC '21; Lucid, ASPLOS '23, section 2.2): run times
are heavy-tailed; nine jobs in ten belong to a family of similar ones, whose names differ in numbers; 63 % of
jobs take one GPU, a tenth a whole node; 62 % complete, the others fail (mostly shorter ones) or are
cancelled; users' appetites follow a power law; sweeps arrive at once; few set a time limit, and then a
generous one. How much runs of one family differ (`NOISE`) goes by Alibaba's clusters, where run times are
foretold to within 25 % for 78 % of jobs (Weng et al., NSDI '22, as Lucid cites it): a deviation of 0.18 in
the logarithm, of which we take nearly twice.
"""

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path

import numpy as np

from cluster_logs.synthetic.cluster_profiles import find_profile
from cluster_logs.synthetic.population import largest_job_gpus
from foundation.errors import BadInputError, NotFoundError

COMPLETED, FAILED, CANCELLED = "COMPLETED", "FAILED", "CANCELLED"
ENDS = (COMPLETED, FAILED, CANCELLED)
GPUS_PER_NODE = 8
# Run times in seconds, some four hundred times shorter than in Helios: the mean must stand out of a
# resolution of one second, the longest must not decide a run of minutes alone.
MEDIAN_S, LEAST_S, MOST_S = 6.5, 1.5, 120.0
# Standard deviations of the logarithm: between families, and between runs of one.
BETWEEN, NOISE = 1.2, 0.33
SIZES: Mapping[int, float] = {1: 0.63, 2: 0.10, 4: 0.17, 8: 0.10}
# Larger jobs run longer (Helios, section 3.2.2): their medians relative to that of one GPU.
LONGER: Mapping[int, float] = {1: 1.0, 2: 1.3, 4: 1.5, 8: 1.5}
_RECURRING = 0.90
_LIMITED = 0.15  # share of users who set time limits
_FAILED_OF_UNSUCCESSFUL = (0.6, 0.2)  # of those shorter than their family's median, and of the longer ones
_SWEEP = (0.6, 16)  # a sweep goes on with this chance, and ends there
_SWEEP_GAP_S = 0.4
_MODELS = ("resnet", "bert", "gpt", "vit", "unet", "dlrm", "ppo", "lstm", "gan", "yolo", "mae", "clip")
_KNOBS = ("lr{0}_seed{1}", "bs{0}_fold{1}", "run{0}v{1}", "wd{0}_{1}", "exp{0}_try{1}")


@dataclass(frozen=True)
class VirtualCluster:
    """Whole nodes, and the load that its users bring: GPU time asked for / GPU time there is."""

    name: str
    nodes: int
    load: float


VIRTUAL_CLUSTERS = (
    VirtualCluster("vision", 3, 1.10),
    VirtualCluster("language", 2, 1.00),
    VirtualCluster("robots", 1, 0.90),
)
HOUR_S = 3_600
SPAN_S = 210.0  # in which the jobs of a stream are submitted


@dataclass(frozen=True)
class StreamJob:
    """A job to submit `offset_s` after the stream's begin; it runs for `duration_s` and ends as `ends`."""

    offset_s: float
    user: str
    name: str
    gpus: int
    virtual_cluster: str
    duration_s: float
    time_limit_min: int | None = None
    ends: str = COMPLETED


@dataclass(frozen=True)
class Family:
    """A user's recurring work."""

    user: str
    virtual_cluster: str
    model: str
    knob: str
    gpus: int
    score: float  # standard normal: how long its jobs run among those of its size
    weight: float
    limited: bool


@dataclass(frozen=True)
class Session:
    """Jobs that were submitted in one stretch, `begin_s` after the first day's midnight."""

    begin_s: float
    jobs: tuple[StreamJob, ...]


@dataclass(frozen=True)
class World:
    """Users with habits, on some virtual clusters; everything follows from `seed`."""

    seed: int
    virtual_clusters: tuple[VirtualCluster, ...]
    families: tuple[Family, ...]

    def stream(self, seed: int, *, span_s: float = SPAN_S, least_jobs: int = 0) -> list[StreamJob]:
        """Return a stream of `span_s`, or longer until it has `least_jobs`, in the order of submission."""
        while True:
            jobs = self._jobs(np.random.default_rng([self.seed, 1, seed]), span_s)
            if len(jobs) >= least_jobs:
                return jobs
            span_s *= 1.1

    def history(self, days: int, *, sessions: int = 4, span_s: float = 30.0) -> list[Session]:
        """Return `days` of the past, the oldest first, in other draws than any `stream`.

        A day is some busy stretches of `span_s`, at times of the day at which people work; the idle hours
        between them hold nothing to learn from.
        """
        hours = np.array(find_profile("helios-venus").hours)
        found = []
        for day in range(days):
            rng = np.random.default_rng([self.seed, 2, day])
            begins_s = np.sort(rng.choice(24, sessions, replace=False, p=hours / hours.sum())) * float(HOUR_S)
            begins_s += rng.random(sessions) * (HOUR_S - span_s) + day * 24 * HOUR_S
            found += [Session(begin_s, tuple(self._jobs(rng, span_s))) for begin_s in begins_s.tolist()]
        return found

    def _jobs(self, rng: np.random.Generator, span_s: float) -> list[StreamJob]:
        jobs: list[StreamJob] = []
        for cluster in self.virtual_clusters:
            families = [one for one in self.families if one.virtual_cluster == cluster.name]
            weights = np.array([one.weight for one in families])
            wanted_gpu_s = cluster.load * cluster.nodes * GPUS_PER_NODE * span_s
            asked_gpu_s = 0.0
            while asked_gpu_s < wanted_gpu_s:
                family = families[rng.choice(len(families), p=weights / weights.sum())]
                room_gpu_s = wanted_gpu_s - asked_gpu_s
                for job in _sweep(family, rng, span_s):
                    jobs.append(job)
                    asked_gpu_s += job.gpus * job.duration_s
                    room_gpu_s -= job.gpus * job.duration_s
                    if room_gpu_s <= 0:
                        break
        return sorted(jobs, key=lambda job: (job.offset_s, job.user, job.name))


def make_world(
    seed: int, virtual_clusters: Sequence[VirtualCluster] = VIRTUAL_CLUSTERS, *, users_per_node: int = 2
) -> World:
    """Return the users of a small cluster: at least two a virtual cluster, four to eight families each."""
    rng = np.random.default_rng([seed, 0])
    families: list[Family] = []
    number = 0
    for cluster in virtual_clusters:
        for rank in range(1, 1 + max(2, users_per_node * cluster.nodes)):
            number += 1
            user = f"user{number:02d}"
            limited = bool(rng.random() < _LIMITED)
            for _ in range(int(rng.integers(4, 9))):
                sizes = [size for size in SIZES if size <= largest_job_gpus(cluster.nodes)]
                shares = np.array([SIZES[size] for size in sizes])
                families.append(
                    Family(
                        user=user,
                        virtual_cluster=cluster.name,
                        model=str(rng.choice(_MODELS)),
                        knob=str(rng.choice(_KNOBS)),
                        gpus=int(rng.choice(sizes, p=shares / shares.sum())),
                        score=float(rng.standard_normal()),
                        weight=float(rng.lognormal(0.0, 0.5) / rank**0.7),
                        limited=limited,
                    )
                )
    return World(seed, tuple(virtual_clusters), tuple(families))


def _sweep(family: Family, rng: np.random.Generator, span_s: float) -> list[StreamJob]:
    """One job, or several of one family shortly after each other."""
    goes_on, longest = _SWEEP
    count = min(int(rng.geometric(1.0 - goes_on)), longest)
    start_s = float(rng.random() * span_s)
    setting = int(rng.integers(1, 100))
    if rng.random() >= _RECURRING:  # a program new to the log
        family = replace(
            family, model=f"try{rng.choice(_MODELS)}", knob="{0}_{1}", score=float(rng.standard_normal())
        )
    jobs = []
    for position in range(count):
        noise = float(rng.standard_normal())
        median_s = LONGER[family.gpus] * MEDIAN_S * np.exp(BETWEEN * family.score)
        run_s = float(np.clip(median_s * np.exp(NOISE * noise), LEAST_S, MOST_S))
        jobs.append(
            StreamJob(
                offset_s=round(min(start_s + position * _SWEEP_GAP_S, span_s), 2),
                user=family.user,
                name=f"{family.model}_{family.knob.format(setting, position)}",
                gpus=family.gpus,
                virtual_cluster=family.virtual_cluster,
                duration_s=round(run_s, 1),
                time_limit_min=_limit_min(run_s) if family.limited else None,
                ends=_end(family.gpus, noise, rng),
            )
        )
    return jobs


def _end(gpus: int, noise: float, rng: np.random.Generator) -> str:
    completed = find_profile("helios-venus").completed
    if rng.random() < completed[max(size for size in completed if size <= gpus)]:
        return COMPLETED
    return FAILED if rng.random() < _FAILED_OF_UNSUCCESSFUL[noise > 0] else CANCELLED


def _limit_min(run_s: float) -> int:
    """A round limit that leaves at least as much again."""
    return next(limit for limit in (1, 2, 5, 10) if limit * 60 >= 2 * run_s)


# Files --------------------------------------------------------------------------------------------------

_NEEDED = ("offset_s", "user", "name", "gpus", "virtual_cluster", "duration_s")


def write_stream(jobs: Sequence[StreamJob], path: Path) -> None:
    """Write a stream as a CSV file that `read_stream` reads."""
    path.write_text(stream_text(jobs), encoding="utf-8")


def stream_text(jobs: Sequence[StreamJob]) -> str:
    """Return a stream as the text of such a file."""
    text = io.StringIO()
    writer = csv.DictWriter(text, [field.name for field in fields(StreamJob)], lineterminator="\n")
    writer.writeheader()
    writer.writerows(asdict(job) for job in jobs)
    return text.getvalue()


def read_stream(path: Path, *, time_scale: float = 1.0) -> list[StreamJob]:
    """Read a CSV file of jobs, in the order of submission; times in it are divided by `time_scale`.

    Columns: offset_s (also offset, submit_time), user, name (absent: the user's), gpus, virtual_cluster,
    duration_s (also duration) and, if known, time_limit_min and ends. Raises NotFoundError without the file,
    BadInputError that names the row of a value that cannot be used.
    """
    if not time_scale > 0:
        raise BadInputError(f"A time scale of {time_scale!r}.", remedy="Give a number above 0.")
    try:
        with path.open(encoding="utf-8", newline="") as file:
            rows = [_with_known_names(row) for row in csv.DictReader(file)]
    except FileNotFoundError:
        raise NotFoundError(f"There is no stream {path}.") from None
    if not rows:
        raise BadInputError(f"{path} holds no job.")
    jobs = [_job(row, f"{path}, row {number}", time_scale) for number, row in enumerate(rows, 1)]
    first_s = min(job.offset_s for job in jobs)
    shifted = [replace(job, offset_s=round(job.offset_s - first_s, 3)) for job in jobs]
    return sorted(shifted, key=lambda job: job.offset_s)


_ALSO = {
    "offset": "offset_s",
    "submit_time": "offset_s",
    "submit_time_s": "offset_s",
    "duration": "duration_s",
}


def _with_known_names(row: Mapping[str, str]) -> dict[str, str]:
    named = {_ALSO.get(key, key): value for key, value in row.items() if key is not None}
    return {"name": named.get("user", ""), **named}


def _job(row: Mapping[str, str], where: str, time_scale: float) -> StreamJob:
    if missing := [name for name in _NEEDED if not row.get(name)]:
        raise BadInputError(f"{where} lacks {', '.join(missing)}.", remedy=f"Needed: {', '.join(_NEEDED)}.")
    try:
        offset_s, duration_s = float(row["offset_s"]), float(row["duration_s"])
        gpus, limit = int(row["gpus"]), row.get("time_limit_min") or None
        job = StreamJob(
            offset_s=offset_s / time_scale,
            user=row["user"],
            name=row["name"],
            gpus=gpus,
            virtual_cluster=row["virtual_cluster"],
            duration_s=round(duration_s / time_scale, 3),
            time_limit_min=None if limit is None else int(limit),
            ends=row.get("ends") or COMPLETED,
        )
    except ValueError as error:
        raise BadInputError(f"{where} cannot be used: {error}.") from None
    if not (0 <= job.offset_s < np.inf and 0 < job.duration_s < np.inf and job.gpus >= 1):
        raise BadInputError(
            f"{where}: offset {offset_s:g} s, run time {duration_s:g} s, {gpus} GPUs.",
            remedy="Give an offset from 0 s on, a run time above 0 s and at least one GPU.",
        )
    if job.ends not in ENDS:
        raise BadInputError(f"{where} ends as {job.ends!r}.", remedy=f"One of: {', '.join(ENDS)}.")
    return job


def sized_for(jobs: Sequence[StreamJob], *, load: float = 1.0) -> tuple[VirtualCluster, ...]:
    """Return virtual clusters on which these jobs make about this load, each able to run its largest job."""
    span_s = max(max(job.offset_s for job in jobs), 1.0)
    found = []
    for name in sorted({job.virtual_cluster for job in jobs}):
        here = [job for job in jobs if job.virtual_cluster == name]
        gpu_s = sum(job.gpus * job.duration_s for job in here)
        wanted = round(gpu_s / (load * span_s * GPUS_PER_NODE))
        nodes = max(wanted, -(-max(job.gpus for job in here) // GPUS_PER_NODE), 1)
        found.append(VirtualCluster(name, nodes, gpu_s / (nodes * GPUS_PER_NODE * span_s)))
    return tuple(found)
