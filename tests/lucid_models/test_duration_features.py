import json
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foundation.errors import BadInputError, LucidError
from lucid_models.duration.features import (
    DurationFeatureSettings,
    DurationFeatureState,
)
from lucid_models.duration.levels import PARTS, Level, hierarchy, level_name, level_parts
from lucid_models.duration.name_buckets import NameBuckets, name_family, size_key
from lucid_models.model_format import CorruptModelError, FormatVersionError

NAMES = ("size", "user", "user_size", "family", "name", "user_family", "user_name")
LEVELS = hierarchy([level_parts(name) for name in NAMES])
HOUR = 3_600.0


def state(**changes: float) -> DurationFeatureState:
    return DurationFeatureState(LEVELS, ("log_gpus", "hour"), DurationFeatureSettings(**changes))


def job(number: int, submit_s: float, user: str = "ann", name: str = "resnet50_lr1", gpus: int = 2) -> dict:
    return {"job_id": f"j{number}", "user": user, "name": name, "gpus": gpus, "submit_time_s": submit_s}


def ended(job_: dict, end_s: float, duration_s: float) -> dict:
    return {**job_, "end_time_s": end_s, "duration_s": duration_s}


def features(of: DurationFeatureState, job_: dict, at_s: float | None = None) -> dict[str, float]:
    return dict(zip(of.names, of.features(job_, at_s), strict=True))


@pytest.mark.parametrize(
    ("name", "family"),
    [("ResNet50_lr3", "resnet#_lr#"), ("bert-2020-11-03", "bert-#-#-#"), ("train", "train"), ("42", "#")],
)
def test_families_forget_numbers(name: str, family: str) -> None:
    assert name_family(name) == family


def test_sizes_are_gpus_or_cores() -> None:
    assert (size_key(4, None), size_key(0, 16.0), size_key(0, None)) == ("4", "cpu16", "cpu")


def test_a_mean_halves_its_weight_in_a_half_life_and_leans_on_its_parent() -> None:
    one = state(half_life_s=10 * HOUR, prior_jobs=1.0)
    one.observe_end(ended(job(1, 0, user="ann"), HOUR, 100.0))
    one.observe_end(ended(job(2, 0, user="bob"), HOUR, 10_000.0))
    now = features(one, job(3, 11 * HOUR))
    both = (math.log(100) + math.log(10_000)) / 2
    assert now["all:mean"] == pytest.approx(both)
    assert now["user:mean"] == pytest.approx((0.5 * math.log(100) + both) / 1.5)
    assert now["user:raw_mean"] == pytest.approx(math.log((0.5 * 100 + 5_050) / 1.5))
    assert now["user:log_count"] == math.log(2)


def test_a_run_time_is_known_at_the_end_and_not_before() -> None:
    one = state()
    first = job(1, 0)
    one.observe_submit(first)
    one.observe_start("j1", 60)
    running = features(one, job(2, 100.0))
    assert math.isnan(running["user:mean"])
    assert running["user:log_running"] == math.log(2)
    assert running["user:log_oldest_age"] == pytest.approx(math.log1p(40))
    assert running["user:log_since_submission"] == pytest.approx(math.log1p(100))
    one.observe_end(ended(first, 200, 140))
    done = features(one, job(2, 300.0))
    assert done["user:mean"] == pytest.approx(math.log(140))
    assert done["user:log_running"] == 0.0


def test_a_queued_job_does_not_count_itself() -> None:
    one = state()
    one.observe_submit(job(1, 0))
    waiting = job(2, 50)
    before = one.features(waiting)
    one.observe_submit(waiting)
    assert one.features(waiting) == pytest.approx(before, nan_ok=True)


def test_soft_mean_last_and_spread() -> None:
    one = state(soft_weight=0.3)
    for number, duration in enumerate((10.0, 1_000.0)):
        one.observe_end(ended(job(number, 0), 10.0 + number, duration))
    now = features(one, job(9, 20.0))
    low, high = math.log(10), math.log(1_000)
    assert now["user_name:soft_mean"] == pytest.approx(low + 0.3 * (high - low))
    assert now["user_name:last"] == high
    assert now["user_name:last_two"] == pytest.approx((low + high) / 2)
    assert now["user_name:spread"] == pytest.approx((high - low) / 2, rel=1e-3)


def test_unnamed_jobs_share_a_name_and_unknown_users_share_nothing() -> None:
    one = state()
    one.observe_end(ended(job(1, 0, name=""), 5, 50.0))
    one.observe_end(ended({**job(2, 0), "user": None}, 6, 5_000.0))
    now = features(one, {**job(3, 10), "name": None})
    assert now["user_name:last"] == pytest.approx(math.log(50))
    assert math.isnan(features(one, {**job(3, 10), "user": None})["user:last"])


def test_the_least_recent_keys_are_forgotten_first() -> None:
    one = state(max_keys=3)
    for number in range(8):
        one.observe_end(ended(job(number, 0, user=f"u{number}"), 10.0 + number, 60.0))
    users = one.to_data()["tables"][one.levels.index("user")]["keys"]
    assert users == ["u5", "u6", "u7"]


def test_the_oldest_running_job_stays_the_oldest_across_a_restart() -> None:
    one = state()
    for number in (1, 2):
        one.observe_submit(job(number, float(number)))
    one.observe_start("j2", 100.0)
    one.observe_start("j1", 150.0)
    twin = DurationFeatureState.from_data(json.loads(json.dumps(one.to_data())))
    for both in (one, twin):
        assert features(both, job(3, 200.0))["user:log_oldest_age"] == pytest.approx(math.log1p(100))


