"""Settings of a release stand in words, nested ones as rows of their own."""

from dataclasses import asdict, replace
from typing import Any

import pytest

from foundation import parts
from foundation.jsonable import to_jsonable
from foundation.parts import Part
from lucid_models.releases.store import ReleaseInfo
from pipeline.overview.release_contents import (
    release_differences,
    release_parts,
    setting_in_words,
)
from pipeline.release.part_settings import PartOfRelease
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
    parts={"toys": {"control": "forecast", "buffer_nodes": 2}},
    training={"until": "2020-04-30", "datasets": {}},
    provenance={},
    verdict=None,
    run_id="",
    manifest_sha256="",
)


TOYS = PartOfRelease("toys", "Toys on the nodes", "toys", pinned=dict)
GAMES = PartOfRelease("games", "Games", "games", pinned=dict)


@pytest.fixture(autouse=True)
def only_toys(monkeypatch: pytest.MonkeyPatch) -> None:
    brought = [Part(name, "", release_settings=f"{__name__}:{name.upper()}") for name in ("toys", "games")]
    monkeypatch.setattr(parts, "installed_parts", lambda: brought)
    monkeypatch.setattr(parts, "at_place", lambda place: globals()[place.rpartition(":")[2]])


def rows_of(release: ReleaseInfo) -> dict[str, dict[str, Any]]:
    return {part.title: {each.what: each.value for each in part.settings} for part in release_parts(release)}


def test_parts_that_are_there_are_shown_with_their_settings_in_words() -> None:
    assert rows_of(RELEASE) == {
        "Settings of lucid that are not its defaults": {
            "profiling limit (s)": 60,
            "orchestrator: window (days)": 2,
            "orchestrator: shares": [1, 2],
        },
        "Toys on the nodes": {"control": "forecast", "buffer nodes": 2},
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


def test_a_difference_names_what_one_of_the_two_has_not() -> None:
    other = replace(RELEASE, settings={"profiling_limit_s": 100}, parts={"games": {"headroom": 0.02}})
    assert [(each.what, each.before, each.now) for each in release_differences(RELEASE, other)] == [
        ("profiling limit (s)", 100, 60),
        ("orchestrator: window (days)", None, 2),
        ("orchestrator: shares", None, [1, 2]),
        ("toys: control", None, "forecast"),
        ("toys: buffer nodes", None, 2),
        ("games: headroom", 0.02, None),
    ]
    assert release_differences(RELEASE, RELEASE) == []


@pytest.mark.parametrize(
    ("name", "words"),
    [("gss", "gss"), ("s", "s"), ("jct_price_pct", "jct price (%)"), ("max_gpus", "max (GPUs)")],
)
def test_units_are_taken_from_names(name: str, words: str) -> None:
    assert setting_in_words(name) == words
