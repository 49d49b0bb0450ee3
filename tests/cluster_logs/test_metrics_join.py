"""Samples joined to jobs, against the definition sample by sample."""

from collections import defaultdict
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cluster_logs.metrics.allocations import ALLOCATION_SCHEMA, allocations_from_labels
from cluster_logs.metrics.gpu_samples import SAMPLE_SCHEMA
from cluster_logs.metrics.join import JoinSettings, join_samples
from foundation.errors import BadInputError

DAY_US = 86_400_000_000
EPOCH = 1_600_041_600  # 2020-09-14 00:00 UTC


def samples_of(rows: list[tuple[float, str, float | None, float | None, float | None]]) -> pa.Table:
    """Rows of (seconds after EPOCH, GPU, utilisation, memory utilisation, memory)."""
    return pa.Table.from_pylist(
        [
            {
                "time": pd.Timestamp(EPOCH + t, unit="s", tz="UTC"),
                "gpu_uuid": gpu,
                "gpu_util_pct": util,
                "gpu_mem_util_pct": mem_util,
                "gpu_mem_mib": mem,
            }
            for t, gpu, util, mem_util, mem in rows
        ],
        schema=pa.schema([f.with_type(pa.string()) if f.name in ("gpu_uuid", "host", "job_ids") else f
                          for f in SAMPLE_SCHEMA]),
    ).cast(SAMPLE_SCHEMA)  # fmt: skip


def allocations_of(rows: list[tuple[str, str, float, float | None]]) -> pa.Table:
    def at(t: float | None) -> pd.Timestamp | None:
        return None if t is None else pd.Timestamp(EPOCH + t, unit="s", tz="UTC")

    return pa.Table.from_pylist(
        [{"job_id": j, "gpu_uuid": g, "start_time": at(a), "end_time": at(b)} for j, g, a, b in rows],
        schema=ALLOCATION_SCHEMA,
    )


def jobs_of(*ids: str) -> pd.DataFrame:
    submit = pd.Timestamp(EPOCH - 86_400, unit="s", tz="UTC")
    return pd.DataFrame({"job_id": list(ids), "submit_time": [submit] * len(ids)})


