from dataclasses import fields
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foundation.errors import ServiceUnavailableError
from profiler_jobs.devices.nvidia_polls import (
    POLLS,
    RING,
    Poll,
    memory_in_use_mib,
    polls_within,
    telemetry_of,
    throttle_reasons,
    utilisation,
)
from profiler_jobs.devices.nvidia_samples import (
    Sample,
    SampleSeries,
    counter_increase,
    new_samples,
    reason_names,
    sample_spans,
    window_mean,
)

PERCENT = st.integers(min_value=0, max_value=100).map(float)
STAMP = st.integers(min_value=-5, max_value=200_000_000)
RING_ENTRIES = st.lists(st.tuples(STAMP, st.floats(min_value=-10, max_value=5e9)), max_size=40)


@given(RING_ENTRIES, STAMP)
def test_what_is_new_rises_strictly_and_holds_every_usable_stamp_once(
    fetched: list[tuple[int, float]], after_us: int
) -> None:
    fresh = new_samples(fetched, after_us)
    assert all(earlier < later for (earlier, _), (later, _) in pairwise(fresh))
    usable = {stamp for stamp, value in fetched if stamp > max(after_us, 0) and 0 <= value <= 100}
    assert {stamp for stamp, _ in fresh} == usable
    assert set(fresh) <= set(fetched)


@st.composite
def series_of_samples(draw: st.DrawFn) -> list[Sample]:
    gaps = draw(st.lists(st.floats(min_value=0.01, max_value=4.0), max_size=30))
    time_s, samples = 0.0, []
    for gap in gaps:
        time_s += gap
        samples.append(Sample(time_s, draw(PERCENT)))
    return samples


@given(series_of_samples())
def test_periods_do_not_overlap_and_end_at_their_samples(samples: list[Sample]) -> None:
    spans = sample_spans(samples)
    assert [last for _, last, _ in spans] == [sample.time_s for sample in samples]
    assert all(first < last for first, last, _ in spans)
    assert all(before[1] <= after[0] + 1e-9 for before, after in pairwise(spans))


@given(series_of_samples(), st.floats(min_value=0, max_value=20), st.floats(min_value=0.1, max_value=20))
def test_a_window_knows_nothing_of_what_lies_outside_it(
    samples: list[Sample], begin_s: float, length_s: float
) -> None:
    end_s = begin_s + length_s
    mean = window_mean(samples, begin_s, end_s)
    changed = [
        Sample(sample.time_s, 100.0 - sample.value) if last <= begin_s or first >= end_s else sample
        for sample, (first, last, _) in zip(samples, sample_spans(samples), strict=True)
    ]
    assert window_mean(changed, begin_s, end_s) == mean
    if mean is not None:
        values = [value for first, last, value in sample_spans(samples) if last > begin_s and first < end_s]
        assert min(values) <= mean.value <= max(values)
        assert 0 < mean.coverage <= 1
        assert 1 <= mean.samples <= len(values)


def test_a_sample_from_before_a_window_does_not_reach_into_it() -> None:
    samples = [Sample(1.0, 0.0), Sample(2.0, 100.0), Sample(3.0, 50.0), Sample(4.0, 70.0), Sample(5.0, 100.0)]
    mean = window_mean(samples, 1.5, 4.5)
    assert mean is not None
    assert (mean.value, mean.samples) == (60.0, 2)
    assert mean.coverage == pytest.approx(2 / 3)


def test_unequal_periods_weigh_by_their_time() -> None:
    mean = window_mean([Sample(0.0, 0.0), Sample(1.0, 90.0), Sample(1.5, 30.0)], 0.0, 1.5)
    assert mean is not None
    assert mean.value == pytest.approx(70.0)
    assert mean.coverage == 1.0


def test_a_window_shorter_than_a_period_takes_what_overlaps_it() -> None:
    samples = [Sample(0.0, 0.0), Sample(1.0, 20.0), Sample(2.0, 80.0)]
    mean = window_mean(samples, 0.75, 1.25)
    assert mean is not None
    assert (mean.value, mean.coverage) == (50.0, 1.0)


