"""The end of the chain with real task runs: what happens after each word of the gate."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from foundation.site import Site
from tests.airflow_home import REPOSITORY
from tests.dags.run_facts import note_of, result_of, silent_tasks, state_of_each

FORM = {"cluster": "small", "version": 7}
pytestmark = pytest.mark.usefixtures("metadata_database")


@pytest.fixture
def registry(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The gate's word and the publications, in place of MLflow."""
    from lucid_models.releases import lifecycle as releases
    from pipeline.steps import release

    record: dict[str, Any] = {"published": [], "approved": True, "started by": ["ben"]}

    def read_verdict(site: Site, *, version: int | None, named: bool, replaces: int | None) -> dict[str, Any]:
        assert named
        record["asked to replace"] = replaces
        word = "approved" if record["approved"] else "refused"
        return {
            "cluster": site.cluster,
            "version": version or 7,
            "live": 5,
            "approved": record["approved"],
            "started_by": record["started by"],
            "reason": f"Release {version or 7} is {word}: mean JCT.",
            "summary": "**mean JCT**",
        }

    class Published:
        name = "lucid-release-small"

        def __init__(self, cluster: str, version: int) -> None:
            self.cluster, self.version = cluster, version
            self.moved = f"champion of {cluster}: none -> {version}"

    def publish_release(
        *,
        tracking_uri: str,
        cluster: str,
        version: int,
        replaces: int,
        named: bool,
        by: str,
        because: str,
        **_: str,
    ) -> Published:
        assert replaces == 5, "what was live when the verdict was checked, however long a person took"
        assert named  # by the form: what was rolled back meanwhile may go live again
        record["decided"] = (by, because)
        record["published"].append((tracking_uri, cluster, version))
        return Published(cluster, version)

    monkeypatch.setenv("LUCID_LAKE_URI", "lake")
    monkeypatch.setenv("LUCID_TRACKING_URI", "http://127.0.0.1:1")
    monkeypatch.setattr(release, "read_verdict", read_verdict)
    monkeypatch.setattr(releases, "publish_release", publish_release)
    return record


def publish_dag() -> Any:
    """The DAG as this environment makes it."""
    from airflow.dag_processing.dagbag import DagBag

    bag = DagBag(REPOSITORY / "dags" / "publish_release.py")
    assert bag.import_errors == {}
    return bag.dags["publish_release"]


@pytest.mark.slow
def test_an_approved_release_is_published_without_a_click_when_approval_is_off(
    monkeypatch: pytest.MonkeyPatch, registry
) -> None:
    monkeypatch.setenv("LUCID_REQUIRE_APPROVAL", "false")
    run = publish_dag().test(run_conf=FORM)
    assert silent_tasks(run) == set()
    assert state_of_each(run) == {
        **dict.fromkeys(("check_verdict", "request_approval", "publish_release"), "success"),
        "request_rest": "skipped",
    }
    assert registry["published"] == [("http://127.0.0.1:1", "small", 7)]
    assert registry["decided"] == ("dag_test", ""), "who started the run"


@pytest.mark.parametrize(
    ("installation", "form"), [(None, {}), ("true", {}), ("false", {"approval_required": True})]
)
def test_a_person_is_asked_where_the_installation_or_the_run_wants_it(
    monkeypatch: pytest.MonkeyPatch, registry, installation: str | None, form: dict[str, bool]
) -> None:
    from airflow.providers.standard.operators.hitl import ApprovalOperator

    asked = []

    def answer(task: Any, context: Any) -> dict[str, Any]:
        asked.append(task.subject)
        assert task.body.startswith("**mean JCT**")
        assert "(https://mlops.example.org/plugin/lucid/releases/small/7)" in task.body
        assert task.started_by == ["ben", "dag_test"], "who trained it, and who started this run"
        assert registry["published"] == []
        return {
            "chosen_options": [ApprovalOperator.APPROVE],
            "params_input": {"reason": "the gate is right"},
            "responded_by_user": {"id": "ann", "name": "Ann"},
        }

    monkeypatch.setattr(ApprovalOperator, "execute", answer)
    monkeypatch.setenv("LUCID_AIRFLOW_URL", "https://mlops.example.org")
    monkeypatch.delenv("LUCID_REQUIRE_APPROVAL", raising=False)
    if installation is not None:
        monkeypatch.setenv("LUCID_REQUIRE_APPROVAL", installation)
    publish_dag().test(run_conf={**FORM, **form, "replaces": 5})
    assert registry["asked to replace"] == 5
    assert asked == ["Publish release 7 of cluster small?"]
    assert registry["published"] == [("http://127.0.0.1:1", "small", 7)]
    assert registry["decided"] == ("Ann", "the gate is right")


def test_a_form_cannot_switch_off_what_the_installation_requires(
    monkeypatch: pytest.MonkeyPatch, registry
) -> None:
    from airflow.sdk.exceptions import ParamValidationError

    monkeypatch.setenv("LUCID_REQUIRE_APPROVAL", "true")
    dag = publish_dag()
    assert dag.params.get_param("approval_required").value is True  # what the form shows
    for less in (False, None):
        with pytest.raises(ParamValidationError):
            dag.test(run_conf={**FORM, "approval_required": less})
    assert registry["published"] == []


