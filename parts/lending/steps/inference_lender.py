"""The inference side of a replay: servers that may be lent to training, and the load that they serve."""

from dataclasses import dataclass, field

import pandas as pd

from cluster_logs.ingest import read_table_file
from foundation.errors import BadInputError
from parts.lending.replay.inference_service import InferenceService
from parts.lending.replay.jobs_in_workers import JobMix, in_workers
from pipeline.replay.log_companion import BesideLog, LogCompanion
from simulator.workload.workload import Workload


@dataclass(frozen=True)
class InferenceLender(LogCompanion):
    """A file of the load of inference servers (format `inference-load`), and what jobs can make of them.

    `servers`: how many there are, where the file does not say. `loaned_workers_per_worker` None: Lyra's 3 for
    jobs in workers, 1 for all others, for which GPUs on loan are alike. `mixed_speed` None: that of Lyra's
    scenario, 0.7, and 1 in the ideal one. The load begins anew after its end.
    """

    path: str
    servers: int | None = None
    mix: JobMix = field(default_factory=JobMix)
    loaned_workers_per_worker: int | None = None
    mixed_speed: float | None = None

    def beside(self, workload: Workload, jobs: pd.DataFrame, origin: pd.Timestamp) -> BesideLog:
        """Return the service, and the jobs in workers where the log has such."""
        gangs = bool(jobs["workers_max"].notna().any())
        self.check_jobs(in_workers=gangs)
        if gangs:
            workload = in_workers(workload, jobs, self.mix)
        service, remarks = self.service(origin, in_workers=gangs)
        return BesideLog(service, workload, estimated=gangs, remarks=tuple(remarks))

    def check_jobs(self, *, in_workers: bool) -> None:
        """Raise BadInputError for what only jobs in workers can do, where the log has none."""
        if not in_workers and self.mix != JobMix():
            raise BadInputError(
                "Scenarios and shares of jobs are for jobs in workers, and the log has none.",
                remedy="Leave them out, or give a log of jobs in workers.",
            )
        if not in_workers and self.loaned_workers_per_worker not in (None, 1):
            raise BadInputError(
                f"{self.loaned_workers_per_worker} loaned workers for one, but the log has no jobs in "
                "workers: a GPU on loan does what one of their own does.",
                remedy="Leave it out, or give a log of jobs in workers.",
            )

    def service(self, origin: pd.Timestamp, *, in_workers: bool = True) -> tuple[InferenceService, list[str]]:
        """Return the service from `origin` on, second 0, and which rows of the file were left out.

        `in_workers`: whether the log has jobs in workers.
        """
        rows, account = read_table_file(self.path, "inference-load")
        remarks = [f"Rows of the load that are not used: {account.left_out}."] if account.left_out else []
        mixed_speed = self.mixed_speed
        if mixed_speed is None:
            mixed_speed = 1.0 if self.mix.scenario == "ideal" else InferenceService.mixed_speed
        loaned_workers = self.loaned_workers_per_worker
        if loaned_workers is None:
            loaned_workers = InferenceService.loaned_workers_per_worker if in_workers else 1
        service = service_of_load(
            rows.to_pandas(),
            origin,
            servers=self.servers,
            loaned_workers_per_worker=loaned_workers,
            mixed_speed=mixed_speed,
        )
        return service, remarks


def service_of_load(
    load: pd.DataFrame,
    origin: pd.Timestamp,
    *,
    servers: int | None = None,
    loaned_workers_per_worker: int = InferenceService.loaned_workers_per_worker,
    mixed_speed: float = InferenceService.mixed_speed,
) -> InferenceService:
    """Return the service of a table of inference load; its second 0 is `origin`.

    `servers` None: as many as the table says at most; raises BadInputError where it does not.
    """
    if servers is None:
        stated = load["servers"].max()
        if pd.isna(stated):
            raise BadInputError(
                "The load does not say how many inference servers there are.",
                remedy="Say how many (--inference-servers).",
            )
        servers = int(stated)
    times_s = (pd.to_datetime(load["time"], utc=True) - origin).dt.total_seconds()
    return InferenceService(
        servers=servers,
        times_s=tuple(times_s),
        usage=tuple(load["usage"]),
        loaned_workers_per_worker=loaned_workers_per_worker,
        mixed_speed=mixed_speed,
        repeats=True,
    )