def test_a_hole_in_the_ring_is_not_covered() -> None:
    samples = [Sample(0.5, 10.0), Sample(1.0, 10.0), Sample(9.5, 90.0), Sample(10.0, 90.0)]
    mean = window_mean(samples, 0.0, 10.0)
    assert mean is not None
    assert mean.value == pytest.approx(50.0)
    assert mean.coverage == pytest.approx(0.2)
    assert window_mean(samples, 2.0, 9.0) is None
    assert window_mean([], 0.0, 1.0) is None


class _Ring:
    """A driver's ring: period k ends at k * PERIOD of its clock and is k % 101 percent busy."""

    PERIOD_US = 160_000

    def __init__(self, size: int) -> None:
        self.size = size

    def fetch(self, clock_s: float, after_us: int) -> list[tuple[int, float]]:
        newest = int(clock_s * 1e6) // self.PERIOD_US
        entries = [
            (k * self.PERIOD_US, float(k % 101)) for k in range(max(newest - self.size + 1, 0), newest + 1)
        ]
        entries = [entry for entry in entries if entry[0] > after_us]
        turn = newest % max(len(entries), 1)
        return entries[turn:] + entries[:turn]


@given(
    size=st.integers(min_value=2, max_value=100),
    waits=st.lists(st.floats(min_value=0.001, max_value=3.0), min_size=2, max_size=60),
    wall_s=st.floats(min_value=1.6e9, max_value=2.0e9),
    shift=st.sampled_from(["wall", "boot", "unknown"]),
    remembers=st.booleans(),
)
def test_a_ring_read_while_it_turns_gives_every_sample_once(
    size: int, waits: list[float], wall_s: float, shift: str, remembers: bool
) -> None:
    ring, series, now_s = _Ring(size), SampleSeries(), 1_000.0
    offset_s = {"wall": wall_s, "boot": 77_000.0, "unknown": 5.0e8}[shift]
    missed = 0
    for wait_s in waits:
        now_s += wait_s
        clocks = {"wall": now_s + wall_s, "boot": now_s + 77_000.0, "monotonic": now_s}
        fetched = ring.fetch(now_s + offset_s, series.after_us if remembers else 0)
        series.add(fetched, now_s, clocks)
        missed += wait_s > (size - 1) * ring.PERIOD_US / 1e6
    times = [sample.time_s for sample in series.samples]
    assert all(earlier < later for earlier, later in pairwise(times))
    assert series.clock == (shift if shift != "unknown" else "arrival")
    if shift != "unknown":
        stamps = [round((time_s + offset_s) * 1e6 / ring.PERIOD_US) for time_s in times]
        assert len(set(stamps)) == len(stamps)
        assert [sample.value for sample in series.samples] == [stamp % 101 for stamp in stamps]
        assert missed or stamps == list(range(stamps[0], stamps[-1] + 1))
        assert times[-1] <= now_s
        assert now_s - times[-1] <= ring.PERIOD_US / 1e6 + 1e-3


@pytest.mark.parametrize("step_s", [-40.0, -0.6, 0.6, 40.0])
def test_a_wall_clock_that_is_set_moves_no_sample(step_s: float) -> None:
    ring, series = _Ring(100), SampleSeries()
    wall_s = 1.7e9
    for turn in range(400):
        now_s = 50.0 + turn * 0.2
        set_by_s = 0.0 if turn < 200 else step_s
        clocks = {"wall": now_s + wall_s + set_by_s, "boot": now_s + 9.0, "monotonic": now_s}
        series.add(ring.fetch(clocks["wall"], series.after_us), now_s, clocks)
    times = [sample.time_s for sample in series.samples]
    assert all(earlier < later for earlier, later in pairwise(times))
    at_step_s = 50.0 + 200 * 0.2
    period_s = ring.PERIOD_US / 1e6
    before = [time_s for time_s in times if time_s <= at_step_s]
    after = [time_s for time_s in times if time_s > at_step_s + 1.0]
    assert all(later - earlier == pytest.approx(period_s, abs=1e-3) for earlier, later in pairwise(before))
    assert all(later - earlier == pytest.approx(period_s, abs=1e-3) for earlier, later in pairwise(after))
    assert after[0] < at_step_s + 1.5
    assert times[-1] > now_s - 2 * period_s


