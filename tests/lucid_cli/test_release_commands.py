"""The life of a release from a shell: built, judged, published, followed, replaced and rolled back."""

import csv
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.command_line import Said, Shell
from tests.fixtures import forget_monitoring, forget_releases
from tests.small_cluster import CLUSTER, HOLD_OUT_DAYS, World

RELEASE = {"name", "version", "alias", "models", "settings", "verdict"}
RANKED = {"job_id", "priority", "estimated_duration_s", "reason"}
DOCUMENTS = (
    "built",
    "judged",
    "published",
    "rebuilt",
    "judged again",
    "replaced",
    "rolled back",
    "champion",
)
WAITING = (
    ("late", "u0", "net0_lr0", 1, "2020-04-18T00:09:00"),
    ("early", "u1", "net1_lr0", 8, "2020-04-18T00:01:00"),
    ("between", "u2", "net2_lr0", 2, "2020-04-18T00:05:00"),
)


@dataclass(frozen=True)
class History:
    """What each step said, what was refused on the way, and how people are shown the second release."""

    said: dict[str, Any]
    unjudged: Said
    expired: Said
    shown: str


def write_queue(file: Path) -> None:
    with file.open("w", newline="") as opened:
        rows = csv.writer(opened)
        rows.writerow(("job_id", "user", "name", "gpus", "submit_time", "virtual_cluster"))
        rows.writerows((*job, "vc0") for job in WAITING)


