"""Update intervals of the duration model: which fits they need, and that no fit sees the future."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from experiments.reproduction.model_updates import TRAINING_DAYS, left_out
from experiments.reproduction.trace import synthesize_trace
from experiments.updates.update_intervals import DAY_S, History, Lesson, learn, lessons
from lucid_models.duration.model import epoch_seconds

pytestmark = pytest.mark.slow


def test_each_fit_is_made_once_and_reaches_as_far_as_the_longest_interval_needs():
    todo = lessons(0.0, 20 * DAY_S, ["never", "weekly", "daily"])
    assert [lesson.at_s / DAY_S for lesson in todo] == list(range(21))
    assert todo[0].until_s > 20 * DAY_S  # never: the first fit serves to the end
    assert todo[7].until_s == 14 * DAY_S  # weekly
    assert todo[8].until_s == 9 * DAY_S  # daily
    assert [lesson.live for lesson in todo] == [True] + 20 * [False]


def study(days: float, jobs: int) -> SimpleNamespace:
    start = pd.Timestamp("2024-01-01", tz="UTC")
    times = start + pd.to_timedelta(np.linspace(0, days, jobs), unit="D")
    return SimpleNamespace(trace=SimpleNamespace(jobs=pd.DataFrame({"submit_time": times})))


def test_intervals_that_cannot_be_compared_are_left_out_with_a_reason():
    assert set(left_out(study(days=5, jobs=100))) == {"weekly", "monthly"}
    assert left_out(study(days=40, jobs=100)) == {}
    assert set(left_out(study(days=40, jobs=2_000_000))) == {"daily", "weekly"}
    assert "learn from over" in left_out(study(days=40, jobs=2_000_000))["daily"]


@pytest.fixture(scope="module")
def trace():
    whole = synthesize_trace("helios-venus", days=1, seed=5, history_days=1)
    # Every second job: still enough for all that is tried before a fit.
    return replace(whole, earlier=whole.earlier.iloc[::2], jobs=whole.jobs.iloc[::2])


def test_no_estimate_depends_on_what_has_not_ended(trace):
    """Every job submitted from noon of the window on is changed: no estimate made before may move."""
    both = pd.concat([trace.earlier, trace.jobs], ignore_index=True)
    submit_s = epoch_seconds(both, "submit_time")
    at_s = float(epoch_seconds(trace.jobs, "submit_time").min())
    lesson = Lesson(at_s, at_s + DAY_S, live=True)
    noon_s = at_s + DAY_S / 2
    changed = both.copy()
    future = submit_s >= noon_s
    changed.loc[future, "duration_s"] = 7.0
    changed.loc[future, "end_time"] = changed.loc[future, "start_time"] + pd.Timedelta(seconds=7)

    learned = learn(History(both, submit_s, TRAINING_DAYS), lesson)
    learned_later = learn(History(changed, submit_s, TRAINING_DAYS), lesson)
    frozen, live = learned.frozen.p50, learned.live.p50
    frozen_later, live_later = learned_later.frozen.p50, learned_later.live.p50

    before = submit_s[(submit_s >= at_s) & (submit_s < lesson.until_s)] < noon_s
    assert frozen.tolist() == frozen_later.tolist()  # it never learns again
    assert live[before].tolist() == live_later[before].tolist()
    assert live[~before].tolist() != live_later[~before].tolist()  # it does learn from what has ended
    assert (frozen > 0).all()
    assert len(frozen) == len(trace.jobs)
