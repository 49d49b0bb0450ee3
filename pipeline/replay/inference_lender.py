"""The inference side of a replay: servers that may be lent to training, and the load that they serve."""

from dataclasses import dataclass, field

import pandas as pd

from cluster_logs.ingest_tables import read_inference_load_file
from foundation.errors import BadInputError
from simulator.loaning.inference_service import InferenceService
from simulator.loaning.jobs_in_workers import JobMix


@dataclass(frozen=True)
class InferenceLender:
    """A file of the load of inference servers (format `inference-load`), and what jobs can make of them.

    `servers`: how many there are, where the file does not say. `mixed_speed` None: that of Lyra's scenario,
    0.7, and 1 in the ideal one. The load begins anew after its end.
    """

    path: str
    servers: int | None = None
    mix: JobMix = field(default_factory=JobMix)
    loaned_workers_per_worker: int = 3
    mixed_speed: float | None = None

    def service(self, origin: pd.Timestamp) -> tuple[InferenceService, list[str]]:
        """Return the service from `origin` on, second 0, and which rows of the file were left out."""
        rows, account = read_inference_load_file(self.path)
        remarks = []
        if account.rows_quarantined or account.rows_skipped:
            reasons = ", ".join(f"{count:,} {name}" for name, count in sorted(account.reasons.items()))
            remarks.append(f"Rows of the load that are not used: {reasons}.")
        mixed_speed = self.mixed_speed
        if mixed_speed is None:
            mixed_speed = 1.0 if self.mix.scenario == "ideal" else InferenceService.mixed_speed
        service = service_of_load(
            rows.to_pandas(),
            origin,
            servers=self.servers,
            loaned_workers_per_worker=self.loaned_workers_per_worker,
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
    """Return the service of a table of inference load, whose second 0 is `origin`.

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
