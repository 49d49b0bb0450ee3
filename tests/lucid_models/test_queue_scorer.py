"""A standing queue is estimated exactly as its jobs would be one by one, whatever happens meanwhile."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foundation.errors import BadInputError, NotFoundError
from lucid_models.additive_scorer import AdditiveScorer, Term
from lucid_models.duration.queue_scorer import QueueScorer
from lucid_models.duration.scorer import DurationScorer
from lucid_models.scoring import scorer_from_document

DAY_S = 86_400.0


@pytest.fixture(scope="module")
def document(duration_model) -> str:
    return json.dumps(duration_model.to_data())


def scorer(document: str) -> DurationScorer:
    """The model, with pairs of what a key's newest job sees in another way than the others."""
    loaded = scorer_from_document(json.loads(document))
    assert isinstance(loaded, DurationScorer)
    names, cuts = loaded.log_head.feature_names, np.array([0.5, 1.5, 4.0, 9.0])
    rng = np.random.default_rng(3)
    gaps = [at for at, name in enumerate(names) if name.endswith(":log_since_submission")]
    last = next(at for at, name in enumerate(names) if name.endswith(":last"))
    pairs = [
        Term(
            (gap, last),
            (cuts, cuts),
            rng.normal(0, 0.3, (7, 7)),
            np.ones((7, 7)),
        )
        for gap in gaps[:2]
    ]
    taken = {feature for term in pairs for feature in term.features}
    known = [
        term for term in loaded.log_head.terms if len(term.features) == 1 or not taken & {*term.features}
    ]
    loaded.log_head = AdditiveScorer(names, [*known, *pairs], loaded.log_head.intercept)
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
            st.sampled_from(
                ["submit", "submit", "add unseen", "start", "end", "leave", "withdraw", "look", "look"]
            ),
            st.integers(0, 9),
            st.integers(0, 6),
            st.sampled_from([1, 2, 8, 16]),
            # Decisions seconds apart, between which little changes, and days apart.
            st.one_of(st.floats(0, 5), st.floats(0, 5), st.floats(0, 5 * DAY_S)),
        ),
        max_size=60,
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
        elif what == "withdraw" and waiting:
            job_id = min(waiting)
            del waiting[job_id]
            one.state.observe_withdrawal(job_id)
            queue.remove([job_id])
        elif what == "leave" and waiting:
            job_id = max(waiting)
            del waiting[job_id]
            queue.remove([job_id])
        elif what == "look":
            look()
    look()


def test_every_decision_of_many_is_as_if_made_from_scratch(document):
    """A long queue at short intervals: what is kept from one decision to the next is never out of date."""
    one = scorer(document)
    queue = QueueScorer(one)
    rng = np.random.default_rng(5)
    now_s, number = one.state.now_s, 0
    waiting: dict[str, dict] = {}
    running: dict[str, dict] = {}
    for decision in range(60):
        now_s += float(rng.choice([0.0, 2.0, 2.0, 300.0, DAY_S]))
        for _ in range(60 if not decision else rng.integers(0, 3)):
            made = job(number, now_s, int(rng.integers(10)), int(rng.integers(7)), int(rng.choice([1, 2, 8])))
            number += 1
            one.state.observe_submit(made)
            queue.add([made])
            waiting[made["job_id"]] = made
        if rng.random() < 0.5:
            job_id = str(rng.choice(list(waiting)))
            one.state.observe_start(job_id, now_s)
            queue.remove([job_id])
            running[job_id] = waiting.pop(job_id)
        if running and rng.random() < 0.5:
            ended = running.pop(next(iter(running)))
            duration_s = float(rng.lognormal(6, 2))
            one.state.observe_end({**ended, "end_time_s": now_s, "duration_s": duration_s})
        fresh = QueueScorer(one)
        fresh.add(waiting.values())
        anew = dict(zip(fresh.job_ids, fresh.estimate(now_s), strict=True))
        kept = dict(zip(queue.job_ids, queue.estimate(now_s), strict=True))
        assert kept == pytest.approx(anew, rel=1e-12)
        assert list(kept.values()) == pytest.approx(
            one.predict([waiting[job_id] for job_id in queue.job_ids], now_s), rel=1e-9
        )


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


def test_a_clock_that_is_set_back_is_followed(document):
    """Time spans become shorter again: nothing that was passed may stay passed."""
    one = scorer(document)
    queue = QueueScorer(one)
    jobs = [job(i, one.state.now_s + 30 * i, i % 11, i % 7, 1 + i % 3) for i in range(80)]
    for made in jobs:
        one.state.observe_submit(made)
    queue.add(jobs)
    for elapsed_s in (5_000.0, 9 * DAY_S, 2_400.0, 600.0, 601.0):
        at_s = one.state.now_s + elapsed_s - 2_400
        assert queue.estimate(at_s) == pytest.approx(one.predict(jobs, at_s), rel=1e-9)
