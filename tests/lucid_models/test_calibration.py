"""Quantiles of run times follow the jobs that started, by virtual cluster, and those that run among them."""

import json

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from live_scheduler.memory.journal import JobEvent, JobEventKind
from live_scheduler.memory.online_state import OnlineState
from lucid_models.duration.calibration import (
    LOOK_EVERY_S,
    MAX_OWNERS,
    MAX_VIRTUAL_CLUSTERS,
    RunTimeCalibration,
    calibrated_with,
    calibration_to_data,
    read_calibration,
)
from lucid_models.duration.model import WorkloadEstimateModel, epoch_seconds, job_mappings
from lucid_models.duration.residuals import EXPECTED, LEVELS, MOST, WINDOW, ends_expected, hazards
from lucid_models.duration.scorer import DurationScorer
from lucid_models.model_format import CorruptModelError, Fields, FormatVersionError

# Where the quantiles of run times (log seconds) are said to be: a standard normal's around e^8 s.
SAID = (8.0, 9.2816)
GAP_S = 3_600.0


def live(residuals, clusters, calibration=None, *, gap_s=GAP_S, users=None, first=0, submit_s=None):
    """Jobs that are submitted one after the other (or at `submit_s`), and start at once: whether each run
    time lay within the quantiles of its submission, shape (jobs, levels), and the calibration at the end.
    """
    calibration = calibration or RunTimeCalibration()
    run_s = np.exp(SAID[0] + np.asarray(residuals))
    if submit_s is None:
        submit_s = gap_s * (first + 1 + np.arange(len(run_s)))
    happens = [(at_s, 1, job) for job, at_s in enumerate(submit_s)]
    happens += [(at_s, 0, job) for job, at_s in enumerate(np.add(submit_s, run_s)) if at_s <= submit_s[-1]]
    within = np.empty((len(run_s), len(LEVELS)), dtype=bool)
    for at_s, submitted, job in sorted(happens):
        name = f"j{first + job}"
        if submitted:
            calibration.look(at_s)
            user = users[job] if users else ""
            said = np.add(SAID, calibration.offsets(clusters[job], user))
            within[job] = np.log(run_s[job]) <= said
            calibration.submitted(name, at_s, clusters[job], user, SAID)
            calibration.started(name, at_s)
        else:
            calibration.ended(name, at_s, run_s[job])
    return within, calibration


@settings(max_examples=5, deadline=None)
@given(st.integers(0, 2**32 - 1), st.floats(-3, 3), st.floats(0.3, 2), st.integers(1, 4))
def test_exchangeable_run_times_are_covered(seed, moved, scale, clusters):
    rng = np.random.default_rng(seed)
    names = [f"vc{number}" for number in rng.integers(0, clusters, 2_000)]
    within, _ = live(moved + scale * rng.normal(size=2_000), names)
    for level, share in zip(LEVELS, within[500:].mean(axis=0), strict=True):
        # Quantiles of the last hundred jobs or so, drawn a little to what is believed before.
        assert abs(share - level) < 0.04


def test_long_jobs_count_before_they_end():
    rng = np.random.default_rng(0)
    # Half of the jobs run for a minute, half for weeks: none of these has ended when the last is submitted.
    residuals = np.where(rng.random(1_000) < 0.5, np.log(60.0), np.log(3e6)) - SAID[0]
    within, calibration = live(residuals, ["vc"] * 1_000, gap_s=600.0)
    assert len(calibration.awaited) > 400
    # Of the half that runs, most has run beyond a day: so long must P90 be, though no such end was seen.
    assert SAID[1] + calibration.offsets("vc")[1] > np.log(86_400.0)
    assert SAID[0] + calibration.offsets("vc")[0] < np.log(3e6)
    short = np.flatnonzero(residuals < 0)
    assert within[short, 1].all()


