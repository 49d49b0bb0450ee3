import json
import math
import re
from decimal import Decimal
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foundation.human_times import human_duration
from lucid_models.additive_scorer import AdditiveScorer, Term
from lucid_models.duration.features import DurationFeatureState
from lucid_models.duration.job_columns import FACTS
from lucid_models.duration.levels import PARTS, hierarchy, level_parts
from lucid_models.duration.model import job_mappings
from lucid_models.duration.reasons import account_for_duration

HISTORY_LEVELS = ("size", "family", "name", "user", "user_family", "user_name", "user_name_size")
HOUR = 3_600.0
FRIDAY_EVENING = 1_585_940_400.0  # 2020-04-03, 19:00 UTC
NUMBER = r"([0-9][0-9,]*(?:\.[0-9]+)?) (?:s|min|h|days?)"


def ended(state: DurationFeatureState, job: dict, hours: float, ago_s: float, number: int) -> None:
    end = FRIDAY_EVENING - ago_s
    state.observe_end({**job, "job_id": f"e{number}", "end_time_s": end, "duration_s": hours * HOUR})


def history(users: list[tuple[str, str, int, float, float]]) -> DurationFeatureState:
    """A state that saw one finished job per (user, name, gpus, hours, ended so many seconds ago)."""
    state = DurationFeatureState(
        hierarchy([level_parts(level) for level in HISTORY_LEVELS]),
        ["log_gpus", "hour", "day_of_week"],
    )
    for number, (user, name, gpus, hours, ago_s) in enumerate(sorted(users, key=lambda one: -one[4])):
        ended(state, {"user": user, "name": name, "gpus": gpus}, hours, ago_s, number)
    return state


def head(state: DurationFeatureState, base: float, effects: dict[str, float]) -> AdditiveScorer:
    """A log head that adds a constant for each of the named features, whatever their value."""
    terms = [
        Term((position,), (np.array([]),), np.full(3, effects[name]), np.array([0.0, 1.0, 0.0]))
        for position, name in enumerate(state.names)
        if name in effects
    ]
    return AdditiveScorer(state.names, terms, base)


def say(state: DurationFeatureState, scorer: AdditiveScorer, job: dict) -> str:
    row = state.features(job)
    return account_for_duration(state, scorer, job, row, math.exp(scorer.score_one(row))).sentence()


JOB = {
    "job_id": "q", "user": "u17", "name": "ResNet50_lr3", "gpus": 8, "submit_time_s": FRIDAY_EVENING
}  # fmt: skip
SEEN = [("u17", f"ResNet50_lr{i % 3}", 8 if i % 2 else 4, 11.0, (3 + i) * HOUR) for i in range(42)]


def test_an_operator_reads_history_size_and_time() -> None:
    state = history([("u17", f"ResNet50_lr{4 + i}", 4, 11.0, (3 + i) * HOUR) for i in range(42)])
    total = math.log(12.3 / 11)
    scorer = head(
        state,
        math.log(11 * HOUR),
        {"log_gpus": total * 0.9 / 1.3, "hour": total * 0.3 / 1.3, "day_of_week": total / 13},
    )
    assert say(state, scorer, JOB) == (
        "12.3 h because user u17 x resnet#_lr# family usually runs 11 h (42 jobs, the last 3 h ago); "
        "8 GPUs add 0.9 h; submission on a Friday evening adds 0.4 h."
    )


def test_new_users_and_names_are_said() -> None:
    state = history([("u1", "bert", 8, 40 / 60, 300.0 + i) for i in range(30)])
    scorer = head(state, math.log(40 * 60.0), {})
    assert say(state, scorer, {**JOB, "user": "u99", "name": "bert"}) == (
        "40 min because user u99 is new and name bert usually runs 40 min (30 jobs, the last 5 min ago)."
    )
    assert say(state, scorer, {**JOB, "user": "ada", "name": "gpt"}) == (
        "40 min because user ada and name gpt are new and jobs with 8 GPUs usually run 40 min "
        "(30 jobs, the last 5 min ago)."
    )
    # A family that is known makes its next name no news; a job without user or name has none that are new.
    assert "new" not in say(state, scorer, {**JOB, "user": "u1", "name": "bert"})
    assert "new" not in say(state, scorer, {"gpus": 1, "submit_time_s": FRIDAY_EVENING})
    assert say(history([]), scorer, JOB) == "40 min: no finished job is known yet."