@pytest.fixture(scope="module")
def history(
    world: World,
    mlflow_server: str,
    trained_versions: dict[str, int],
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[History]:
    forget_releases(mlflow_server)
    shell = Shell(
        tmp_path_factory.mktemp("releases"),
        mlflow_server,
        LUCID_LAKE_URI=world.lake_uri,
        LUCID_GATE_RULES='{"worst_grade": "D"}',
    )
    write_queue(shell.folder / "queue.csv")
    rank, days = ("live", "rank", "--queue", "queue.csv"), ("--hold-out-days", str(HOLD_OUT_DAYS))
    pinned = [word for kind, number in trained_versions.items() for word in (f"--{kind}", str(number))]
    pinned.append("--allow-simulated-profiles")
    said: dict[str, Any] = {}
    said["ranked by none"] = shell.document(*rank)
    said["none yet"] = shell.document("release", "list")
    said["built"] = shell.document("release", "build", "--cluster", CLUSTER, *days, *pinned)
    unjudged = shell.run("release", "publish")
    said["judged"] = shell.document("release", "validate", "--out", "verdict")
    said["published"] = shell.document("release", "publish")
    said["ranked"] = shell.document(*rank)
    said["watched"] = shell.document("monitor")
    said["explained"] = shell.document("explain", "--model", "packing", "--release", "champion")
    said["rebuilt"] = shell.document("release", "build", *days, *pinned, "--setting", "profiling_limit_s=100")
    said["judged again"] = shell.document("release", "validate")
    expired = shell.run("release", "publish", "--replaces", "0")
    said["replaced"] = shell.document("release", "publish", "--cluster", CLUSTER)
    shown = shell.run("release", "show").out
    said["rolled back"] = shell.document("release", "rollback")
    said["champion"] = shell.document("release", "show", "--alias", "champion")
    said["listed"] = shell.document("release", "list", "--cluster", CLUSTER)
    assert (shell.folder / "verdict" / "verdict.md").is_file()
    yield History(said, unjudged, expired, shown)
    forget_monitoring(mlflow_server)
    forget_releases(mlflow_server)


@pytest.mark.parametrize("step", DOCUMENTS)
def test_every_step_says_the_release_that_it_is_about(
    history: History, trained_versions: dict[str, int], step: str
) -> None:
    document = history.said[step]
    assert set(document) >= RELEASE
    assert document["name"] == f"lucid-release-{CLUSTER}"
    assert {kind: model["version"] for kind, model in document["models"].items()} == trained_versions
    assert {len(model["digest"]) for model in document["models"].values()} == {64}
    assert document["settings"]["profiling_limit_s"] == (200.0 if document["version"] == 1 else 100.0)


def test_versions_and_aliases_follow_the_steps(history: History) -> None:
    named = [(step, history.said[step]["version"], history.said[step]["alias"]) for step in DOCUMENTS]
    assert named == [
        ("built", 1, "challenger"),
        ("judged", 1, "challenger"),
        ("published", 1, "champion"),
        ("rebuilt", 2, "challenger"),
        ("judged again", 2, "challenger"),
        ("replaced", 2, "champion"),
        ("rolled back", 1, "champion"),
        ("champion", 1, "champion"),
    ]
    assert history.said["replaced"]["moved"] == f"champion of {CLUSTER}: 1 -> 2"
    assert history.said["rolled back"]["moved"] == f"champion of {CLUSTER}: 2 -> 1"


def test_a_verdict_is_said_within_its_release_and_beside_it(history: History) -> None:
    said = history.said
    assert said["built"]["verdict"] is said["rebuilt"]["verdict"] is None
    judged = said["judged"]
    assert judged["verdict"]["approved"] is judged["approved"] is True
    assert judged["verdict"]["sentence"] == judged["sentence"] == said["champion"]["verdict"]["sentence"]
    assert judged["mlflow_path"].startswith("experiments/")


def test_what_was_not_judged_is_not_published(history: History) -> None:
    refused = history.unjudged
    assert (refused.code, refused.out) == (2, "")
    assert "lucid release validate" in refused.err


def test_what_was_to_replace_another_release_than_the_live_one_is_not_published(history: History) -> None:
    refused = history.expired
    assert (refused.code, refused.out) == (2, "")
    assert "has expired: it was to go live when none was, and release 1 is live now." in refused.err


def test_all_releases_are_listed_the_newest_first(history: History) -> None:
    assert history.said["none yet"] == {"releases": []}
    listed = history.said["listed"]["releases"]
    assert [release["version"] for release in listed] == [2, 1]
    assert all(set(release) >= RELEASE and release["verdict"]["approved"] for release in listed)


def test_people_are_shown_the_settings_that_are_not_defaults_and_no_reason_where_none_was_given(
    history: History,
) -> None:
    shown = " ".join(history.shown.split())
    assert "profiling_limit_s 100" in shown
    assert "profiling_order" in history.said["replaced"]["settings"]
    assert "profiling_order" not in shown
    assert "kind publish" in shown
    assert "because" not in shown


def test_a_queue_is_ranked_by_the_release_and_without_one_first_in_first_out(history: History) -> None:
    without, ranked = history.said["ranked by none"], history.said["ranked"]
    assert "fallback" in without["release"]
    assert [job["job_id"] for job in without["jobs"]] == ["early", "between", "late"]
    assert "1" in ranked["release"]
    assert CLUSTER in ranked["release"]
    assert {job["job_id"] for job in ranked["jobs"]} == {"early", "between", "late"}
    for job in (*without["jobs"], *ranked["jobs"]):
        assert set(job) >= RANKED
    assert all(job["estimated_duration_s"] > 0 for job in ranked["jobs"])


def test_the_published_release_is_watched_and_its_models_are_explained(
    history: History, trained_versions: dict[str, int]
) -> None:
    watched, explained = history.said["watched"], history.said["explained"]
    assert {"decision", "findings", "drift", "reasons", "page"} <= set(watched)
    assert (watched["cluster"], watched["release_version"], watched["release_alias"]) == (
        CLUSTER, 1, "champion",
    )  # fmt: skip
    assert Path(watched["page"]).is_file()
    assert {"model", "name", "version", "global", "predictions", "figures"} <= set(explained)
    assert (explained["name"], explained["version"]) == ("lucid-packing", trained_versions["packing"])
