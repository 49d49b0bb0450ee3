"""The dcgm-exporter's series as samples: its metrics, its labels, and what it writes where it knows nothing.

Facts from the exporter's README, its page on metrics and DCGM's field reference. A GPU is the label `UUID`;
a series with `GPU_I_ID` is of a MIG instance. `hpc_job` (the HPC job mapping) or `pod` (Kubernetes) name the
job, one series a job where several share a GPU; a mapping file that says `0` says that there is none. Where
the scrape does not honour labels, Prometheus renames those of the exporter to `exported_...`: `pod` is then
the exporter's own.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from cluster_logs import quarantine as q
from cluster_logs.job_table import TIMESTAMP
from cluster_logs.metrics.gpu_samples import (
    FIRST_US,
    JOB_SEPARATOR,
    LAST_US,
    METRICS,
    NAME,
    SAMPLE_SCHEMA,
    SampleBatch,
    is_mig,
    plausible,
    readable_uuid,
)
from cluster_logs.metrics.prometheus_api import Series
from cluster_logs.metrics.source_account import SourceAccount
from foundation.errors import BadInputError, UnknownNameError


@dataclass(frozen=True)
class SourceMetric:
    """A series' name at the source, and what turns its unit into ours."""

    name: str
    factor: float = 1.0


# Since release 4.9 the exporter's own names and units differ (ratios, bytes): `--metric` names them.
DCGM_METRICS: Mapping[str, SourceMetric] = {
    "gpu_util_pct": SourceMetric("DCGM_FI_DEV_GPU_UTIL"),
    "gpu_mem_util_pct": SourceMetric("DCGM_FI_DEV_MEM_COPY_UTIL"),
    "gpu_mem_mib": SourceMetric("DCGM_FI_DEV_FB_USED"),
    "power_w": SourceMetric("DCGM_FI_DEV_POWER_USAGE"),
    "gr_engine_active": SourceMetric("DCGM_FI_PROF_GR_ENGINE_ACTIVE"),
    "tensor_active": SourceMetric("DCGM_FI_PROF_PIPE_TENSOR_ACTIVE"),
    "dram_active": SourceMetric("DCGM_FI_PROF_DRAM_ACTIVE"),
}
JOB_LABELS = ("hpc_job", "exported_pod", "pod")
_NO_JOB = ("", "0")
_HOST_LABELS = ("Hostname", "hostname", "exported_instance", "instance")
# DCGM's "blank" values start at 2^47 (doubles) and at 0x7ffffff0 and 0x7ffffffffffffff0 (integers); none of
# our metrics comes near.
_LEAST_BLANK = float(0x7FFFFFF0)


@dataclass(frozen=True)
class SeriesRules:
    """How series are read: metric names, the label that names the job (None: the exporter's own), a window.

    Only values with start_s <= time < end_s are taken.
    """

    metrics: Mapping[str, SourceMetric] = field(default_factory=lambda: DCGM_METRICS)
    job_label: str | None = None
    start_s: float = -np.inf
    end_s: float = np.inf

    def __post_init__(self) -> None:
        for column in self.metrics:
            if column not in METRICS:
                raise UnknownNameError("metric of a sample", column, METRICS)


def read_metric_names(texts: Iterable[str]) -> Mapping[str, SourceMetric]:
    """The metrics with some named otherwise: `COLUMN=NAME` or `COLUMN=NAME:FACTOR`, where ours = FACTOR x
    theirs.
    """
    metrics = dict(DCGM_METRICS)
    for text in texts:
        column, _, rest = text.partition("=")
        if column not in METRICS:
            raise UnknownNameError("metric of a sample", column, METRICS)
        name, colon, factor = rest.rpartition(":")
        try:
            scale = float(factor) if colon else 1.0
        except ValueError:  # recording rules have colons in their names
            scale, name = 1.0, rest
        name = name or ("" if colon else rest)
        if not name or not (np.isfinite(scale) and scale > 0):
            raise BadInputError(
                f"{text!r} does not name a metric.", remedy="Use COLUMN=NAME or COLUMN=NAME:FACTOR."
            )
        metrics[column] = SourceMetric(name, scale)
    return metrics