def test_one_old_job_does_not_speak_for_its_key() -> None:
    """A key answers when its own jobs outweigh the level above, else a wider one does."""
    many = [("u1", "bert", 1, 1.0, 600.0 + i) for i in range(20)]
    state = history([*many, ("u17", "ResNet50_lr3", 8, 11.0, 20 * 86_400.0)])
    scorer = head(state, math.log(HOUR), {})
    assert "jobs of this cluster usually run 64.6 min (21 jobs, the last 10 min ago)" in say(
        state, scorer, JOB
    )
    alone = history([("u17", "ResNet50_lr3", 8, 11.0, 2 * 86_400.0)])
    assert say(alone, scorer, JOB) == (
        "1 h because user u17 x name ResNet50_lr3 x 8 GPUs ran 11 h (1 job, 2 days ago); "
        "other similar jobs take off 10 h."
    )


def test_the_latest_runs_count_by_what_they_change() -> None:
    """Had the latest jobs run as usual, the score would be lower by exactly the effect that is named."""
    seen = [("u17", "a", 1, 1.0, (10 - i) * HOUR) for i in range(9)] + [("u17", "a", 1, 8.0, HOUR / 2)]
    state = history(seen)
    position = state.names.index("user:last")
    cut = np.array([math.log(2 * HOUR)])
    term = Term((position,), (cut,), np.array([0.0, -0.2, 0.5, 0.0]), np.ones(4))
    scorer = AdditiveScorer(state.names, [term], math.log(HOUR))
    job = {"user": "u17", "name": "a", "gpus": 1, "submit_time_s": FRIDAY_EVENING}
    account = account_for_duration(state, scorer, job, state.features(job), HOUR * math.exp(0.5))
    effects = {part.subject: part.effect for part in account.parts}
    assert effects["the latest runs"] == pytest.approx(0.7)


def test_a_pair_of_features_counts_for_their_group() -> None:
    state = history(SEEN)
    row = state.features(JOB)
    hour, day, gpus = (state.names.index(name) for name in ("hour", "day_of_week", "log_gpus"))

    def effects(first: int, second: int) -> dict[str, float]:
        table = Term((first, second), (np.array([]), np.array([])), np.full((3, 3), 0.3), np.ones((3, 3)))
        scorer = AdditiveScorer(state.names, [table], math.log(HOUR))
        account = account_for_duration(state, scorer, JOB, row, HOUR * math.exp(0.3))
        return {part.subject: part.effect for part in account.parts}

    assert effects(hour, day)["submission on a Friday evening"] == pytest.approx(0.3)
    assert set(effects(gpus, hour)) == {"other similar jobs"}


def test_what_all_jobs_of_the_key_share_changes_nothing() -> None:
    """Eight GPUs add nothing to what eight-GPU jobs usually run."""
    state = history([("u17", "bert", 8, 2.0, HOUR * (i + 1)) for i in range(5)])
    scorer = head(state, math.log(2 * HOUR) - 0.4, {"log_gpus": 0.4})
    job = {**JOB, "name": "bert"}
    assert say(state, scorer, job) == (
        "2 h because user u17 x name bert x 8 GPUs usually runs 2 h (5 jobs, the last 60 min ago)."
    )
    assert "8 GPUs add" in say(state, scorer, {**JOB, "user": "u18", "name": "bert"})


@cache
def known_state() -> DurationFeatureState:
    rng = np.random.default_rng(3)
    return history(
        [
            (f"u{rng.integers(4)}", f"net{rng.integers(3)}_{i % 2}", int(rng.choice([0, 1, 8])),
             float(np.exp(rng.normal(0, 3))), float(rng.uniform(1, 1e6)))
            for i in range(200)
        ]
    )  # fmt: skip


@settings(deadline=None)
@given(
    st.floats(0.0, 17.0),
    st.dictionaries(st.sampled_from(known_state().names), st.floats(-2, 2), max_size=8),
    st.sampled_from(["u0", "u3", "nobody", None]),
    st.sampled_from(["net1_0", "else", None]),
    st.sampled_from([0, 1, 8, 512]),
)
def test_the_parts_add_up_and_so_does_the_sentence(base, effects, user, name, gpus) -> None:
    state = known_state()
    job = {"user": user, "name": name, "gpus": gpus, "submit_time_s": FRIDAY_EVENING}
    scorer = head(state, base, effects)
    row = state.features(job)
    p50_s = min(max(math.exp(scorer.score_one(row)), 1.0), 3e7)
    account = account_for_duration(state, scorer, job, row, p50_s)
    json.dumps(account.to_data(), allow_nan=False)
    usual_s = account.history.usual_s
    assert usual_s + sum(part.seconds for part in account.parts) == pytest.approx(p50_s, rel=1e-9)
    assert usual_s * math.exp(sum(part.effect for part in account.parts)) == pytest.approx(p50_s, rel=1e-9)
    for part in account.parts:
        assert part.seconds * part.effect >= 0  # what multiplies by more than one adds
    sentence = account.sentence()
    estimate, rest = sentence.split(" because ", 1)
    usual = re.search(rf"(?:runs?|ran) {NUMBER} \(", rest)
    moves = re.findall(rf"(adds?|takes? off) {NUMBER}", rest)
    total = Decimal(usual[1].replace(",", ""))
    for verb, number in moves:
        total += (1 if verb.startswith("add") else -1) * Decimal(number.replace(",", ""))
    assert total == Decimal(re.fullmatch(NUMBER, estimate)[1].replace(",", "")), sentence
    units = {
        found.replace("days", "day") for found in re.findall(r"[0-9] (s|min|h|days?)\b(?! ago)", sentence)
    }
    assert len(units) == 1, sentence
    shown = Decimal(re.fullmatch(NUMBER, estimate)[1].replace(",", ""))
    unit_s = {"s": 1, "min": 60, "h": 3_600, "day": 86_400}[units.pop()]
    assert float(shown) * unit_s == pytest.approx(p50_s, rel=0.06), sentence


