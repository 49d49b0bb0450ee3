"""A standing queue is estimated exactly as its jobs would be one by one, whatever happens meanwhile."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cluster_logs.errors import BadInputError, NotFoundError
from lucid_models.duration.queue_scorer import QueueScorer
from lucid_models.duration.scorer import DurationScorer
from lucid_models.scoring import scorer_from_document

DAY_S = 86_400.0


@pytest.fixture(scope="module")
def document(duration_model) -> str:
    return json.dumps(duration_model.to_data())


def scorer(document: str) -> DurationScorer:
    loaded = scorer_from_document(json.loads(document))
    assert isinstance(loaded, DurationScorer)
    return loaded


def job(number: int, at_s: float, user: int, name: int, gpus: int) -> dict:
    return {
        "job_id": f"new{number}",
        "virtual_cluster": f"vc{user % 4}",
        "user": None if user == 7 else f"u{user}",
        "name": f"net{name}_lr{name % 3}" if name else None,
        "gpus": gpus,
        "submit_time_s": at_s,
    }


@settings(max_examples=40, deadline=None)
@given(
    steps=st.lists(
        st.tuples(
            st.sampled_from(["submit", "submit", "add unseen", "start", "end", "leave", "look"]),
            st.integers(0, 9),
            st.integers(0, 6),
            st.sampled_from([1, 2, 8, 16]),
            st.floats(0, 5 * DAY_S),
        ),
        max_size=40,
    )
)
def test_a_queue_is_estimated_as_its_jobs_are(document, steps):
    one = scorer(document)
    queue = QueueScorer(one)
    now_s = one.state.now_s
    waiting: dict[str, dict] = {}
    running: dict[str, dict] = {}

    def look() -> None:
        got = dict(zip(queue.job_ids, queue.estimate(now_s), strict=True))
        expected = one.predict([waiting[job_id] for job_id in queue.job_ids], now_s)
        assert set(got) == set(waiting)
        assert list(got.values()) == pytest.approx(expected.tolist(), rel=1e-9)

    for number, (what, user, name, gpus, elapsed_s) in enumerate(steps):
        now_s += elapsed_s
        if what in ("submit", "add unseen"):
            made = job(number, now_s, user, name, gpus)
            if what == "submit":
                one.state.observe_submit(made)
            waiting[made["job_id"]] = made
            queue.add([made])
        elif what == "start" and waiting:
            job_id = min(waiting)
            one.state.observe_start(job_id, now_s)
            running[job_id] = waiting.pop(job_id)
            queue.remove([job_id])
        elif what == "end" and running:
            job_id = min(running)
            one.state.observe_end({**running.pop(job_id), "end_time_s": now_s, "duration_s": elapsed_s})
        elif what == "leave" and waiting:
            job_id = max(waiting)
            del waiting[job_id]
            queue.remove([job_id])
        elif what == "look":
            look()
    look()


def test_a_long_queue_grows_and_empties(document):
    one = scorer(document)
    queue = QueueScorer(one)
    jobs = [job(i, one.state.now_s + i, i % 11, i % 7, 1 + i % 3) for i in range(500)]
    queue.add(jobs)
    now_s = one.state.now_s + 1_000
    assert queue.estimate(now_s) == pytest.approx(one.predict(jobs, now_s), rel=1e-9)
    queue.remove([made["job_id"] for made in jobs[::2]])
    assert len(queue) == 250
    left = {made["job_id"]: made for made in jobs[1::2]}
    expected = one.predict([left[job_id] for job_id in queue.job_ids], now_s)
    assert queue.estimate(now_s) == pytest.approx(expected, rel=1e-9)
    queue.remove(list(queue.job_ids))
    assert queue.estimate(now_s).shape == (0,)


def test_an_id_waits_once(document):
    queue = QueueScorer(scorer(document))
    queue.add([job(1, 0.0, 1, 1, 1)])
    with pytest.raises(BadInputError, match="new1"):
        queue.add([job(1, 0.0, 1, 1, 1)])
    with pytest.raises(NotFoundError, match="new2"):
        queue.remove(["new2"])