def samples_from_series(
    series: Iterable[Series],
    rules: SeriesRules | None,
    account: SourceAccount,
) -> SampleBatch:
    """Put the metrics of each GPU and moment side by side.

    Where two series of one metric are of the same GPU and moment (two jobs that share it, two scrapers),
    the larger value counts. `account` may hold what the caller has counted already.
    """
    series_rules = rules or SeriesRules()
    columns = {metric.name: column for column, metric in series_rules.metrics.items()}
    gpus: dict[str, int] = {}
    jobs: dict[str, int] = {}
    hosts: dict[str, str | None] = {}
    parts: list[tuple[int, int, int, NDArray[np.int64], NDArray[np.float64]]] = []
    for one in series:
        count = len(one.values)
        account.rows_in += count
        column = columns.get(one.labels.get("__name__", ""))
        if column is None:
            account.skipped[q.OTHER_METRIC] += count
            continue
        uuid = one.labels.get("UUID") or one.labels.get("uuid") or ""
        if one.labels.get("GPU_I_ID") or is_mig(uuid):
            account.skipped[q.MIG_INSTANCE] += count
            continue
        if not readable_uuid(uuid):
            reason = q.UNREADABLE_GPU_UUID if uuid.strip() else q.MISSING_GPU_UUID
            _refuse(account, one, np.ones(count, dtype=bool), reason, "UUID", [uuid] * count)
            continue
        kept = _sift(one, column, series_rules, account)
        times = np.round(one.time_s[kept] * 1e6).astype(np.int64)
        values = np.minimum(
            one.values[kept] * series_rules.metrics[column].factor, _CEILING.get(column, np.inf)
        )
        job = _job_of(one.labels, series_rules.job_label)
        job_code = -1 if job is None else jobs.setdefault(job, len(jobs))
        hosts.setdefault(uuid, next((one.labels[key] for key in _HOST_LABELS if one.labels.get(key)), None))
        parts.append((gpus.setdefault(uuid, len(gpus)), METRICS.index(column), job_code, times, values))
        account.kept += len(times)
    account.check(f"Reading {account.source_file}")
    return SampleBatch(_wide(parts, list(gpus), list(jobs), hosts), account, account.refused())


_CEILING = dict.fromkeys(("gr_engine_active", "tensor_active", "dram_active"), 1.0)


def _job_of(labels: Mapping[str, str], job_label: str | None) -> str | None:
    if job_label is not None:
        job_id = labels.get(f"exported_{job_label}") or labels.get(job_label) or ""
        return None if job_id in _NO_JOB else job_id
    if labels.get("hpc_job"):
        return None if labels["hpc_job"] in _NO_JOB else labels["hpc_job"]
    # Without `exported_...`, a `pod` label is the workload's only where a container stands beside it that is
    # not the exporter's own.
    for label in JOB_LABELS[1:]:
        if label in labels:
            own = label == "pod" and "exporter" in labels[label] + labels.get("container", "")
            return None if own or labels[label] in _NO_JOB else labels[label]
    return None


def _sift(one: Series, column: str, rules: SeriesRules, account: SourceAccount) -> NDArray[np.bool_]:
    """Which values of a series are kept; counts the others."""
    values = one.values * rules.metrics[column].factor
    timed = np.isfinite(one.time_s) & (one.time_s * 1e6 >= FIRST_US) & (one.time_s * 1e6 < LAST_US)
    _refuse(account, one, ~timed, q.IMPLAUSIBLE_TIME, "time", one.time_s)
    with np.errstate(invalid="ignore"):
        inside = timed & (one.time_s >= rules.start_s) & (one.time_s < rules.end_s)
        silent = inside & (np.isnan(one.values) | (one.values >= _LEAST_BLANK) & ~plausible(column, values))
    account.skipped[q.OUTSIDE_WINDOW] += int((timed & ~inside).sum())
    account.skipped[q.NO_VALUE] += int(silent.sum())
    wrong = inside & ~silent & ~plausible(column, values)
    _refuse(account, one, wrong, q.IMPLAUSIBLE_METRIC, one.labels["__name__"], one.values)
    return np.asarray(inside & ~silent & ~wrong, dtype=bool)