def test_every_level_and_fact_has_words(duration_model, jobs) -> None:
    """No name of a feature or level reaches an operator."""
    for parts in [*((part,) for part in PARTS), ("virtual_cluster", "user", "time_limit"), ("user", "qos")]:
        state = DurationFeatureState(hierarchy([parts]), FACTS)
        job = {"user": "ada", "name": "Net_1", "gpus": 2, "virtual_cluster": "vc", "job_type": "r/i/64/1"}
        job |= dict.fromkeys(("account", "group", "queue", "qos", "gpu_type"), "x1")
        job |= {"cpus": 4, "nodes": 1, "time_limit_s": 7_200, "gpu_util_pct": 96, "gpu_mem_util_pct": 40}
        job |= {"requested_memory_mib": 20_480.0, "gpu_mem_mib": 8_192.0, "submit_time_s": FRIDAY_EVENING}
        for number in range(5):
            ended(state, job, 2.0, 60.0 + number, number)
        for facts in (
            {},
            {"cpus": None, "time_limit_s": None, "requested_memory_mib": None, "gpu_util_pct": None},
        ):
            for group in FACTS:
                text = say(state, head(state, math.log(2 * HOUR), {group: 0.4}), {**job, **facts})
                assert "_" not in text.replace("Net_1", "").replace("net_#", ""), text
                assert not re.search(r"nan|None|log |:", text), text
    reasons = [row.reason for row in duration_model.scorer.estimate(job_mappings(jobs.iloc[700:]))]
    assert len(set(reasons)) > 100
    assert all(" because " in reason and reason.endswith(".") for reason in reasons)


def test_the_reason_of_an_estimate_rests_on_the_moment_it_is_made(duration_model, jobs) -> None:
    job = job_mappings(jobs.iloc[[720]])[0]
    later = duration_model.scorer.estimate([job], at_s=job["submit_time_s"] + 40 * 86_400.0)[0].reason
    assert "days ago" in later
    explained = duration_model.scorer.explain(job)
    assert explained["reason"] == duration_model.scorer.estimate([job])[0].reason
    assert explained["account"]["estimate_s"] == pytest.approx(explained["prediction"])


def test_a_queue_is_told_what_each_of_its_jobs_is_told_alone(duration_model, jobs) -> None:
    """To the last bit, and in the same words, on every way of asking."""
    queue = job_mappings(jobs.iloc[700:780])
    scorer = duration_model.scorer
    for at_s in (None, queue[-1]["submit_time_s"] + 3_600.0):
        together = scorer.estimate(queue, at_s)
        assert together == [scorer.estimate([job], at_s)[0] for job in queue]
        assert [one.p50_s for one in together] == scorer.predict(queue, at_s).tolist()


def test_an_effect_is_what_its_terms_say_one_by_one(duration_model, jobs) -> None:
    scorer, state = duration_model.scorer, duration_model.scorer.state
    sizes = {state.names.index(name) for name in ("log_gpus", "log_cpus", "nodes") if name in state.names}
    found = 0
    for job in job_mappings(jobs.iloc[700:720]):
        row = state.features(job)
        scores = zip(scorer.log_head.terms, scorer.log_head.contributions_one(row), strict=True)
        said = sum(score for term, score in scores if sizes.issuperset(term.features))
        account = account_for_duration(state, scorer.log_head, job, row, 600.0)
        shared = "size" in level_parts(account.history.level)
        told = [part.effect for part in account.parts if "GPU" in part.subject]
        assert told == ([] if shared or not said else [said])
        found += len(told)
    assert found


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(1.0, "1 s"), (45.2, "45.2 s"), (720.0, "12 min"), (12_240.0, "3.4 h"), (181_440.0, "2.1 days")],
)
def test_run_times_for_people(seconds: float, text: str) -> None:
    assert human_duration(seconds) == text
