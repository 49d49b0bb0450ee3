"""Settings of a release stand in words, nested ones as rows of their own."""

from dataclasses import asdict, replace
from typing import Any

import pytest

from foundation.jsonable import to_jsonable
from lucid_models.releases.store import ReleaseInfo
from parts.waits.steps.release_settings import says_when_jobs_start
from pipeline.overview.release_contents import (
    release_differences,
    release_parts,
    setting_in_words,
)
from simulator.policies.registry import policy_class

RELEASE = ReleaseInfo(
    name="lucid-release-small",
    version=2,
    alias=None,
    aliases=(),
    cluster="small",
    created="2020-05-01T00:00:00+00:00",
    models={"duration": {"name": "lucid-duration", "version": 3, "digest": "ab"}},
    policy="lucid",
    settings={"profiling_limit_s": 60, "orchestrator": {"window_days": 2, "shares": [1, 2]}},
    choice=None,
    parts={"node_sleep": {"control": "forecast", "buffer_nodes": 2}},
    training={"until": "2020-04-30", "datasets": {}},
    provenance={},
    verdict=None,
    run_id="",
    manifest_sha256="",
)


def rows_of(release: ReleaseInfo) -> dict[str, dict[str, Any]]:
    return {part.title: {each.what: each.value for each in part.settings} for part in release_parts(release)}


def test_parts_that_are_there_are_shown_with_their_settings_in_words() -> None:
    assert rows_of(RELEASE) == {
        "Settings of lucid that are not its defaults": {
            "profiling limit (s)": 60,
            "orchestrator: window (days)": 2,
            "orchestrator: shares": [1, 2],
        },
        "Sleeping nodes": {"control": "forecast", "buffer nodes": 2},
    }
    assert rows_of(replace(RELEASE, settings={}, parts={})) == {}


def test_defaults_that_a_release_pins_are_not_told_as_its_own() -> None:
    pinned = to_jsonable(asdict(policy_class("lucid").Settings()))
    release = replace(RELEASE, settings=pinned, parts={})
    assert len(pinned) > 20
    assert rows_of(release) == {}
    changed = {**pinned, "profiling_limit_s": 61, "allow_simulated_profiles": True}
    assert rows_of(replace(release, settings=changed)) == {
        "Settings of lucid that are not its defaults": {
            "profiling limit (s)": 61,
            "allow simulated profiles": True,
        }
    }
    elsewhere = replace(release, policy="of_another_package", settings={"window_s": 5})
    assert rows_of(elsewhere) == {
        "Settings of of_another_package that are not its defaults": {"window (s)": 5}
    }


def test_who_says_when_a_job_starts_is_told_with_and_without_a_wait_model() -> None:
    assert "carries no wait model" in says_when_jobs_start(RELEASE)
    models = {**RELEASE.models, "waits": {"name": "lucid-waits", "version": 4, "digest": "ab"}}
    assert "wait model (version 4) or" in says_when_jobs_start(
        replace(RELEASE, models=models, parts={"waits": {"least_jobs": 30}})
    )


def test_a_difference_names_what_one_of_the_two_has_not() -> None:
    other = replace(RELEASE, settings={"profiling_limit_s": 100}, parts={"loaning": {"headroom": 0.02}})
    assert [(each.what, each.before, each.now) for each in release_differences(RELEASE, other)] == [
        ("profiling limit (s)", 100, 60),
        ("orchestrator: window (days)", None, 2),
        ("orchestrator: shares", None, [1, 2]),
        ("sleeping nodes: control", None, "forecast"),
        ("sleeping nodes: buffer nodes", None, 2),
        ("servers on loan: headroom", 0.02, None),
    ]
    assert release_differences(RELEASE, RELEASE) == []


@pytest.mark.parametrize(
    ("name", "words"),
    [("gss", "gss"), ("s", "s"), ("jct_price_pct", "jct price (%)"), ("max_gpus", "max (GPUs)")],
)
def test_units_are_taken_from_names(name: str, words: str) -> None:
    assert setting_in_words(name) == words
