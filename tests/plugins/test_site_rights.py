"""The site's table of rights, and who is behind a run."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from foundation.errors import BadInputError, NotAllowedError
from lucid_airflow.access.acts import ROLES, Act, act_of_dags, dags_of
from lucid_airflow.access.run_rights import check_right, objection_to
from lucid_airflow.access.site_rights import read_site_rights
from lucid_airflow.dag_defaults import dag_ids
from lucid_airflow.handover import HANDED_ON, announce, announcements, started_by
from tests.evidence import Evidence

TABLE = """
[[right]]
people = ["ann", "ben"]
acts = ["train", "judge"]
clusters = ["venus", "earth"]

[[right]]
people = ["carla", "dora"]
acts = ["approve"]
clusters = ["venus"]

[[right]]
people = ["*"]
acts = ["study"]
clusters = ["*"]
"""


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "rights.toml"
    path.write_text(TABLE)
    monkeypatch.setenv("LUCID_RIGHTS", str(path))
    return path


def run_of(person: str | None, dag_id: str = "retrain_models", **more: Any) -> dict[str, Any]:
    """A task's context."""
    run = SimpleNamespace(triggering_user_name=person, conf=more.pop("conf", None))
    return {"dag": SimpleNamespace(dag_id=dag_id), "dag_run": run, **more}


def test_every_dag_is_an_act_and_every_act_is_some_roles() -> None:
    assert set(act_of_dags()) == set(dag_ids())
    assert all(dags_of(act) for act in Act)
    assert {act for acts in ROLES.values() for act in acts} == set(Act)
    assert not any(
        {Act.APPROVE, Act.PUBLISH} <= set(acts) for role, acts in ROLES.items() if role != "Lucid Admin"
    )


@pytest.mark.parametrize(
    ("person", "act", "cluster", "may"),
    [
        ("ann", Act.TRAIN, "venus", True),
        ("ann", Act.TRAIN, "mars", False),
        ("ann", Act.TRAIN, None, True),
        ("ann", Act.PUBLISH, "venus", False),
        ("ann", Act.PUBLISH, None, False),
        ("Ann", Act.TRAIN, "venus", False),
        ("zoe", Act.STUDY, "mars", True),
        ("*", Act.TRAIN, "venus", False),
        ("carla", Act.APPROVE, "*", False),
    ],
)
def test_a_table_gives_what_it_says(
    table: Path, person: str, act: Act, cluster: str | None, may: bool
) -> None:
    assert read_site_rights(table).may(person, act, cluster) is may


def test_without_a_table_roles_alone_decide(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LUCID_RIGHTS", raising=False)
    assert read_site_rights(None).may("anyone", Act.REMOVE, "venus")
    check_right(run_of("anyone", "remove_cluster"), "venus")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("right = 3", "only \\[\\[right\\]\\] may be"),
        ("[rights]\n", "has rights where only"),
        ('[[right]]\npeople = ["a"]\nacts = ["train"]\n', "Row 1 of .* has the fields acts, people"),
        ('[[right]]\npeople = "ann"\nacts = ["train"]\nclusters = ["*"]\n', "people is 'ann'"),
        ('[[right]]\npeople = []\nacts = ["train"]\nclusters = ["*"]\n', "people is \\[\\]"),
        ('[[right]]\npeople = ["a"]\nacts = ["delete"]\nclusters = ["*"]\n', "Unknown act 'delete'"),
        ("[[right]", "is no TOML"),
        ("\udce9", "is no TOML"),
    ],
)
def test_a_faulty_table_allows_nothing(table: Path, text: str, says: str) -> None:
    table.write_bytes(text.encode(errors="surrogateescape"))
    with pytest.raises(BadInputError, match=says):
        check_right(run_of("ann"), "venus")


def test_a_table_that_is_gone_allows_nothing(table: Path) -> None:
    table.unlink()
    with pytest.raises(BadInputError, match="cannot be read"):
        check_right(run_of("ann"), "venus")


def test_an_empty_table_allows_nothing(table: Path) -> None:
    table.write_text("")
    with pytest.raises(NotAllowedError, match="Ask another person with that right"):
        check_right(run_of("ann"), "venus")


@pytest.mark.evidence(table="faults", rows=("32",))
def test_a_person_is_asked_about_by_the_act_of_the_dag(table: Path, evidence: Evidence) -> None:
    check_right(run_of("ann"), "venus")
    check_right(run_of(None), "mars")  # the pipeline's own
    with pytest.raises(
        NotAllowedError, match=r"ann has no right to do this to cluster mars \(act train\)"
    ) as refused:
        check_right(run_of("ann"), "mars")
    evidence("faults", "32", str(refused.value))
    with pytest.raises(NotAllowedError, match=r"act roll_back"):
        check_right(run_of("ann", "rollback_release"), "venus")


def test_an_answer_counts_by_table_and_by_four_eyes(table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert objection_to("carla", "venus", ["ann"]) is None
    assert objection_to("ann", "venus", ["ben"]) == (
        "ann has no right to answer for cluster venus (act approve): carla or dora must."
    )
    assert str(objection_to("carla", "venus", ["ann", "carla"])).endswith(
        "(LUCID_FOUR_EYES): dora must answer."
    )
    monkeypatch.setenv("LUCID_FOUR_EYES", "false")
    assert objection_to("carla", "venus", ["carla"]) is None
    monkeypatch.setenv("LUCID_FOUR_EYES", "true")
    monkeypatch.delenv("LUCID_RIGHTS")
    assert "another person with that right must answer" in str(objection_to("carla", "venus", ["carla"]))


def event(**extra: Any) -> Any:
    return SimpleNamespace(extra=extra, timestamp=0)


def test_who_started_something_travels_with_its_events() -> None:
    task = SimpleNamespace(outlets=["lake"])
    left = {"lake": SimpleNamespace(extra={})}
    announce(run_of("ann", task=task, outlet_events=left), {"cluster": "venus"})
    assert left["lake"].extra == {"cluster": "venus", "started_by": ["ann"]}
    seen = {"lake": [event(**left["lake"].extra), event(cluster="earth", started_by=["zoe"])]}
    assert started_by(run_of(None, triggering_asset_events=seen), "venus") == ["ann"]
    assert started_by(run_of("ben", triggering_asset_events=seen), "venus") == ["ann", "ben"]
    handed_on = {HANDED_ON: [{"cluster": "earth", "started_by": ["zoe"]}]}
    assert started_by(run_of(None, conf=handed_on), "earth") == ["zoe"]


def test_the_pipelines_own_events_name_nobody() -> None:
    left = {"lake": SimpleNamespace(extra={})}
    announce(run_of(None, task=SimpleNamespace(outlets=["lake"]), outlet_events=left), {"cluster": "venus"})
    assert left["lake"].extra == {"cluster": "venus"}


def test_an_event_that_a_person_made_by_hand_starts_nothing() -> None:
    seen = {"verdict": [event(cluster="venus", version=3, from_rest_api=True)]}
    with pytest.raises(NotAllowedError, match="Trigger the DAG itself"):
        announcements(run_of(None, triggering_asset_events=seen))
