"""The end of the chain with real task runs: what happens after each word of the gate."""

from typing import Any

import pytest

pytestmark = pytest.mark.usefixtures("metadata_database")


@pytest.fixture
def registry(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The gate's word and the publications, in place of MLflow."""
    from lucid_models.releases import lifecycle as releases
    from pipeline import release_gate

    record: dict[str, Any] = {"published": [], "approved": True}

    def read_verdict(*, tracking_uri: str, version: int | None) -> dict[str, Any]:
        word = "approved" if record["approved"] else "refused"
        return {
            "version": version or 7,
            "approved": record["approved"],
            "reason": f"Release {version or 7} is {word}: mean JCT.",
            "summary": "**mean JCT**",
        }

    class Published:
        name = "lucid-release"

        def __init__(self, version: int) -> None:
            self.version = version

    def publish_release(*, tracking_uri: str, version: int) -> Published:
        record["published"].append((tracking_uri, version))
        return Published(version)

    monkeypatch.setenv("LUCID_TRACKING_URI", "http://127.0.0.1:1")
    monkeypatch.setattr(release_gate, "read_verdict", read_verdict)
    monkeypatch.setattr(releases, "publish_release", publish_release)
    return record


def states(run: Any) -> dict[str, str]:
    return {task.task_id: str(task.state) for task in run.get_task_instances()}


def test_an_approved_release_is_published_without_a_click_when_approval_is_off(
    dag_bag: Any, registry
) -> None:
    run = dag_bag.dags["publish_release"].test(run_conf={"version": 7, "approval_required": False})
    assert states(run) == dict.fromkeys(("check_verdict", "request_approval", "publish_release"), "success")
    assert registry["published"] == [("http://127.0.0.1:1", 7)]


def test_a_refused_release_ends_well_and_unpublished(dag_bag: Any, registry) -> None:
    registry["approved"] = False
    run = dag_bag.dags["publish_release"].test(run_conf={"version": 7, "approval_required": False})
    assert states(run) == {
        "check_verdict": "success",
        "request_approval": "skipped",
        "publish_release": "skipped",
    }
    assert str(run.state) == "success"
    assert registry["published"] == []
