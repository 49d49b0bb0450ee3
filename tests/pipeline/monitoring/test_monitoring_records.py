"""What stays of a pass: pages, a run of MLflow, and at most one request to retrain in a while."""

import json
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pandas as pd
import pytest

from cluster_logs.lake import Lake
from foundation import parts
from foundation.errors import BadInputError, NotFoundError
from foundation.parts import Part
from foundation.site import Site
from lucid_models.registry import Registry
from lucid_models.releases.lifecycle import publish_release
from pipeline.monitoring.part_health import MonitorCheck, PageSection, PartHealth
from pipeline.monitoring.records import EXPERIMENT, MonitoringPass, PassRequest, make_pass
from pipeline.monitoring.rules import Finding, MonitorSettings, Urgency
from tests.fixtures import ReleaseShop, forget_monitoring, small_jobs, small_throughput

TRAINED_UNTIL = datetime(2020, 4, 10, tzinfo=UTC)


def changed_lake(folder: Path) -> str:
    """Ten days of the small cluster, and ten in which everybody is new."""
    later = small_jobs(600, seed=5)
    shift = pd.Timedelta(days=10)
    for column in ("submit_time", "start_time", "end_time"):
        later[column] += shift
    later["user"] = "new-" + later["user"]
    later["job_id"] = "later-" + later["job_id"]
    lake = Lake(str(folder))
    lake.write_jobs("small", pd.concat([small_jobs(), later], ignore_index=True))
    lake.write_throughput("small", small_throughput(144 * 20))
    return str(folder)


@pytest.fixture
def champion(local_shop: ReleaseShop) -> ReleaseShop:
    forget_monitoring(local_shop.uri)
    publish_release(tracking_uri=local_shop.uri, cluster="small", version=local_shop.approved(1))
    return local_shop


def one_pass(local_shop: ReleaseShop, tmp_path: Path, day: float, **options) -> MonitoringPass:
    return make_pass(
        Site(changed_lake(tmp_path / "lake"), local_shop.uri, options.pop("cluster", "")),
        pages_dir=tmp_path / "pages",
        asked=PassRequest(as_of=TRAINED_UNTIL + timedelta(days=day), **{"may_request": True, **options}),
    )


def test_a_request_is_not_repeated_before_enough_new_log_came_in(
    champion: ReleaseShop, tmp_path: Path
) -> None:
    first = one_pass(champion, tmp_path, 5, pass_id="first")
    assert first.report.decision == "retrain"
    assert first.retraining.requested
    again = one_pass(champion, tmp_path, 5, pass_id="first")
    assert again.retraining.requested  # the same pass, tried again
    for days in (5, 6, 7.9):
        later = one_pass(champion, tmp_path, days, pass_id=f"after {days}")
        assert later.report.decision == "retrain"
        assert not later.retraining.requested
        assert "2020-04-15 00:00" in later.retraining.sentence
    assert one_pass(champion, tmp_path, 8.1, pass_id="last").retraining.requested


def test_a_pass_by_hand_requests_nothing_and_does_not_count(champion: ReleaseShop, tmp_path: Path) -> None:
    by_hand = one_pass(champion, tmp_path, 9, may_request=False)
    assert not by_hand.retraining.requested
    assert "requests none" in by_hand.retraining.sentence


def test_a_pass_leaves_a_run_and_pages(champion: ReleaseShop, tmp_path: Path) -> None:
    done = one_pass(champion, tmp_path, 9.5, may_request=False, pass_id="kept")
    (run,) = Registry(champion.uri).find_runs(EXPERIMENT, {"pass_id": "kept"})
    assert run.tags["decision"] == "retrain"
    assert run.tags["release_version"] == str(done.report.release_version)
    assert run.metrics["drift/user/unseen"] == 1.0
    assert run.metrics["duration/mae_log10"] == pytest.approx(
        done.report.duration.overall.mae_log10, rel=1e-5
    )
    report = json.loads(Registry(champion.uri).read_run_file(run.run_id, "report.json"))
    assert report == json.loads((done.folder / "report.json").read_text())
    assert report["reasons"] == list(done.report.reasons)
    index = (tmp_path / "pages" / "index.html").read_text()
    assert f'href="{done.page}"' in index
    assert (tmp_path / "pages" / done.page).is_file()
    assert [path.name for path in (tmp_path / "pages").iterdir() if path.name.startswith(".")] == []