def test_a_job_whose_key_was_forgotten_while_it_waited_still_starts() -> None:
    one = state(max_keys=1)
    one.observe_submit(job(1, 0, user="quiet", name="rare"))
    for number in range(2, 8):
        one.observe_end(ended(job(number, 0, user=f"u{number}", name=f"n{number}"), 10.0 + number, 60.0))
    one.observe_start("j1", 30.0)
    assert features(one, job(9, 40.0, user="quiet", name="rare"))["user:log_running"] == math.log(2)


@pytest.mark.parametrize("duration", [None, -1.0, math.nan, "long"])
def test_an_end_without_a_run_time_is_refused(duration: object) -> None:
    with pytest.raises(BadInputError, match="j1"):
        state().observe_end({**job(1, 0), "end_time_s": 10.0, "duration_s": duration})


events = st.lists(
    st.tuples(
        st.sampled_from(["submit", "start", "end"]),
        st.integers(0, 6),
        st.sampled_from(["ann", "bob", None]),
        st.sampled_from(["a1", "a2", None]),
        st.floats(0, 1e5),
        st.floats(0, 1e7),
    ),
    max_size=40,
)


def happen(one: DurationFeatureState, event: tuple, time_s: float) -> None:
    what, number, user, name, _, duration = event
    which = {**job(number, time_s), "user": user, "name": name}
    if what == "submit":
        one.observe_submit(which)
    elif what == "start":
        # Starts may be told late, and in another order than they happened.
        one.observe_start(which["job_id"], time_s - duration / 1e3)
    else:
        one.observe_end(ended(which, time_s, duration))


@settings(max_examples=80, deadline=None)
@given(events=events, saved_after=st.sets(st.integers(0, 40)))
def test_a_restart_at_any_moment_loses_nothing(events: list, saved_after: set[int]) -> None:
    """Saved and loaded at any moments, the state is to the bit what it is without a restart, and so are the
    features of any job.
    """
    levels = hierarchy(
        [level_parts(name) for name in ("bucket", *NAMES, "user_bucket", "user_family_size")],
        means_only=[("bucket",), ("size",)],
    )
    facts, buckets = ("log_gpus", "hour"), NameBuckets(["a#"], 0.5)
    never_stopped = DurationFeatureState(levels, facts, None, buckets)
    restarted = never_stopped.copy()
    time_s = 0.0
    for number, event in enumerate(events):
        time_s += event[4]
        happen(never_stopped, event, time_s)
        happen(restarted, event, time_s)
        if number in saved_after:
            restarted = DurationFeatureState.from_data(
                json.loads(json.dumps(restarted.to_data(), allow_nan=False))
            )
        for probe in (job(1, time_s), job(99, time_s + 10, user="bob", name="a1")):
            assert str(restarted.features(probe)) == str(never_stopped.features(probe))
    assert json.dumps(restarted.to_data()) == json.dumps(never_stopped.to_data())
    assert never_stopped.copy().to_data() == never_stopped.to_data()


@pytest.mark.parametrize(
    ("field", "value", "match"),
    [
        ("parts", ["planet"], "something unknown"),
        ("parts", ["size"], "there already"),
        ("parent", "nobody", "no coarser level"),
        ("parent", "size", "no coarser level"),
        ("flights", 1, "flights"),
        ("naive", 1, "naive"),
    ],
)
def test_saved_levels_that_contradict_each_other_are_refused(field: str, value: object, match: str) -> None:
    data = state().to_data()
    user = next(level for level in data["levels"] if level["parts"] == ["user"])
    user[field] = value
    with pytest.raises(CorruptModelError, match=match):
        DurationFeatureState.from_data(data)


@pytest.mark.parametrize("layout", [1, 3, 5])
def test_a_state_of_another_layout_is_refused(layout: int) -> None:
    data = state().to_data() | {"layout": layout}
    with pytest.raises(FormatVersionError, match=f"layout {layout}"):
        DurationFeatureState.from_data(data)


def test_the_median_is_deaf_to_one_crash() -> None:
    one = state()
    for number, duration in enumerate((100.0, 110.0, 1.0, 90.0)):
        one.observe_end(ended(job(number, 0), 10.0 + number, duration))
    now = features(one, job(9, 20.0))
    assert now["user_name:median"] == pytest.approx(0.5 * (math.log(90) + math.log(100)))


def test_jobs_with_one_time_limit_have_a_history() -> None:
    one = DurationFeatureState(hierarchy([("user",), ("time_limit",), ("user", "time_limit")]), ())
    one.observe_end({**ended(job(1, 0), 5, 50.0), "time_limit_s": 3_600})
    one.observe_end({**ended(job(2, 0), 6, 5_000.0), "time_limit_s": 86_400})
    now = features(one, {**job(3, 10), "time_limit_s": 3_600.0})
    assert now["user_time_limit:last"] == pytest.approx(math.log(50))
    assert math.isnan(features(one, job(3, 10))["user_time_limit:last"])


def test_unknown_levels_are_named() -> None:
    with pytest.raises(LucidError, match="planet"):
        level_parts("user_planet")
    with pytest.raises(LucidError, match="comes twice"):
        DurationFeatureState(hierarchy([("user",), ("user",)]), ())
    with pytest.raises(LucidError, match="before 'user'"):
        DurationFeatureState((Level(("user", "size"), "user"),), ())


@given(parts=st.lists(st.sampled_from(PARTS), unique=True))
def test_a_level_is_told_by_its_name(parts: list[str]) -> None:
    assert level_parts(level_name(parts)) == tuple(parts)
