"""Jobs by column: what is made of jobs and of columns is the same, and no job is made unless asked for."""

import pickle
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from foundation.errors import BadInputError
from simulator.cluster.changes import SizeChange
from simulator.cluster.spec import ClusterSpec
from simulator.workload.columns import JobSequence, Texts, WorkloadColumns
from simulator.workload.job import Job, JobProfile
from simulator.workload.skip_rules import BIGGER_THAN_VIRTUAL_CLUSTER, UNKNOWN_VIRTUAL_CLUSTER
from simulator.workload.workload import Workload

times = st.floats(0, 1e6)
texts = st.one_of(st.none(), st.sampled_from(["a", "b", "", "ä"]))


@st.composite
def some_jobs(draw: st.DrawFn) -> tuple[Job, ...]:
    """Any jobs, in the order of submission."""
    made = []
    for order in range(draw(st.integers(0, 8))):
        withdrawn = draw(st.booleans())
        made.append(
            Job(
                str(order),
                draw(st.sampled_from(["x", "y", "z"])),
                draw(texts),
                draw(st.integers(1, 64)),
                draw(times),
                draw(times),
                draw(st.none() | times),
                order,
                draw(st.none() | st.just(JobProfile(10.0, 5.0, 100.0))),
                cpus=draw(st.integers(0, 4)),
                template=draw(texts),
                cancel_time_s=draw(st.none() | times) if withdrawn else None,
                long_cold_start=draw(st.booleans()),
                time_limit_s=draw(st.none() | st.just(float("inf")) | times),
                withdrawn=withdrawn,
                timed_out=draw(st.booleans()),
                account=draw(texts),
                qos=draw(texts),
            )
        )
    return tuple(sorted(made, key=lambda job: (job.submit_time_s, job.order)))


@given(some_jobs())
def test_columns_give_back_the_jobs_that_they_were_made_of(jobs: tuple[Job, ...]) -> None:
    columns = WorkloadColumns.of(jobs)
    assert columns.jobs() == jobs
    assert JobSequence(columns=columns) == jobs == JobSequence(jobs)
    assert pickle.loads(pickle.dumps(JobSequence(jobs))) == jobs
    chosen = np.arange(len(jobs))[::2]
    assert JobSequence(columns=columns).taken(chosen) == JobSequence(jobs).taken(chosen) == jobs[::2]


@given(some_jobs(), st.integers(0, 4), st.none() | times)
def test_what_fits_is_the_same_job_by_job(
    jobs: tuple[Job, ...], nodes: int, grows_at_s: float | None
) -> None:
    cluster = ClusterSpec({"x": nodes, "y": 1}, 8)
    changes = (
        [] if grows_at_s is None else [SizeChange(grows_at_s, "x", 6), SizeChange(grows_at_s + 5, "x", 2)]
    )
    fitting = Workload(jobs, {}).that_fit(cluster, changes)

    def most(job: Job) -> int:
        if job.virtual_cluster == "y":
            return 8
        later = [6] if grows_at_s is not None and job.submit_time_s < grows_at_s + 5 else []
        later += [] if grows_at_s is None else [2]
        now = [nodes] if grows_at_s is None or job.submit_time_s < grows_at_s else []
        return 8 * max(now + later)

    known = [job for job in jobs if job.virtual_cluster != "z"]
    assert fitting.jobs == tuple(job for job in known if job.gpus <= most(job))
    left_out = {
        UNKNOWN_VIRTUAL_CLUSTER: len(jobs) - len(known),
        BIGGER_THAN_VIRTUAL_CLUSTER: len(known) - len(fitting),
    }
    assert fitting.skipped == {rule: count for rule, count in left_out.items() if count}


@given(some_jobs(), st.data())
def test_beliefs_are_cut_to_limits_and_stand_for_unknown_run_times(
    jobs: tuple[Job, ...], data: st.DataObject
) -> None:
    asked = data.draw(st.lists(times | st.just(float("nan")), min_size=len(jobs), max_size=len(jobs)))
    for job, belief_s, given_s in zip(
        jobs, Workload(jobs, {}).with_estimates(np.array(asked)).jobs, asked, strict=True
    ):
        if np.isnan(given_s):
            assert belief_s == replace(job, estimated_duration_s=None)
            continue
        limit_s = float("inf") if job.time_limit_s is None else job.time_limit_s
        within = min(given_s, limit_s)
        runs_s = within if job.withdrawn else job.duration_s
        assert belief_s == replace(job, estimated_duration_s=within, duration_s=runs_s)


def test_no_job_is_made_until_one_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    jobs = tuple(Job(str(i), "x", None, 1, float(i), 60.0) for i in range(3))
    workload = Workload(JobSequence(columns=WorkloadColumns.of(jobs)), {})

    def refuse(_: WorkloadColumns) -> tuple[Job, ...]:
        raise AssertionError("a job was made")

    with monkeypatch.context() as patch:
        patch.setattr(WorkloadColumns, "jobs", refuse)
        told = workload.that_fit(ClusterSpec({"x": 1})).with_estimates(np.ones(3)).in_one_virtual_cluster("y")
        assert len(told) == 3
        assert told.largest_gpus(ClusterSpec({"y": 1})) == {"y": 1}
        assert told.columns.virtual_cluster.tolist() == ["y"] * 3
    assert told.jobs[2] == Job("2", "y", None, 1, 2.0, 60.0, 1.0, 2)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"gpus": 0}, "cannot be replayed"),
        ({"duration_s": float("inf")}, "cannot be replayed"),
        ({"duration_s": -1.0}, "has a duration of -1"),
        ({"cancel_time_s": 5.0}, "is not withdrawn"),
        ({"submit_time_s": 0.0}, "breaks the order"),
        ({"order": -1, "submit_time_s": 1.0}, "breaks the order"),
    ],
)
def test_a_job_that_cannot_be_replayed_is_named(change: dict[str, float], says: str) -> None:
    good = Job("good", "x", None, 1, 1.0, 60.0)
    with pytest.raises(BadInputError, match=f"'bad'.*{says}"):
        Workload((good, replace(replace(good, job_id="bad"), **change)), {})  # type: ignore[arg-type]


@given(st.lists(texts))
def test_texts_that_recur_are_kept_once(values: list[str | None]) -> None:
    kept = Texts.of(values)
    assert kept.tolist() == values
    assert sorted(kept.names) == sorted({value for value in values if value is not None})
    for name, rows in kept.groups():
        assert rows.tolist() == [i for i, value in enumerate(values) if value == name]