def test_who_cannot_be_watched(local_shop: ReleaseShop, tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match="No cluster has a release"):
        one_pass(local_shop, tmp_path, 5)
    publish_release(tracking_uri=local_shop.uri, cluster="small", version=local_shop.approved(1))
    with pytest.raises(NotFoundError, match=r"Cluster other has no release.*clusters with releases: small"):
        one_pass(local_shop, tmp_path, 5, cluster="other")
    local_shop.approved(1, cluster="other")
    with pytest.raises(BadInputError, match=r"Several clusters have releases .*: other, small"):
        one_pass(local_shop, tmp_path, 5)


def test_the_command_prints_one_document(champion: ReleaseShop, tmp_path: Path, lucid) -> None:
    lake = changed_lake(tmp_path / "lake")
    words = ("monitor", "--lake", lake, "--tracking-uri", champion.uri, "--as-of", "2020-04-19")
    said = lucid(*words, "--out", tmp_path / "pages", "--json")
    assert said.code == 0, said.err
    assert said.json["decision"] == "retrain"
    assert said.json["cluster"] == "small"
    assert any("New users: 100%" in reason for reason in said.json["reasons"])
    assert Path(said.json["page"]).is_file()
    people = lucid(*words, "--window-days", "3", "--setting", "unknown_share=1", "--setting", "psi_major=40")
    assert people.code == 0, people.err
    assert "decision" in people.out
    assert (tmp_path / ".lucid" / "monitoring" / "index.html").is_file()
    refused = lucid(*words, "--setting", "psi_mayor=1")
    assert refused.code == 1
    assert "psi_mayor" in refused.err


@dataclass(frozen=True)
class ToyHealth(PartHealth):
    """Of a part that is never content."""

    broken: int = 3

    def findings(self, settings: MonitorSettings) -> list[Finding]:
        """One that a person should see."""
        return [Finding(Urgency.WATCH, "toys", "broken", f"{self.broken} toys are broken.")]

    def figures(self) -> dict[str, float | None]:
        """How many, and what was not measured."""
        return {"toys/broken": float(self.broken), "toys/lost": None}

    def section(self) -> PageSection:
        """The same for people."""
        return PageSection("Toys", facts={"broken": "3 of them"}, note="none was lost")


TOYS = MonitorCheck("toys", lambda _: ToyHealth())
NO_BALLS = MonitorCheck("balls", lambda _: None)


def test_installed_parts_are_judged_too(
    champion: ReleaseShop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    toys = (Part(name, name, monitor_check=f"{__name__}:{name.upper()}") for name in ("toys", "no_balls"))
    monkeypatch.setattr(parts, "installed_parts", lambda installed=tuple(toys): installed)
    done = one_pass(champion, tmp_path, 9, pass_id="toys")
    document = json.loads((done.folder / "report.json").read_text())
    assert (document["toys"], document["balls"]) == ({"broken": 3}, None)
    assert not {"nodes", "inference", "waits", "parts"} & set(document)
    assert "3 toys are broken." in [finding["sentence"] for finding in document["findings"]]
    page = (done.folder / "index.html").read_text()
    assert page.index("<h2>Toys</h2>") < page.index("3 of them") < page.index("one was lost")
    (run,) = Registry(champion.uri).find_runs(EXPERIMENT, {"pass_id": "toys"})
    assert (run.metrics["toys/broken"], "toys/lost" in run.metrics) == (3.0, False)
