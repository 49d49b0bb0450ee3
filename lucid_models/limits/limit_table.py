"""Jobs of a log as advice on limits sees them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from cluster_logs.job_facts import OWNERS
from foundation.errors import BadInputError
from lucid_models.duration.tables import ends_and_run_times, epoch_seconds
from lucid_models.limits.advisor import CPU_JOBS, GPU_JOBS, LimitJob

Floats = NDArray[np.float64]
TIMES = ("submit_s", "start_s", "end_s", "limit_s")
# What makes two requests of an owner alike.
_REQUEST = ("name", "limit_s", "cpus", "requested_memory_mib", "gpus", "partition", "qos")
# What is read of a job table.
_FACTS = (*OWNERS, "name", "qos", "virtual_cluster", "gpus", "cpus", "requested_memory_mib")
_COARSE = ("limit_s", "cpus", "gpus")


@dataclass(frozen=True)
class LimitTable:
    """Jobs that ended and had a limit, by submission; times in s, arrays of shape (jobs,).

    `skipped`: rows that are not among them, by reason.
    """

    jobs: tuple[LimitJob, ...]
    submit_s: Floats
    start_s: Floats
    end_s: Floats
    limit_s: Floats
    has_gpus: NDArray[np.bool_]
    skipped: Mapping[str, int]

    @property
    def run_s(self) -> Floats:
        """How long each ran."""
        return self.end_s - self.start_s

    @classmethod
    def of(cls, columns: Mapping[str, NDArray[Any]]) -> "LimitTable":
        """Of columns by name: the TIMES, and whichever of user, account, group, name, partition, qos, cpus,
        requested_memory_mib and gpus a log has. Raises BadInputError where no job is left.
        """
        frame = pd.DataFrame({name: np.asarray(values) for name, values in columns.items()})
        run_s = frame["end_s"] - frame["start_s"]
        reasons = {
            "no_limit": ~(frame["limit_s"] > 0),
            "not_ended": run_s.isna(),
            "end_before_start": run_s < 0,
        }
        skipped: dict[str, int] = {}
        for reason, is_refused in reasons.items():
            refused = is_refused.reindex(frame.index)
            if refused.any():
                skipped[reason] = int(refused.sum())
                frame = frame[~refused]
        if frame.empty:
            raise BadInputError(
                f"The log holds no job that ended and had a time limit: {skipped}.",
                remedy="Give a log with the limits that users asked for.",
            )
        frame = frame.sort_values(["submit_s", "start_s"], kind="stable", ignore_index=True)
        has_gpus = (frame["gpus"] > 0).to_numpy() if "gpus" in frame else np.zeros(len(frame), dtype=bool)
        return cls(
            jobs=tuple(_jobs(frame, has_gpus)),
            **{name: frame[name].to_numpy(dtype=np.float64) for name in TIMES},
            has_gpus=has_gpus,
            skipped=skipped,
        )

    @classmethod
    def of_jobs(cls, frame: pd.DataFrame) -> "LimitTable":
        """Of a job table (JOB_SCHEMA); raises BadInputError where no job is left."""
        end_s, run_s = ends_and_run_times(frame)
        limit_s = frame.get("time_limit_s", pd.Series(np.nan, index=frame.index))
        facts = [name for name in _FACTS if name in frame and frame[name].notna().any()]
        return cls.of(
            {
                "submit_s": epoch_seconds(frame, "submit_time"),
                "start_s": end_s - run_s,
                "end_s": end_s,
                "limit_s": pd.to_numeric(limit_s, errors="coerce").to_numpy(dtype=np.float64),
                **{name.replace("virtual_cluster", "partition"): frame[name].to_numpy() for name in facts},
            }
        )


def _jobs(frame: pd.DataFrame, has_gpus: NDArray[np.bool_]) -> list[LimitJob]:
    owner_column = next((name for name in OWNERS if name in frame and frame[name].notna().any()), None)
    owner = pd.factorize(frame[owner_column])[0] if owner_column else np.zeros(len(frame), dtype=np.int64)
    alike, similar = (_codes(frame, owner, names) for names in (_REQUEST, _COARSE))
    groups = np.where(has_gpus, GPU_JOBS, CPU_JOBS).tolist()
    return [
        LimitJob(
            str(row),
            owner_code,
            group,
            submit_s,
            limit_s,
            (("alike", exact), ("similar", coarse), (owner_code, group)),
        )
        for row, (owner_code, group, submit_s, limit_s, exact, coarse) in enumerate(
            zip(
                owner.tolist(),
                groups,
                frame["submit_s"].tolist(),
                frame["limit_s"].tolist(),
                alike,
                similar,
                strict=True,
            )
        )
    ]


def _codes(frame: pd.DataFrame, owner: NDArray[np.int64], names: tuple[str, ...]) -> list[int]:
    keys = [name for name in names if name in frame]
    codes = frame[keys].assign(owner_code=owner).groupby([*keys, "owner_code"], dropna=False, sort=False)
    numbers: list[int] = codes.ngroup().tolist()
    return numbers
