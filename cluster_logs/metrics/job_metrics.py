"""What each job was measured to need: the table `metrics` of the lake.

A job that ran for days has a row a UTC day, so that reading a day again replaces that day and no other, and
so that what was seen of a job that still runs is there for the jobs that are submitted meanwhile. `fold_days`
makes one row of them. What holds for a job of its own submission (a prediction, a profile) has one row.
"""

import numpy as np
import pandas as pd
import pyarrow as pa

from cluster_logs.job_table import TIMESTAMP, group_by_key
from foundation.errors import BadInputError

RUNNING = "running"  # measured while the job ran
PREDICTED = "predicted"  # from the job's computation graph, before it ran
PROFILED = "profiled"  # measured by the profiler
ORIGINS = (RUNNING, PREDICTED, PROFILED)
PROFILE = ("gpu_util_pct", "gpu_mem_util_pct", "gpu_mem_mib")


def _field(name: str, kind: pa.DataType, meaning: str, unit: str = "", *, nullable: bool = True) -> pa.Field:
    return pa.field(name, kind, nullable=nullable, metadata={"description": meaning, "unit": unit})


JOB_METRICS_SCHEMA = pa.schema(
    [
        _field("cluster", pa.string(), "The cluster that the job ran on.", nullable=False),
        _field("job_id", pa.string(), "The job's id, as in the job table.", nullable=False),
        _field("submit_time", TIMESTAMP, "When it was submitted.", nullable=False),
        _field("user", pa.string(), "Who submitted it."),
        _field("name", pa.string(), "The job's name."),
        _field("job_type", pa.string(), "model/dataset/batch_size/amp, when known."),
        _field("gpu_util_pct", pa.float64(), "Mean GPU utilisation over its GPUs and time.", "%"),
        _field("gpu_mem_util_pct", pa.float64(), "Mean memory utilisation (time share).", "%"),
        _field("gpu_mem_mib", pa.float64(), "Most memory in use on any of its GPUs.", "MiB"),
        _field("power_w", pa.float64(), "Mean power of a GPU.", "W"),
        _field("gpus_seen", pa.int32(), "GPUs that samples spoke of.", "GPUs"),
        _field("samples", pa.int64(), "Samples that were joined to it.", "samples"),
        _field("observed_gpu_s", pa.float64(), "GPU-seconds for which samples held.", "s"),
        _field("coverage", pa.float64(), "Of the GPU-seconds that it held GPUs, the share observed.", "1"),
        _field("origin", pa.string(), "`running`, `predicted` or `profiled`.", nullable=False),
        _field("known_time", TIMESTAMP, "From when on these figures were known.", nullable=False),
        _field("source", pa.string(), "What said so.", nullable=False),
    ]
)


def metrics_of_join(joined: pd.DataFrame, jobs: pd.DataFrame, source: str) -> pd.DataFrame:
    """Rows of the table from what `join_samples` found, with what `jobs` (a job table) say of each.

    Rows of jobs that the table lacks are left out.
    """
    fact_names = ["user", "name", "job_type"]
    facts = jobs.reindex(columns=["job_id", "submit_time", *fact_names]).drop_duplicates(
        ["job_id", "submit_time"]
    )
    facts = facts.astype({"job_id": object})
    metrics = joined[joined["submit_time"].notna()].merge(facts, on=["job_id", "submit_time"], how="inner")
    expected_s, observed_s = metrics["expected_gpu_s"].to_numpy(), metrics["observed_gpu_s"].to_numpy()
    share = np.divide(observed_s, expected_s, out=np.full(len(metrics), np.nan), where=expected_s > 0)
    metrics = metrics.assign(coverage=np.minimum(share, 1.0), origin=RUNNING, source=source)
    return metrics[[name for name in JOB_METRICS_SCHEMA.names if name != "cluster"]].reset_index(drop=True)


def check_origins(metrics: pa.Table) -> None:
    """Raise BadInputError for an origin that is none."""
    unknown = sorted(set(metrics.column("origin").to_pylist()) - set(ORIGINS))
    if unknown:
        raise BadInputError(
            f"Metrics of the origin {unknown[0]!r}.", remedy=f"Use one of: {', '.join(ORIGINS)}."
        )


def merge_metrics(older: pa.Table, newer: pa.Table) -> pa.Table:
    """The rows of one day, one a job and origin, by job, submission and origin.

    Of two rows that were measured while the job ran the one that saw more of it stands, else the newer: a
    part of a day does not displace the whole.
    """
    both = pa.concat_tables([older, newer])
    origin = both.column("origin").combine_chunks().dictionary_encode().indices.to_numpy().astype(np.int64)
    key = group_by_key(both) * (len(ORIGINS) + 1) + origin
    running = np.array([name == RUNNING for name in both.column("origin").to_pylist()], dtype=bool)
    observed = both.column("observed_gpu_s").fill_null(0.0).to_numpy()
    order = np.lexsort((np.arange(len(key)), np.where(running, observed, 0.0), key))
    last = np.append(np.diff(key[order]) != 0, True)[: len(order)]
    winners = both.take(pa.array(np.sort(order[last])))
    return winners.sort_by([("submit_time", "ascending"), ("job_id", "ascending"), ("origin", "ascending")])


def fold_days(metrics: pd.DataFrame) -> pd.DataFrame:
    """What was known of each job (and origin) after each of its days: rows by job and `known_time`.

    Means are weighted by the time observed, memory is the most so far, samples add up; `coverage` is of the
    days that have rows. The last row of a job is all that is known of it.
    """
    by = ["job_id", "submit_time", "origin"]
    frame = metrics.sort_values([*by, "known_time"], kind="stable", ignore_index=True)
    if not frame.duplicated(by).any():
        return frame
    job = frame[by].ne(frame[by].shift()).any(axis=1).cumsum()
    weight = frame["observed_gpu_s"].fillna(0.0)
    folded = frame.copy()
    for name in ("gpu_util_pct", "gpu_mem_util_pct", "power_w"):
        known_weight = weight.where(frame[name].notna(), 0.0)
        total = (known_weight * frame[name].fillna(0.0)).groupby(job).cumsum()
        held = known_weight.groupby(job).cumsum()
        folded[name] = (total / held).where(held > 0, frame[name])
    expected = (weight / frame["coverage"]).where(frame["coverage"] > 0, 0.0)
    folded["observed_gpu_s"] = weight.groupby(job).cumsum().where(frame["observed_gpu_s"].notna())
    expected_s = expected.groupby(job).cumsum()
    folded["coverage"] = (weight.groupby(job).cumsum() / expected_s).where(expected_s > 0, frame["coverage"])
    folded["gpu_mem_mib"] = frame.groupby(job)["gpu_mem_mib"].cummax().groupby(job).ffill()
    folded["gpus_seen"] = frame.groupby(job)["gpus_seen"].cummax()
    folded["samples"] = frame.groupby(job)["samples"].cumsum()
    alone = ~frame.duplicated(by, keep=False)  # what has one row stays as it is, to the last bit
    folded.loc[alone] = frame.loc[alone]
    return folded


def last_known(metrics: pd.DataFrame) -> pd.DataFrame:
    """One row a job and origin: all that is known of it."""
    folded = fold_days(metrics)
    kept = folded.drop_duplicates(["job_id", "submit_time", "origin"], keep="last")
    return kept.reset_index(drop=True)