def test_a_virtual_cluster_with_few_jobs_keeps_to_the_whole_log():
    rng = np.random.default_rng(1)
    _, calibration = live(2.0 + rng.normal(size=2_000), ["large"] * 2_000)
    usual = calibration.offsets("new")
    assert usual == pytest.approx((2.0, 2.0), abs=0.5)
    live([-6.0], ["new"], calibration, first=3_000)
    assert np.abs(np.subtract(calibration.offsets("new"), usual)).max() < 0.5
    live([-6.0] * 200, ["new"] * 200, calibration, first=4_000)
    assert max(calibration.offsets("new")) < -3.0
    assert min(calibration.offsets("large")) > 1.0


def test_coverage_is_back_200_jobs_after_run_times_became_four_times_as_long():
    rng = np.random.default_rng(0)
    _, calibration = live(rng.normal(size=2_000), ["vc"] * 2_000)
    assert calibration.offsets("vc") == pytest.approx((0.0, 0.0), abs=0.6)
    within, _ = live(np.log(4.0) + rng.normal(size=1_000), ["vc"] * 1_000, calibration, first=3_000)
    assert calibration.offsets("vc") == pytest.approx((np.log(4.0), np.log(4.0)), abs=0.6)
    assert within[200:, 1].mean() == pytest.approx(0.9, abs=0.04)
    assert within[200:, 0].mean() == pytest.approx(0.5, abs=0.06)


def test_a_crowd_of_one_users_jobs_weighs_less_as_far_as_others_have_jobs_in_flight():
    def weight_of_500_starts(users, others):
        calibration = RunTimeCalibration()
        for number in range(others):
            calibration.submitted(f"other{number}", 1_000.0, "vc", f"u{number}", SAID)
        for number, user in enumerate(users):
            calibration.submitted(f"j{number}", 1_000.0, "vc", user, SAID)
            calibration.started(f"j{number}", 1_001.0)
        return calibration.all_jobs.clocks[0]

    assert weight_of_500_starts([f"v{number}" for number in range(500)], 500) == 500
    crowd = sum(number**-0.75 for number in range(1, 501))
    assert weight_of_500_starts(["crowd"] * 500, 500) == pytest.approx(crowd)
    # A user who is alone is no crowd, but the log; and nothing is known of jobs without a user.
    assert weight_of_500_starts(["me"] * 500, 0) == 500
    assert weight_of_500_starts([""] * 500, 500) == 500


def test_what_crowds_hide_for_weeks_shifts_the_quantiles_of_all_jobs():
    """Every burst's jobs run as the shortest jobs of others do: weighed as few, they would be covered nearly
    always.
    """
    rng = np.random.default_rng(2)
    residuals, users, submit_s = [], [], []
    for number in range(600):
        residuals += [*rng.normal(size=2), *(-1.0 + 0.5 * rng.normal(size=40))]
        users += [f"u{2 * number}", f"u{2 * number + 1}", *(["crowd"] * 40)]
        submit_s += [number * 86_400.0, *([number * 86_400.0 + 60.0] * 41)]
    within, calibration = live(residuals, ["vc"] * len(residuals), users=users, submit_s=submit_s)
    assert within[15_000:].mean(axis=0) == pytest.approx(LEVELS, abs=0.02)
    assert calibration.slow.shifts[1] < 0  # P50 has what the crowd's own jobs tell


def test_jobs_that_were_submitted_together_shift_quantiles_by_no_more_than_a_factor():
    calibration = RunTimeCalibration()
    for number in range(5_000):
        calibration.submitted(f"j{number}", 1_000.0, "vc", "", SAID)
    for number in range(5_000):
        calibration.ended(f"j{number}", 1e6, 1e6)
    assert calibration.slow.shifts == (MOST, MOST)


def quantiles(model, jobs):
    return model.quantiles_causal(jobs, model.features_causal(jobs))


def test_nothing_that_happens_later_changes_a_quantile(duration_model, jobs):
    test = jobs.iloc[700:].reset_index(drop=True)
    moment = test["submit_time"].iloc[100]
    later = test.copy()
    open_then = later["end_time"] > moment
    later.loc[open_then, "duration_s"] *= 50
    later.loc[open_then, "end_time"] += pd.Timedelta(days=3)
    later.loc[101:, "virtual_cluster"] = "another"
    pd.testing.assert_frame_equal(
        quantiles(duration_model, test).iloc[:101], quantiles(duration_model, later).iloc[:101]
    )


