"""Jobs in workers, made of a log: Lyra's four scenarios and its studies of shares of jobs (section 7).

- basic: elastic jobs and those that may run on loaned servers are as the log says; none is heterogeneous.
- advanced: basic, and the log's heterogeneous jobs may run on own and loaned servers at once.
- heterogeneous: these alone; no job may run on loaned servers only.
- ideal: all jobs may run on loaned servers and on both kinds at once, and scale up to twice their least.
"""

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Literal, get_args

import numpy as np

from foundation.errors import BadInputError, UnknownNameError
from simulator.workload.job import Job
from simulator.workload.job_columns import flags, floats
from simulator.workload.workers import Workers
from simulator.workload.workload import Workload

if TYPE_CHECKING:
    import pandas as pd

LoanScenario = Literal["basic", "advanced", "heterogeneous", "ideal"]
LOAN_SCENARIOS: tuple[LoanScenario, ...] = get_args(LoanScenario)
LARGEST_ERROR = 0.25  # of an estimate, relative (Lyra, section 7.4)
GROWTH = 2  # times its least workers that a job can use which a study makes elastic (section 7.1)
Curve = Callable[[int, int], tuple[float, ...]]  # least and most workers -> speed-ups of a tuned job


@dataclass(frozen=True)
class JobMix:
    """Which jobs can do what. Shares (0 to 1) are of the jobs, by the log's draws; None: as the log says.

    `elastic_share` makes the drawn jobs elastic up to twice their least workers, and no other;
    `estimate_error_share` makes the drawn jobs' estimates wrong by up to a quarter, all others being true;
    `loss` is the share of a further worker that scaling costs (section 7.4: 0.2).
    """

    scenario: LoanScenario = "basic"
    elastic_share: float | None = None
    heterogeneous_share: float | None = None
    checkpoint_share: float = 0.0
    estimate_error_share: float = 0.0
    loss: float = 0.0

    def __post_init__(self) -> None:
        if self.scenario not in LOAN_SCENARIOS:
            raise UnknownNameError("scenario", str(self.scenario), LOAN_SCENARIOS)
        for field in fields(self)[1:]:
            share = getattr(self, field.name)
            if share is not None and not 0 <= share <= 1:
                raise BadInputError(f"{field.name} is {share!r}.", remedy="Use 0 to 1.")


def in_workers(
    workload: Workload, frame: "pd.DataFrame", mix: JobMix | None = None, *, tuned: Curve | None = None
) -> Workload:
    """Return the jobs of a log of jobs in workers as such, each believed to run as long as it does.

    `frame` is the job table that the workload was made of. `tuned` gives the curves of jobs whose batch size
    and learning rate follow their workers. Raises BadInputError where the table does not say what a job's
    workers are, or has no draws that a share asks for.
    """
    mix = mix or JobMix()
    rows = np.arange(len(workload)) if workload.rows is None else workload.rows
    gpus_each, least, most = (
        floats(frame, name)[rows] for name in ("gpus_per_worker", "workers_min", "workers_max")
    )
    if not np.isfinite(gpus_each + least + most).all():
        job = workload.jobs[int(np.flatnonzero(~np.isfinite(gpus_each + least + most))[0])]
        raise BadInputError(
            f"The log does not say in which workers job {job.job_id!r} runs.",
            remedy="Replay a log of jobs in workers (format lyra-csv).",
        )

    def drawn(name: str, share: float | None, otherwise: np.ndarray) -> np.ndarray:
        if share is None:
            return otherwise
        draws = floats(frame, name)[rows]
        if share > 0 and np.isnan(draws).any():
            raise BadInputError(f"A job of the log has no {name}, and a share of {share} is asked for.")
        return np.asarray(draws < share)

    none, ideal = np.zeros(len(rows), dtype=bool), mix.scenario == "ideal"
    loanable = (flags(frame, "loanable")[rows] & (mix.scenario != "heterogeneous")) | ideal
    heterogeneous = drawn("heterogeneous_draw", mix.heterogeneous_share, flags(frame, "heterogeneous")[rows])
    heterogeneous = (heterogeneous & (mix.scenario != "basic")) | ideal
    if mix.elastic_share is not None or ideal:
        grows = drawn("elastic_draw", mix.elastic_share, ~none)
        most = np.where(grows, GROWTH * least, least)
    wrong = drawn("estimate_draw", mix.estimate_error_share, none)
    error = np.where(wrong, LARGEST_ERROR * floats(frame, "estimate_error_draw")[rows], 0.0)
    keeps = drawn("checkpoint_draw", mix.checkpoint_share, none)
    jobs = tuple(
        _in_workers(
            job,
            Workers(
                gpus_each=int(each),
                least=int(fewest),
                most=int(limit),
                loanable=bool(loan),
                heterogeneous=bool(mixed),
                checkpoints=bool(checkpoints),
                loss=mix.loss,
                speed_ups=None if tuned is None or limit == fewest else tuned(int(fewest), int(limit)),
            ),
            1.0 + wrong_by,
        )
        for job, each, fewest, limit, loan, mixed, checkpoints, wrong_by in zip(
            workload.jobs,
            gpus_each.tolist(),
            least.tolist(),
            most.tolist(),
            loanable.tolist(),
            heterogeneous.tolist(),
            keeps.tolist(),
            error.tolist(),
            strict=True,
        )
    )
    return replace(workload, jobs=jobs)


def _in_workers(job: Job, workers: Workers, estimate: float) -> Job:
    """Return a job with the run time of the least of its workers; `estimate` is a multiple of it."""
    duration_s = job.duration_s * workers.least / workers.rate(workers.most)
    return replace(
        job,
        gpus=workers.gpus,
        duration_s=duration_s,
        estimated_duration_s=duration_s * estimate,
        workers=workers,
    )
