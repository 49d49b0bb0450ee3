"""A job to replay, and what a profiler measured of it."""

from dataclasses import dataclass, replace

from foundation.errors import BadInputError
from simulator.workload.speed_up import Elasticity
from simulator.workload.workers import Workers


@dataclass(frozen=True, slots=True)
class JobProfile:
    """What the profiler measured of a job, a GPU, and the sharing score that follows from it.

    `believed` is what a scheduler goes by instead when it predicts how the job shares its GPUs: GPU
    utilisation (%), memory utilisation (%) and memory (MiB), as they were known at its submission.
    """

    gpu_util_pct: float
    gpu_mem_util_pct: float
    gpu_mem_mib: float
    amp: bool = False
    job_type: str | None = None
    sharing_score: int | None = None  # 0 Tiny, 1 Medium, 2 Jumbo; None: not scored
    believed: tuple[float, float, float] | None = None  # None: what it is

    def __post_init__(self) -> None:
        if self.sharing_score not in (None, 0, 1, 2):
            raise BadInputError(
                f"sharing_score is {self.sharing_score!r} for job type {self.job_type!r}.",
                remedy="Use 0 (Tiny), 1 (Medium), 2 (Jumbo) or None.",
            )

    @property
    def belief(self) -> tuple[float, float, float]:
        """GPU utilisation (%), memory utilisation (%) and memory (MiB) that predictions go by."""
        return self.believed or (self.gpu_util_pct, self.gpu_mem_util_pct, self.gpu_mem_mib)


@dataclass(frozen=True, slots=True)
class Job:
    """One job to replay. `duration_s` is the truth; `estimated_duration_s` is what a policy may believe.

    A CPU job has no GPUs and some `cpus`. `template` says what recurs: jobs with equal templates run the same
    program. A `withdrawn` job never ran in its log: how long it would have run is unknown, and `duration_s` a
    guess. It waits until `cancel_time_s` (infinite: unknown); where a policy would start it before, it leaves
    then, and holds no GPU. Without a `cancel_time_s` it runs for as long as is guessed. After `phase[0]`
    seconds of progress its needs become `phase[1]`: its utilisation is not stable. `long_cold_start`: it
    needs longer before it shows what it consumes (Lucid, section 3.2). With an `elasticity` it can do with
    fewer GPUs than `gpus`, on which it takes `duration_s`; None: it runs on all of them or not at all. With
    `workers` it runs on a number of them instead; `gpus` and `duration_s` (and its estimate) are those of the
    most. `time_limit_s` is what backfilling knows of its run time: what its user asked for. `timed_out`: it
    ran into that, and was stopped; how long it would have run is unknown (its duration is censored).
    `account` and `qos` are what a site's own scheduler counts it by.
    """

    job_id: str
    virtual_cluster: str
    user: str | None
    gpus: int
    submit_time_s: float
    duration_s: float
    estimated_duration_s: float | None = None
    order: int = 0  # breaks ties between jobs that were submitted in the same second
    profile: JobProfile | None = None
    cpus: int = 0
    template: str | None = None
    cancel_time_s: float | None = None
    phase: tuple[float, JobProfile] | None = None
    long_cold_start: bool = False
    elasticity: Elasticity | None = None
    workers: Workers | None = None
    time_limit_s: float | None = None
    withdrawn: bool = False
    timed_out: bool = False
    account: str | None = None
    qos: str | None = None

    def lasting(self, duration_s: float) -> "Job":
        """Return the same job with another true run time (s), as elastic as it was."""
        elasticity = self.elasticity
        if elasticity is not None:
            elasticity = replace(elasticity, service_s=duration_s * elasticity.speed_up.at(self.gpus))
        return replace(self, duration_s=duration_s, elasticity=elasticity)

    def on_at_most(self, gpus: int) -> "Job":
        """Return the same elastic job asking for at most so many GPUs; beliefs grow as its run time."""
        elasticity = self.elasticity
        if elasticity is None or self.gpus <= gpus:
            return self
        slower = elasticity.speed_up.at(self.gpus) / elasticity.speed_up.at(gpus)
        estimate_s, limit_s = self.estimated_duration_s, self.time_limit_s
        return replace(
            self,
            gpus=gpus,
            duration_s=elasticity.service_s / elasticity.speed_up.at(gpus),
            estimated_duration_s=None if estimate_s is None else estimate_s * slower,
            time_limit_s=None if limit_s is None else limit_s * slower,
        )