def test_the_order_of_rows_and_an_index_that_repeats_change_nothing(duration_model, jobs):
    test = jobs.iloc[700:]
    shuffled = test.sample(frac=1, random_state=3)
    again = quantiles(duration_model, shuffled.set_axis([0] * len(shuffled)))
    expected = quantiles(duration_model, test).loc[shuffled.index]
    np.testing.assert_array_equal(again.to_numpy(), expected.to_numpy())


def test_names_of_virtual_clusters_tell_nothing_but_who_belongs_together():
    rng = np.random.default_rng(0)
    residuals, names = rng.normal(size=500), rng.choice(["a", "b", "c"], 500)
    other = {"a": "z", "b": "y", "c": "x"}
    within, _ = live(residuals, names)
    renamed, _ = live(residuals, [other[name] for name in names])
    assert (within == renamed).all()


def test_point_estimates_move_with_the_calibration_and_means_do_not(duration_model, jobs):
    test = jobs.iloc[700:]
    document = duration_model.to_data()
    calibration = RunTimeCalibration()
    news = calibration.all_jobs
    news.ended[0] = ends_expected((3.0, 4.0), WINDOW)
    calibration.usual_hazards = hazards(news.ended[0], news.passed[0], EXPECTED)
    document["model"]["calibration"] = calibration_to_data(calibration)
    moved = WorkloadEstimateModel.from_data(json.loads(json.dumps(document)))
    assert (moved.predict_causal(test)[:20] > duration_model.predict_causal(test)[:20]).all()
    told, expected = moved.estimate(test), duration_model.estimate(test)
    assert told["mean_s"].equals(expected["mean_s"])
    assert (told[["p50_s", "p90_s"]] > expected[["p50_s", "p90_s"]]).all(axis=None)
    assert all("virtual cluster lately" in reason for reason in told["reason"])
    mappings = job_mappings(test)
    assert (moved.scorer.quantiles(mappings)[0] > duration_model.scorer.quantiles(mappings)[0]).all()


def test_an_account_says_whose_jobs_moved_an_estimate(duration_model, jobs):
    job = job_mappings(jobs.iloc[700:701])[0]
    for user, whose in ((job["user"], "owner"), ("newcomer", "virtual cluster")):
        explained = duration_model.scorer.explain({**job, "user": user})
        (part,) = [part for part in explained["account"]["parts"] if "lately" in part["subject"]]
        assert part["subject"] == f"what jobs of its {whose} lately took"
        assert part["effect"] == explained["calibration"] != 0


def test_a_daemon_learns_what_the_replay_of_the_log_learns_also_across_a_restart(duration_model, jobs):
    test = jobs.iloc[700:].reset_index(drop=True)
    mappings = job_mappings(test)
    start, end = (epoch_seconds(test, column) for column in ("start_time", "end_time"))
    events = [
        JobEvent(at_s, kind, job["job_id"], job, duration_s)
        for place, job in enumerate(mappings)
        for at_s, kind, duration_s in (
            (job["submit_time_s"], JobEventKind.SUBMITTED, None),
            (start[place], JobEventKind.STARTED, None),
            (end[place], JobEventKind.ENDED, float(test["duration_s"][place])),
        )
    ]
    last_s = max(job["submit_time_s"] for job in mappings)
    # The last job is asked about at its submission, before it starts.
    events = [event for event in events if event.at_s <= last_s]
    events = [e for e in events if e.job_id != mappings[-1]["job_id"] or e.kind is JobEventKind.SUBMITTED]
    events.sort(key=lambda event: event.at_s)
    expected = quantiles(duration_model, test).iloc[-1]
    queued = [{**mappings[-1]}]
    for restarts in (False, True):
        online = OnlineState(duration_model.scorer, events if restarts else ())
        for number, event in enumerate(() if restarts else events):
            online.observe(event)
            if number % 50 == 0:
                online.quantiles(queued, last_s)
        online.quantiles(queued, last_s)
        said = online.scorer.calibration.offsets(*calibrated_with(mappings[-1]))
        np.testing.assert_allclose(said, [expected["p50_offset"], expected["p90_offset"]], rtol=1e-12)