def test_a_ring_that_ran_dry_while_the_gpu_was_idle_goes_on() -> None:
    series = SampleSeries()
    clocks = {"wall": 2_000.0, "monotonic": 100.0}
    series.add([(1_999_000_000, 50.0)], 100.0, clocks)
    series.add([], 400.0, {"wall": 2_300.0, "monotonic": 400.0})
    series.add([(2_300_900_000, 60.0)], 401.0, {"wall": 2_301.0, "monotonic": 401.0})
    assert [sample.time_s for sample in series.samples] == pytest.approx([99.0, 400.9])
    assert [sample.value for sample in series.samples] == [50.0, 60.0]
    series.forget_before(200.0)
    assert [sample.value for sample in series.samples] == [60.0]


@given(st.integers(min_value=0, max_value=2**64 - 1))
def test_every_bit_but_idle_has_one_name(mask: int) -> None:
    names = reason_names(mask)
    assert list(names) == sorted(set(names))
    assert len(names) == (mask & ~1).bit_count()
    assert set(reason_names(mask & 0xFF)) | set(reason_names(mask & ~0xFF)) == set(names)


def test_reasons_are_named_as_nvidia_smi_names_them() -> None:
    assert reason_names(0x1) == ()
    assert reason_names(0x4 | 0x40 | 0x200) == ("bit_0x200", "hw_thermal_slowdown", "sw_power_cap")


@given(
    st.lists(st.floats(min_value=0.05, max_value=0.5), min_size=4, max_size=60),
    st.floats(min_value=1.0, max_value=700.0),
)
def test_a_counter_that_rises_evenly_rises_by_its_rate_in_any_window(gaps: list[float], rate: float) -> None:
    time_s, readings = 0.0, []
    for gap in gaps:
        readings.append((time_s, 1e6 + rate * time_s))
        time_s += gap
    begin_s, end_s = readings[1][0] + 0.01, readings[-1][0] - 0.01
    if end_s > begin_s:
        assert counter_increase(readings, begin_s, end_s) == pytest.approx(rate * (end_s - begin_s), rel=1e-6)


def test_windows_side_by_side_share_a_counter_between_them() -> None:
    readings = [(0.0, 0.0), (1.0, 300.0), (2.5, 310.0), (3.0, 900.0), (4.0, 901.0)]
    cuts = [0.0, 0.7, 1.9, 2.6, 4.0]
    parts = [counter_increase(readings, begin, end) for begin, end in pairwise(cuts)]
    assert sum(part for part in parts if part is not None) == pytest.approx(901.0)


def test_a_counter_that_fell_or_was_hardly_read_tells_nothing() -> None:
    assert counter_increase([(0.0, 50.0), (1.0, 10.0), (2.0, 20.0)], 0.0, 2.0) is None
    assert counter_increase([(0.0, 50.0), (1.0, 10.0), (2.0, 20.0)], 1.2, 1.8) == pytest.approx(6.0)
    assert counter_increase([(0.0, 5.0), (1.0, 6.0)], 0.0, 2.0) is None
    assert counter_increase([(0.5, 5.0)], 0.0, 1.0) is None
    assert counter_increase([], 0.0, 1.0) is None


def _poll(time_s: float, **said: float | int | None) -> Poll:
    silent = dict.fromkeys(field.name for field in fields(Poll))
    return Poll(**(silent | {"time_s": time_s} | said))  # type: ignore[arg-type]