def naive_join(
    samples: list[tuple[float, str, float | None, float | None, float | None]],
    allocations: list[tuple[str, str, float, float | None]],
    *,
    warm_up_s: float,
    interval_s: float,
    hold_intervals: float,
) -> tuple[dict[tuple[str, int], dict[str, Any]], dict[str, int]]:
    """The definition: one sample after another, one second resolution, all times whole seconds."""
    fates: dict[str, int] = defaultdict(int)
    seen: dict[tuple[str, int], dict[str, Any]] = {}
    # Which second of which GPU is held by which job, and since when without a break.
    horizon = 400
    holders: dict[tuple[str, int], set[str]] = defaultdict(set)
    for job, gpu, start, end in allocations:
        for t in range(int(start), int(horizon if end is None else end)):
            holders[gpu, t].add(job)
    # Allocations that touch are one run, even where the breakpoint lies between two whole seconds.
    since: dict[tuple[str, str, int], int] = {}
    for (gpu, t), jobs in sorted(holders.items(), key=lambda item: (item[0][0], item[0][1])):
        for job in jobs:
            since[job, gpu, t] = since.get((job, gpu, t - 1), t)
    ordered = sorted(samples, key=lambda row: (row[1], row[0]))
    by_gpu: dict[str, list[float]] = defaultdict(list)
    utils: dict[tuple[str, float], float | None] = {}
    for t, gpu, util, *_ in ordered:
        by_gpu[gpu].append(t)
        utils.setdefault((gpu, t), util)
    done: set[tuple[str, float]] = set()
    named = {gpu for _, gpu, start, end in allocations if end is None or end > start}
    for t, gpu, util, mem_util, mem in ordered:
        if (gpu, t) in done:
            fates["repeated"] += 1
            continue
        done.add((gpu, t))
        if util is None and mem_util is None and mem is None:
            fates["silent"] += 1
            continue
        if gpu not in named:
            fates["outside"] += 1
            continue
        jobs = holders.get((gpu, int(t)), set())
        if len(jobs) != 1:
            fates["shared" if jobs else "idle"] += 1
            continue
        (job,) = jobs
        if t < since[job, gpu, int(t)] + warm_up_s:
            fates["warm_up"] += 1
            continue
        fates["joined"] += 1
        later = [other for other in by_gpu[gpu] if other > t]
        until = min(min(later), t + interval_s * hold_intervals) if later else t + interval_s
        until = min(until, ((EPOCH + t) // 86_400 + 1) * 86_400 - EPOCH)
        last = int(t)
        while last < until and holders.get((gpu, last), set()) == {job}:
            last += 1
        held = min(until, last) - t
        # A figure holds until the next sample that says it.
        told = [at for (other, at), figure in utils.items() if other == gpu and at > t and figure is not None]
        util_until = min(min(told), t + interval_s * hold_intervals) if told else t + interval_s
        util_until = min(util_until, ((EPOCH + t) // 86_400 + 1) * 86_400 - EPOCH)
        last = int(t)
        while last < util_until and holders.get((gpu, last), set()) == {job}:
            last += 1
        util_held = min(util_until, last) - t
        row = seen.setdefault(
            (job, int((EPOCH + t) // 86_400)),
            {"held": 0.0, "util": 0.0, "util_held": 0.0, "mem": None, "gpus": set(), "samples": 0},
        )
        row["held"] += held
        row["samples"] += 1
        row["gpus"].add(gpu)
        if util is not None:
            row["util"] += util * util_held
            row["util_held"] += util_held
        if mem is not None:
            row["mem"] = mem if row["mem"] is None else max(row["mem"], mem)
    return seen, fates


def scenario(seed: int) -> tuple[list[Any], list[Any]]:
    """Samples and allocations around midnight, at coarse times: many things happen at one moment."""
    rng = np.random.default_rng(seed)

    def metric() -> float | None:
        return None if rng.random() < 0.2 else round(float(rng.uniform(0, 100)), 3)

    samples = [
        (5 * int(rng.integers(-30, 30)), str(rng.choice(["GPU-a", "GPU-a", "GPU-b", "GPU-z"])), *(
            (None, None, None) if rng.random() < 0.1 else (metric(), metric(), metric())
        ))
        for _ in range(rng.integers(0, 50))
    ]  # fmt: skip
    allocations = []
    for _ in range(rng.integers(0, 6)):
        start, length = 15 * int(rng.integers(-12, 8)), 15 * int(rng.integers(0, 12))
        end = None if rng.random() < 0.2 else start + length
        job, gpu = rng.choice(["j1", "j1", "j2"]), rng.choice(["GPU-a", "GPU-a", "GPU-b", "GPU-c"])
        allocations.append((str(job), str(gpu), start, end))
    return samples, allocations


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(st.integers(0, 2**32 - 1), st.sampled_from([0, 20, 60]), st.sampled_from([1.0, 2.0, 3.0]))
def test_the_join_is_what_its_definition_says(seed: int, warm_up_s: int, hold_intervals: float) -> None:
    samples, allocations = scenario(seed)
    chosen = {"warm_up_s": warm_up_s, "interval_s": 10, "hold_intervals": hold_intervals}
    found, report = join_samples(
        samples_of(samples), allocations_of(allocations), jobs_of("j1", "j2", "j3"), JoinSettings(**chosen)
    )
    wanted, fates = naive_join(samples, allocations, **chosen)
    assert {
        name: getattr(report, name)
        for name in ("joined", "warm_up", "shared", "idle", "outside", "silent", "repeated")
        if getattr(report, name)
    } == {name: count for name, count in fates.items() if count}
    days = (found["known_time"].astype("int64") - 1) // DAY_US
    assert [(job, day) for job, day in zip(found["job_id"], days, strict=True)] == sorted(wanted)
    for (_, row), key in zip(found.iterrows(), sorted(wanted), strict=True):
        one = wanted[key]
        assert row["observed_gpu_s"] == pytest.approx(one["held"])
        assert row["samples"] == one["samples"]
        assert row["gpus_seen"] == len(one["gpus"])
        assert (None if np.isnan(row["gpu_mem_mib"]) else row["gpu_mem_mib"]) == one["mem"]
        if one["util_held"]:
            assert row["gpu_util_pct"] == pytest.approx(one["util"] / one["util_held"])
        else:
            assert np.isnan(row["gpu_util_pct"])
        assert 0 < row["observed_gpu_s"] <= row["expected_gpu_s"] + 1e-9


def test_means_are_over_gpus_and_time_and_memory_is_the_most() -> None:
    rows: list[Any] = []
    for t in range(0, 600, 10):
        rows.append((t, "GPU-a", 90.0, 40.0, 9_000.0))
        if t < 300:  # the second GPU is seen for half of the time
            rows.append((t, "GPU-b", 30.0, 10.0, 11_000.0 if t == 200 else 5_000.0))
    allocations = allocations_of([("j", "GPU-a", 0, 600), ("j", "GPU-b", 0, 600)])
    found, report = join_samples(
        samples_of(rows), allocations, jobs_of("j"), JoinSettings(warm_up_s=0, hold_intervals=1)
    )
    assert report.interval_s == 10
    assert len(found) == 1
    row = found.iloc[0]
    assert row["gpu_util_pct"] == pytest.approx((90 * 600 + 30 * 300) / 900)
    assert row["gpu_mem_mib"] == 11_000
    assert (row["observed_gpu_s"], row["expected_gpu_s"], row["gpus_seen"]) == (900, 1_200, 2)


def test_a_gap_counts_for_nothing() -> None:
    rows = [(t, "GPU-a", 10.0, 1.0, 1.0) for t in range(0, 100, 10)]
    rows += [(t, "GPU-a", 90.0, 1.0, 1.0) for t in range(1_000, 1_100, 10)]
    found, _ = join_samples(
        samples_of(rows), allocations_of([("j", "GPU-a", 0, None)]), jobs_of("j"), JoinSettings(warm_up_s=0)
    )
    # The last sample before the gap holds for two intervals, the last of all for one.
    assert found["observed_gpu_s"].tolist() == [110 + 100]
    assert found["gpu_util_pct"].tolist() == [pytest.approx((10 * 110 + 90 * 100) / 210)]


def test_each_run_of_a_requeued_job_is_that_of_its_own_submission() -> None:
    jobs = pd.DataFrame(
        {"job_id": ["j", "j"], "submit_time": pd.to_datetime([EPOCH - 50, EPOCH + 450], unit="s", utc=True)}
    )
    rows = [(t, "GPU-a", 10.0 if t < 400 else 80.0, 1.0, 1.0) for t in range(0, 1_000, 10)]
    held = allocations_of([("j", "GPU-a", 0, 400), ("j", "GPU-a", 500, 1_000)])
    found, report = join_samples(samples_of(rows), held, jobs)
    assert found["gpu_util_pct"].tolist() == [10.0, 80.0]
    assert found["submit_time"].tolist() == jobs["submit_time"].tolist()
    assert report.warm_up == 12, "each run warms up anew"


def test_a_job_that_the_table_lacks_is_not_lost() -> None:
    rows = [(t, "GPU-a", 10.0, 1.0, 1.0) for t in range(0, 200, 10)]
    found, report = join_samples(samples_of(rows), allocations_of([("x", "GPU-a", 0, None)]), jobs_of("j"))
    assert report.joined == 14
    assert found["job_id"].tolist() == ["x"]
    assert found["submit_time"].isna().all()


def test_what_labels_say_is_who_held_the_gpu() -> None:
    labels = [None, "7", "7", "7,8", "8", "8", None]
    samples = samples_of([(10 * i, "GPU-a", 50.0, 1.0, 1.0) for i in range(7)])
    column = pa.array(labels, pa.string()).cast(SAMPLE_SCHEMA.field("job_ids").type)
    samples = samples.set_column(SAMPLE_SCHEMA.get_field_index("job_ids"), "job_ids", column)
    held = allocations_from_labels(samples, 10.0, 2.0)
    spans = [
        (row["job_id"], row["start_time"].timestamp() - EPOCH, row["end_time"].timestamp() - EPOCH)
        for row in held.to_pylist()
    ]
    assert spans == [("7", 10, 40), ("8", 30, 60)]
    _, report = join_samples(samples, held, jobs_of("7", "8"), JoinSettings(warm_up_s=0))
    assert (report.joined, report.shared, report.idle) == (4, 1, 2)


@pytest.mark.parametrize("wrong", [{"warm_up_s": -1}, {"hold_intervals": 0.5}, {"interval_s": 0}])
def test_settings_that_mean_nothing_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(BadInputError):
        JoinSettings(**wrong)