def test_a_calibration_is_saved_with_the_model(duration_model):
    scorer = duration_model.scorer
    assert scorer.calibration.clusters.places
    assert scorer.calibration.owners.places
    assert scorer.calibration.awaited.keys() == scorer.state.flights.keys()
    twin = DurationScorer.from_data(json.loads(json.dumps(scorer.to_data())))
    assert calibration_to_data(twin.calibration) == calibration_to_data(scorer.calibration)


@pytest.mark.parametrize("jobs", [150, 151, 400])
def test_a_saved_calibration_goes_on_as_if_it_had_never_been_saved(jobs):
    rng = np.random.default_rng(jobs)
    names, users = rng.choice(["a", "b"], jobs).tolist(), rng.choice(["u", "v", "w"], jobs).tolist()
    _, calibration = live(2 * rng.normal(size=jobs), names, users=users, gap_s=0.7 * LOOK_EVERY_S)
    assert len(calibration.running)
    data = json.loads(json.dumps(calibration_to_data(calibration)))
    read = read_calibration(Fields(data, "model"))
    again = rng.normal(size=jobs)
    for one in (calibration, read, calibration.copy()):
        live(again, names, one, users=users, gap_s=0.7 * LOOK_EVERY_S, first=jobs)
        for of in (("a",), ("b", "u"), ("a", "new"), ("new", "v")):
            assert one.offsets(*of) == pytest.approx(calibration.offsets(*of), rel=1e-9)
        assert one.awaited.keys() == calibration.awaited.keys()


@pytest.mark.parametrize("layout", [4, 6])
def test_a_calibration_of_another_layout_is_refused(duration_model, layout):
    data = calibration_to_data(duration_model.scorer.calibration) | {"layout": layout}
    with pytest.raises(FormatVersionError, match=f"layout {layout}"):
        read_calibration(Fields(data, "model"))


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("layout", None),
        ("shifts", [0.0]),
        ("shifts", [0.0, 2.0]),
        ("awaited_told", [1.0]),
        ("awaited", "j1"),
        ("awaited", ["j1", "j1"]),
        ("awaited_quantiles", [1.0]),
        ("awaited_virtual_clusters", []),
        ("awaited_users", None),
        ("awaited_weights", [2.0]),
        ("ended", [0.0]),
        ("usual_hazards", [2.0] * 128),
        ("virtual_clusters", []),
        ("running", ["j2"]),
        ("running_clusters", [1]),
        ("running_starts_s", [1e300]),
        ("running_clocks", [1e6]),
        ("running_clocks_of_clusters", [1e6]),
        ("owners", []),
        ("owners", ["u", "u"]),
        ("ended_of_owners", [0.0]),
        ("running_owners", [1]),
        ("running_clocks_of_owners", [1e6]),
    ],
)
def test_a_calibration_that_does_not_fit_together_is_refused(field, value):
    calibration = RunTimeCalibration()
    calibration.submitted("j1", 1_000.0, "vc", "u", SAID)
    calibration.started("j1", 2_000.0)
    data = calibration_to_data(calibration)
    assert read_calibration(Fields(data, "model")).running.job_ids == ["j1"]
    with pytest.raises(CorruptModelError):
        read_calibration(Fields({**data, field: value}, "model"))


def test_jobs_without_a_virtual_cluster_and_ends_of_unknown_jobs_do_no_harm(duration_model, jobs):
    bare = jobs.iloc[700:].drop(columns="virtual_cluster")
    assert np.isfinite(quantiles(duration_model, bare).to_numpy()).all()
    calibration = RunTimeCalibration()
    calibration.started("nobody", 3.0)
    calibration.ended("nobody", 5.0, 5.0)
    calibration.submitted("j1", 10.0, "", "", SAID)
    calibration.started("j1", 11.0)
    calibration.started("j1", 12.0)
    calibration.withdrawn("j1")
    calibration.ended("j1", 15.0, 5.0)
    assert not calibration.awaited
    assert not calibration.running.job_ids
    assert calibration.offsets("") == pytest.approx((0.0, 0.0), abs=0.01)