@pytest.mark.parametrize(
    ("setting", "state", "follows", "of_run"),
    [(None, "skipped", "skipped", "success"), ("failed", "failed", "upstream_failed", "failed")],
)
def test_a_refused_release_looks_refused_and_says_why(
    dag_bag: Any, registry, monkeypatch, setting, state, follows, of_run
) -> None:
    registry["approved"] = False
    if setting is not None:
        monkeypatch.setenv("LUCID_REFUSED_RUNS", setting)
    run = dag_bag.dags["publish_release"].test(run_conf=FORM)
    following = dict.fromkeys(("request_approval", "publish_release"), follows)
    assert state_of_each(run) == {"check_verdict": state, **following, "request_rest": "skipped"}
    assert str(run.state) == of_run
    assert note_of(run) == "Release 7 is refused: mean JCT."
    told = result_of(run, "check_verdict")
    assert told["sentence"] == note_of(run)
    assert told["outcome"] == ("failed" if setting == "failed" else "refused")
    assert registry["published"] == []


ANN = {"responded_by_user": {"id": "ann", "name": "Ann"}, "params_input": {"reason": "not on a Friday"}}


@pytest.mark.parametrize(
    ("response", "by", "because", "sentence"),
    [
        (ANN, "Ann", "not on a Friday", "turned down by Ann: not on a Friday"),
        (
            {"responded_by_user": None, "params_input": {}},
            "nobody",
            "no answer in time counts as a rejection",
            "turned down: no answer in time counts as a rejection",
        ),
    ],
    ids=["by a person", "by silence"],
)
def test_a_rejection_is_kept_with_the_release_and_told(
    response: dict[str, Any],
    by: str,
    because: str,
    sentence: str,
    monkeypatch: pytest.MonkeyPatch,
    registry,
) -> None:
    from airflow.providers.standard.operators.hitl import ApprovalOperator

    from lucid_models.releases import decisions

    kept: list[dict[str, Any]] = []
    monkeypatch.setattr(decisions, "reject_release", lambda **said: kept.append(said))

    def answer(task: Any, context: Any) -> Any:
        rejected = {"chosen_options": ["Reject"], "responded_at": datetime.now(UTC)}
        return task.execute_complete(context, {**rejected, **response})

    monkeypatch.setattr(ApprovalOperator, "execute", answer)
    monkeypatch.setenv("LUCID_REQUIRE_APPROVAL", "true")
    run = publish_dag().test(run_conf=FORM)
    assert state_of_each(run)["publish_release"] == "skipped"
    about = {"tracking_uri": "http://127.0.0.1:1", "cluster": "small", "version": 7}
    assert kept == [{**about, "by": by, "because": because}]
    assert result_of(run, "request_approval")["sentence"] == f"Release 7 of small was {sentence}"
    assert registry["published"] == []


@pytest.mark.parametrize("four_eyes", [True, False])
def test_who_started_it_does_not_approve_it(
    four_eyes: bool, monkeypatch: pytest.MonkeyPatch, registry
) -> None:
    """Ben trained it: his answer is not counted, and the question is asked again."""
    from airflow.providers.standard.operators.hitl import ApprovalOperator

    answers = [{"id": "2", "name": "ben"}, {"id": "3", "name": "carla"}]

    def answer(task: Any, context: Any) -> Any:
        event = {
            "chosen_options": [ApprovalOperator.APPROVE],
            "params_input": {"reason": "looks good"},
            "responded_at": datetime.now(UTC),
            "responded_by_user": answers.pop(0),
        }
        return task.execute_complete(context, event)

    monkeypatch.setattr(ApprovalOperator, "execute", answer)
    monkeypatch.setenv("LUCID_REQUIRE_APPROVAL", "true")
    monkeypatch.setenv("LUCID_FOUR_EYES", str(four_eyes).lower())
    publish_dag().test(run_conf=FORM)
    assert registry["decided"] == ("carla" if four_eyes else "ben", "looks good")


def test_a_task_that_was_marked_as_done_approves_nothing(monkeypatch: pytest.MonkeyPatch, registry) -> None:
    monkeypatch.setenv("LUCID_REQUIRE_APPROVAL", "true")
    dag = publish_dag()
    dag.get_task("publish_release").retries = 0
    run = dag.test(run_conf=FORM, mark_success_pattern="request_approval")
    assert state_of_each(run)["publish_release"] == "failed"
    assert note_of(run).startswith("No person approved this")
    assert registry["published"] == []


def test_a_persons_right_ends_at_their_clusters(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, registry
) -> None:
    """The table names who runs tests: for other clusters than this, and for other acts."""
    rights = tmp_path / "rights.toml"
    monkeypatch.setenv("LUCID_RIGHTS", str(rights))
    monkeypatch.setenv("LUCID_REQUIRE_APPROVAL", "false")
    row = '[[right]]\npeople = ["{}"]\nacts = ["{}"]\nclusters = ["{}"]\n'
    rights.write_text(
        row.format("dag_test", "publish", "large")
        + row.format("dag_test", "train", "*")
        + row.format("carla", "publish", "small")
    )
    run = publish_dag().test(run_conf=FORM)
    assert state_of_each(run)["check_verdict"] == "failed"
    assert "dag_test has no right to do this to cluster small (act publish). Ask carla" in note_of(run)
    assert registry["published"] == []
    rights.write_text(row.format("*", "*", "small"))
    publish_dag().test(run_conf=FORM)
    assert registry["published"] == [("http://127.0.0.1:1", "small", 7)]
