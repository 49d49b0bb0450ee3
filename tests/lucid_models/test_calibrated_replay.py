"""A log that the calibration lives through at once, beside the same log event by event."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lucid_models.duration.calibration import RunTimeCalibration, calibration_to_data
from lucid_models.duration.job_replay import JobStream
from lucid_models.duration.log_replay import offsets_at_submissions

DAY_S = 86_400.0


def stream(seed: int, jobs: int, first: int = 0) -> tuple[JobStream, np.ndarray]:
    """Jobs of some owners and virtual clusters, and what is said of them; some have no start, no end, or an
    id that came before.
    """
    rng = np.random.default_rng(seed)
    submit_s = np.sort(rng.integers(0, int(2 * DAY_S), jobs)).astype(np.float64) + first * 1_000 * DAY_S
    start_s = submit_s + rng.choice([0.0, 30.0, 4_000.0], jobs)
    duration_s = np.round(np.exp(rng.normal(6.5, 2.5, jobs)))
    end_s = start_s + duration_s
    duration_s[rng.random(jobs) < 0.1] = np.nan
    start_s[rng.random(jobs) < 0.1] = np.nan
    end_s[rng.random(jobs) < 0.1] = np.nan
    ids = [str(1_000 * first + number) for number in range(jobs)]
    for number in np.flatnonzero(rng.random(jobs) < 0.05).tolist():
        ids[number] = ids[number // 2]
    p50 = rng.normal(6.0, 2.0, jobs)
    said = np.stack([p50, p50 + rng.exponential(1.0, jobs)], axis=1)
    clusters = [str(name) for name in rng.choice(["", "a", "b"], jobs)]
    owners = [str(name) for name in rng.choice(["", "u", "v", "w"], jobs)]
    facts = np.empty((jobs, 0))
    return JobStream(ids, [()] * jobs, facts, submit_s, start_s, end_s, duration_s, clusters, owners), said


def one_by_one(calibration: RunTimeCalibration, log: JobStream, said: np.ndarray) -> np.ndarray:
    """The same by the calibration that a scheduler keeps."""
    from lucid_models.duration.log_replay import END, START, _events

    offsets = np.full(said.shape, np.nan)
    for at_s, kind, job in zip(*_events(log, said, np.inf), strict=True):
        job_id, owner = log.job_ids[job], (log.virtual_clusters[job], log.owners[job])
        if kind == START:
            calibration.started(job_id, at_s)
        elif kind == END and np.isnan(log.duration_s[job]):
            calibration.withdrawn(job_id)
        elif kind == END:
            calibration.ended(job_id, at_s, log.duration_s[job])
        else:
            calibration.submitted(job_id, at_s, *owner, said[job].tolist())
            offsets[job] = calibration.offsets(*owner)
    return offsets


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10_000), st.integers(0, 120))
def test_a_log_at_once_is_the_log_event_by_event(seed: int, jobs: int) -> None:
    alone, together = RunTimeCalibration(), RunTimeCalibration()
    for part in range(2):
        log, said = stream(seed + part, jobs, part)
        before = together
        offsets, together = offsets_at_submissions(before, log, said)
        np.testing.assert_allclose(offsets, one_by_one(alone, log, said), rtol=0, atol=1e-9)
    one, other = calibration_to_data(alone), calibration_to_data(together)
    assert one.keys() == other.keys()
    for name, values in one.items():
        if name.startswith("running"):
            continue
        if isinstance(values, list) and values and isinstance(values[0], float):
            np.testing.assert_allclose(other[name], values, rtol=1e-9, atol=1e-9, err_msg=name)
        elif isinstance(values, float):
            assert other[name] == pytest.approx(values, abs=1e-12), name
        else:
            assert other[name] == values, name
    assert sorted(one["running"]) == sorted(other["running"])