def test_a_job_that_is_requeued_counts_from_its_next_start():
    calibration = RunTimeCalibration()
    for at_s in (1_000.0, 50_000.0):
        calibration.submitted("j1", at_s, "vc", "u", SAID)
        calibration.started("j1", at_s + 5.0)
    assert calibration.running.table()[:, calibration.running.START].tolist() == [50_005.0]
    calibration.ended("j1", 51_000.0, 995.0)
    assert calibration.all_jobs.ended[0].sum(axis=1) == pytest.approx([1.0, 1.0])


def test_an_owner_whose_jobs_run_longer_moves_the_median_of_its_own_jobs_alone():
    rng = np.random.default_rng(4)
    users = rng.choice(["long", "u0", "u1", "u2"], 3_000).tolist()
    mine = np.array(users) == "long"
    residuals = rng.normal(size=3_000) + np.where(mine, 2.0, 0.0)
    within, calibration = live(residuals, ["a"] * 3_000, users=users)
    learned = np.arange(3_000) >= 1_000
    # Drawn to the virtual cluster's, which is 1.7 too low for it: 8 % of its jobs would end within that.
    assert 0.25 < within[learned & mine, 0].mean() < 0.5
    assert within[learned & ~mine, 0].mean() == pytest.approx(0.5, abs=0.1)
    assert within[learned, 1].mean() == pytest.approx(0.9, abs=0.04)
    of_others = calibration.offsets("a", "u0")
    p50, p90 = calibration.offsets("a", "long")
    assert p50 > of_others[0] + 1.0
    assert p90 == of_others[1] == calibration.offsets("a")[1]
    # Elsewhere nothing is known of it; and nothing of one without jobs.
    assert calibration.offsets("c", "long") == calibration.offsets("c")
    assert calibration.offsets("a", "new") == calibration.offsets("a", "") == calibration.offsets("a")
    assert not calibration.follows("a", "new")


def test_offsets_of_many_jobs_are_those_of_each():
    rng = np.random.default_rng(5)
    users = rng.choice([f"u{number}" for number in range(30)], 600).tolist()
    names = rng.choice(["a", "b", "c"], 600).tolist()
    _, calibration = live(rng.normal(size=600), names, users=users)
    asked = [*zip(names, users, strict=True), ("new", "u0"), ("a", "")]
    one_by_one = [calibration.copy().offsets(*owner) for owner in asked]
    np.testing.assert_array_equal(calibration.copy().offsets_of_jobs(asked), one_by_one)


def test_no_more_than_so_many_virtual_clusters_are_remembered():
    calibration = RunTimeCalibration()
    for number in range(MAX_VIRTUAL_CLUSTERS + 50):
        calibration.submitted(f"j{number}", 1.0 + number, f"vc{number}", "", SAID)
        calibration.started(f"j{number}", 1.0 + number)
    assert len(calibration.clusters.places) == MAX_VIRTUAL_CLUSTERS
    assert "vc0" not in calibration.clusters.places
    # The jobs of those forgotten still end, and tell all.
    before = calibration.all_jobs.ended.sum()
    calibration.ended("j0", 1e6, 1e6)
    assert calibration.all_jobs.ended.sum() > before
    read = read_calibration(Fields(calibration_to_data(calibration), "model"))
    assert read.offsets("vc2000") == pytest.approx(calibration.offsets("vc2000"))


def test_no_more_than_so_many_owners_are_remembered():
    calibration = RunTimeCalibration()
    for number in range(MAX_OWNERS + 50):
        calibration.submitted(f"j{number}", 1.0 + number, "vc", f"u{number}", SAID)
        calibration.started(f"j{number}", 1.0 + number)
    assert len(calibration.owners.places) == MAX_OWNERS
    assert not calibration.follows("vc", "u0")
    calibration.ended("j0", 1e6, 1e6)  # its end is news of its virtual cluster still
    assert calibration.clusters.ended.sum() > 0
    read = read_calibration(Fields(calibration_to_data(calibration), "model"))
    for user in ("u0", "u50", f"u{MAX_OWNERS}"):
        assert read.offsets("vc", user) == pytest.approx(calibration.offsets("vc", user))