def _refuse(
    account: SourceAccount,
    one: Series,
    which: NDArray[np.bool_],
    reason: str,
    column: str,
    values: Sequence[object] | NDArray[np.float64],
) -> None:
    for index in np.flatnonzero(which).tolist():
        row = one.first_row + index if one.rows is None else one.rows[index]
        raw = f"{show_labels(one.labels)} {one.values[index]:g} {one.time_s[index]:.3f}"
        account.refuse(reason, row, raw, column=column, value=values[index])


def show_labels(labels: Mapping[str, str]) -> str:
    """A series as Prometheus writes it: NAME{label="value",...}."""
    inside = ",".join(f'{key}="{value}"' for key, value in sorted(labels.items()) if key != "__name__")
    return f"{labels.get('__name__', '')}{{{inside}}}"


def _wide(
    parts: Sequence[tuple[int, int, int, NDArray[np.int64], NDArray[np.float64]]],
    gpus: Sequence[str],
    jobs: Sequence[str],
    hosts: Mapping[str, str | None],
) -> pa.Table:
    """One row a GPU and moment, by both; GPUs in the order of their names."""
    if not parts:
        return SAMPLE_SCHEMA.empty_table()
    rank = np.argsort(np.argsort(np.array(gpus, dtype=object)))
    lengths = [len(times) for *_, times, _ in parts]
    gpu = np.repeat([rank[part[0]] for part in parts], lengths)
    metric = np.repeat([part[1] for part in parts], lengths)
    job = np.repeat([part[2] for part in parts], lengths)
    time_us = np.concatenate([part[3] for part in parts])
    values = np.concatenate([part[4] for part in parts])
    order = np.lexsort((time_us, gpu))
    gpu, metric, job, time_us, values = (a[order] for a in (gpu, metric, job, time_us, values))
    fresh = np.append(True, (np.diff(gpu) != 0) | (np.diff(time_us) != 0)) if len(gpu) else gpu.astype(bool)
    group = np.cumsum(fresh) - 1
    rows = int(fresh.sum())
    grid = np.full((rows, len(METRICS)), -np.inf)
    np.maximum.at(grid, (group, metric), values)
    grid[np.isneginf(grid)] = np.nan
    names = sorted(gpus)
    host_names = sorted({host for host in hosts.values() if host is not None})
    host_codes = [host_names.index(host) if (host := hosts[name]) is not None else -1 for name in names]
    gpu_codes = gpu[fresh]
    columns: dict[str, pa.Array] = {
        "time": pa.array(time_us[fresh]).cast(TIMESTAMP),
        "host": _names(np.array(host_codes)[gpu_codes], host_names),
        "gpu_uuid": _names(gpu_codes, names),
        "job_ids": _jobs_of_rows(group, job, rows, jobs),
    }
    for index, name in enumerate(METRICS):
        columns[name] = pa.array(grid[:, index], from_pandas=True)
    return pa.Table.from_arrays([columns[name] for name in SAMPLE_SCHEMA.names], schema=SAMPLE_SCHEMA)


def _names(codes: NDArray[np.int64], names: Sequence[str]) -> pa.Array:
    indices = pa.array(codes.astype(np.int32), mask=codes < 0)
    return pa.DictionaryArray.from_arrays(indices, pa.array(list(names), pa.string())).cast(NAME)


def _jobs_of_rows(
    group: NDArray[np.int64], job: NDArray[np.int64], rows: int, jobs: Sequence[str]
) -> pa.Array:
    """The jobs that any series of a row names, in the order of their names."""
    seen = np.unique(np.stack([group[job >= 0], job[job >= 0]], axis=1), axis=0)
    names = list(jobs)
    codes = np.full(rows, -1)
    counts = np.bincount(seen[:, 0], minlength=rows)
    alone = counts[seen[:, 0]] == 1
    codes[seen[alone, 0]] = seen[alone, 1]
    together: dict[tuple[int, ...], int] = {}
    shared = seen[~alone]
    starts = np.flatnonzero(np.append(True, np.diff(shared[:, 0]) != 0)[: len(shared)]).tolist()
    for start, stop in zip(starts, [*starts[1:], len(shared)], strict=False):
        key = tuple(shared[start:stop, 1].tolist())
        if key not in together:
            together[key] = len(names)
            names.append(JOB_SEPARATOR.join(sorted(jobs[code] for code in key)))
        codes[shared[start, 0]] = together[key]
    return _names(codes, names)