def test_memory_is_the_processes_where_the_driver_tells_it() -> None:
    told = [_poll(0, used_mib=900, processes_mib=800), _poll(1, used_mib=950, processes_mib=820)]
    assert memory_in_use_mib(told) == 820
    assert memory_in_use_mib([*told, _poll(2, used_mib=990)]) == 990
    assert memory_in_use_mib([_poll(0, used_mib=900, processes_mib=5e9)]) == 900
    assert memory_in_use_mib([_poll(0, used_mib=900, processes_mib=0)]) == 900
    assert memory_in_use_mib([_poll(0)]) is None


def test_polls_of_a_window_are_those_within_or_the_nearest() -> None:
    polls = [_poll(time_s, throttle_mask=mask) for time_s, mask in [(0.0, 4), (1.0, 1), (2.0, 32), (3.0, 8)]]
    assert throttle_reasons(polls_within(polls, 1.0, 3.0)) == ("sw_thermal_slowdown",)
    assert [poll.time_s for poll in polls_within(polls, 1.6, 1.9)] == [2.0]
    assert polls_within([], 0.0, 1.0) == []


def test_polls_stand_in_for_a_ring_that_covers_too_little() -> None:
    ring = [Sample(0.5, 10.0), Sample(1.0, 10.0)]
    polled = [(0.2 * turn, 90.0 if turn < 5 else 40.0) for turn in range(60)]
    mean, source = utilisation(ring, polled, 0.0, 10.0)
    assert mean is not None
    assert (mean.value, source) == (40.0, POLLS)
    mean, source = utilisation(ring, [], 0.0, 10.0)
    assert mean is not None
    assert (mean.value, source) == (10.0, RING)
    mean, source = utilisation(ring, polled, 0.0, 1.0)
    assert mean is not None
    assert (mean.value, source) == (10.0, RING)
    assert utilisation([], [(0.5, None)], 0.0, 1.0)[0] is None


def test_a_ring_of_zeros_is_believed_unless_the_latest_values_say_otherwise() -> None:
    ring = [Sample(0.2 * turn, 0.0) for turn in range(60)]
    idle = [(0.2 * turn, 0.0) for turn in range(60)]
    busy = [(0.2 * turn, 55.0) for turn in range(60)]
    mean, source = utilisation(ring, idle, 1.0, 9.0)
    assert mean is not None
    assert (mean.value, source) == (0.0, RING)
    mean, source = utilisation(ring, busy, 1.0, 9.0)
    assert mean is not None
    assert (mean.value, source) == (55.0, POLLS)


def test_a_window_is_put_together_from_polls_and_rings() -> None:
    polls = [
        _poll(
            0.2 * turn,
            gpu_util_pct=99.0,
            gpu_mem_util_pct=20.0,
            used_mib=1_000 + turn,
            energy_j=60.0 * turn,
            sm_clock_mhz=1_000.0 if turn < 25 else 2_000.0,
            throttle_mask=4 if turn == 30 else 1,
        )
        for turn in range(51)
    ]
    ring = [Sample(0.25 * turn, 40.0 if turn <= 20 else 80.0) for turn in range(41)]
    seen, source = telemetry_of(polls, ring, [], 2.5, 7.5)
    assert (seen.gpu_util_pct, seen.gpu_mem_util_pct, seen.samples, source) == (60.0, 20.0, 20, RING)
    assert seen.gpu_mem_mib == 1_037
    assert seen.energy_j == pytest.approx(1_500.0)
    assert seen.power_w == pytest.approx(300.0)
    assert seen.sm_clock_mhz == pytest.approx(1_520.0)
    assert (seen.mem_clock_mhz, seen.throttle_reasons) == (None, ("sw_power_cap",))


@pytest.mark.parametrize(
    ("said", "lacking"),
    [({"used_mib": 5.0}, "utilisation"), ({"gpu_util_pct": 5.0, "gpu_mem_util_pct": 5.0}, "memory in use")],
)
def test_a_window_of_which_the_driver_told_nothing_is_refused(said: dict[str, float], lacking: str) -> None:
    polls = [_poll(0.2 * turn, **said) for turn in range(20)]
    with pytest.raises(ServiceUnavailableError, match=f"reported no {lacking}"):
        telemetry_of(polls, [], [], 1.0, 3.0)
