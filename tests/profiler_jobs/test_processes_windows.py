"""Speeds and overlap from completion times."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foundation.errors import BadInputError
from profiler_jobs.workers.windows import STALL_MIN_S, TrainedStretch, overlap

steps_s = st.floats(1e-3, 5.0)


def _even(step_s, count, begin_s=0.0):
    return TrainedStretch(begin_s, tuple(begin_s + step_s * (k + 1) for k in range(count)))


@given(steps_s, st.floats(0.0, 1.0), st.floats(0.01, 20.0))
def test_an_even_worker_has_its_own_rate_in_any_window_also_in_a_fraction_of_a_step(step_s, share, length_s):
    begin_s = share * step_s
    stretch = _even(step_s, int((begin_s + length_s) / step_s) + 2)
    assert stretch.rate(begin_s, begin_s + length_s) * step_s == pytest.approx(1.0, rel=1e-6)


@given(st.lists(steps_s, min_size=2, max_size=40), st.lists(st.floats(0.0, 1.0), min_size=3, max_size=3))
def test_windows_side_by_side_hold_together_what_the_whole_holds(durations_s, cuts):
    times = [sum(durations_s[: k + 1]) for k in range(len(durations_s))]
    stretch = TrainedStretch(0.0, tuple(times))
    low_s, middle_s, high_s = (cut * times[-1] for cut in sorted(cuts))
    if not low_s + 1e-6 < middle_s < high_s - 1e-6:
        return
    parts = [(low_s, middle_s), (middle_s, high_s)]
    steps = [stretch.rate(*part) * (part[1] - part[0]) for part in parts]
    whole = stretch.rate(low_s, high_s) * (high_s - low_s)
    assert sum(steps) == pytest.approx(whole, abs=1e-6)
    assert stretch.whole_steps(low_s, high_s) <= whole + 1e-6
    assert stretch.whole_steps(low_s, high_s) >= sum(stretch.whole_steps(*part) for part in parts)
    assert whole <= stretch.whole_steps(low_s, high_s) + 2.0 + 1e-6


def test_steps_across_the_edges_count_by_their_share():
    stretch = TrainedStretch(0.0, (4.0, 6.0, 10.0))
    assert stretch.rate(3.0, 8.0) * 5.0 == pytest.approx(0.25 + 1.0 + 0.5)
    assert stretch.whole_steps(3.0, 8.0) == 1
    assert stretch.whole_steps(4.5, 5.5) == 0
    assert stretch.rate(4.5, 5.5) == pytest.approx(0.5)


def test_a_worker_that_came_late_or_ended_early_is_slow_and_its_overlap_shows_it():
    late = _even(0.1, 50, begin_s=5.0)
    assert late.rate(0.0, 10.0) == pytest.approx(5.0)
    assert overlap([late], 0.0, 10.0) == pytest.approx(0.5)
    ended = _even(0.1, 30)
    assert ended.rate(0.0, 10.0) == pytest.approx(3.0)
    assert overlap([ended, _even(0.1, 200)], 0.0, 10.0) == pytest.approx(0.3)
    silent = TrainedStretch(0.0, ())
    assert silent.rate(0.0, 10.0) == 0.0
    assert overlap([silent], 0.0, 10.0) == 0.0


def test_a_stall_is_no_training():
    before = [0.1 * k for k in range(1, 51)]
    stalled = TrainedStretch(0.0, tuple(before + [9.0 + time_s for time_s in before]))
    assert overlap([stalled], 0.0, 10.0) == pytest.approx(0.6, abs=0.02)
    assert overlap([stalled, _even(0.1, 200)], 0.0, 10.0) == pytest.approx(0.6, abs=0.02)


def test_slices_of_time_are_no_stalls():
    times_s, now_s = [], 0.0
    for step in range(400):
        now_s += 0.001 if step % 10 else 0.03  # the partner's slice: thirty times the step
        times_s.append(now_s)
    assert overlap([TrainedStretch(0.0, tuple(times_s))], 0.0, now_s) == pytest.approx(1.0)
    assert STALL_MIN_S > 0.03


@given(
    st.lists(
        st.tuples(st.floats(0.0, 5.0), st.lists(st.floats(1e-3, 2.0), max_size=30)), min_size=1, max_size=2
    ),
    st.floats(0.0, 5.0),
    st.floats(0.1, 20.0),
)
def test_overlap_is_a_share_and_no_larger_than_any_workers_own(workers, begin_s, length_s):
    stretches = []
    for start_s, durations_s in workers:
        stretches.append(
            TrainedStretch(
                start_s, tuple(start_s + sum(durations_s[: k + 1]) for k in range(len(durations_s)))
            )
        )
    together = overlap(stretches, begin_s, begin_s + length_s)
    assert 0.0 <= together <= 1.0
    assert together == pytest.approx(overlap(stretches[::-1], begin_s, begin_s + length_s))
    assert together <= min(overlap([one], begin_s, begin_s + length_s) for one in stretches) + 1e-9


def test_times_that_go_backwards_are_refused():
    with pytest.raises(BadInputError, match="backwards"):
        TrainedStretch(1.0, (2.0, 1.5))
