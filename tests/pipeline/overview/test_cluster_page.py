"""The page of a cluster, from a real lake and a real registry."""

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from cluster_logs.lake import Lake
from foundation import parts
from foundation.errors import NotFoundError
from foundation.parts import Part
from foundation.site import Site
from lucid_models.releases.lifecycle import publish_release
from pipeline.kept_reports import PagesOfClusters
from pipeline.overview.cluster_page import SAMPLES, ClusterPage, NewestPage, read_cluster_page
from pipeline.overview.clusters import ClusterAtAGlance, DataAtAGlance
from pipeline.overview.publication_steps import StepState, publication_steps
from pipeline.profiling.profile_store import write_profile_set
from profiler_jobs.profile_table import ProfileSet


def look(tmp_path: Path, tracking_uri: str, cluster: str = "small") -> ClusterPage:
    return read_cluster_page(Site(str(tmp_path / "lake"), tracking_uri, cluster), state_dir=tmp_path)


@pytest.fixture
def lake(tmp_path: Path, small_tables: Any) -> Lake:
    lake = Lake(str(tmp_path / "lake"))
    lake.write_jobs("small", small_tables.jobs)
    names = sorted(small_tables.jobs["virtual_cluster"].unique())
    lake.write_nodes("small", pd.DataFrame({"virtual_cluster": names, "nodes": 3, "gpus_per_node": 4}))
    write_profile_set(Site(lake=lake.uri, cluster="small"), ProfileSet(small_tables.solo, small_tables.pairs))
    return lake


def refused(reason: str, rows: int, first: int = 1) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "reason": reason,
            "column": "gpu_num",
            "value": "<b>many</b>",
            "source_format": "helios",
            "source_file": "jobs.csv",
            "source_row": range(first, first + rows),
            "raw_row": "=cmd()",
        }
    )


def test_a_cluster_in_one_page(lake: Lake, tmp_path: Path, local_shop: Any, small_tables: Any) -> None:
    lake.add_quarantine("small", "a", refused("unknown_state", 30_000))
    lake.add_quarantine("small", "b", refused("unreadable_number", 2))
    docs = tmp_path / "data_docs" / "small" / "jobs"
    docs.mkdir(parents=True)
    (docs / "index.html").write_text("")
    publish_release(tracking_uri=local_shop.uri, cluster="small", version=local_shop.approved(1), by="ann")
    seen = look(tmp_path, local_shop.uri)
    assert seen.problem is None
    assert sum(seen.jobs_by_day.values()) == len(small_tables.jobs)
    assert list(seen.jobs_by_day) == sorted(seen.jobs_by_day)
    assert {row.gpus_per_node for row in seen.nodes} == {4}
    assert [(each.reason, each.rows, len(each.samples)) for each in seen.quarantine] == [
        ("unknown_state", 30_000, SAMPLES),
        ("unreadable_number", 2, 2),
    ]
    assert (seen.quarantine[1].samples[0].value, seen.quarantine[1].samples[0].row) == ("<b>many</b>", 1)
    assert seen.docs == {"jobs": "small/jobs/index.html"}
    assert seen.profiles is not None
    assert seen.profiles.simulated_job_types == small_tables.solo["job_type"].nunique()
    assert seen.held is not None
    assert seen.held.rows["jobs"] == len(small_tables.jobs)
    assert [table.first_day for table in seen.tables] == [None] * 4
    states = {step.name: step.state for step in seen.steps}
    assert states["Nodes known"] == states["Judged"] == states["Approved"] == states["Live"] == StepState.DONE
    assert states["Log recent enough"] == states["Profiles measured"] == StepState.ATTENTION
    assert states["Days to learn from"] == states["Monitored"] == StepState.MISSING


PAGES = PagesOfClusters("poems", "write_poem", "poem.json", "A poem", lambda poem: poem["lines"])


def test_a_part_says_what_its_newest_page_of_the_cluster_says(
    lake: Lake, tmp_path: Path, local_shop: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    part = Part("poems", "Poems", pages="poems:PAGES")
    monkeypatch.setattr(parts, "installed_parts", lambda: (part,))
    monkeypatch.setattr(parts, "at_place", lambda place: PAGES)
    assert look(tmp_path, local_shop.uri).part_pages == [NewestPage("poems", "A poem", "write_poem")]
    for day in ("2026-01-01", "2026-01-02"):
        folder = tmp_path / "poems" / "small" / day
        folder.mkdir(parents=True)
        (folder / "poem.json").write_text(json.dumps({"lines": [day]}))
    assert look(tmp_path, local_shop.uri).part_pages == [
        NewestPage("poems", "A poem", "write_poem", "small/2026-01-02/index.html", ["2026-01-02"])
    ]


def test_a_cluster_of_which_there_is_nothing_is_said(lake: Lake, tmp_path: Path, local_shop: Any) -> None:
    with pytest.raises(NotFoundError, match="Clusters with jobs: small"):
        look(tmp_path, local_shop.uri, "other")


def test_a_registry_that_does_not_answer_leaves_the_data(lake: Lake, tmp_path: Path) -> None:
    seen = look(tmp_path, "http://127.0.0.1:1")
    assert seen.problem is not None
    assert seen.jobs_by_day


def test_steps_of_a_cluster_without_release_end_with_training() -> None:
    data = DataAtAGlance("2020-04-01", "2020-04-30", 30, 2, False, "real", None, None, None)
    cluster = ClusterAtAGlance("c", None, None, (), "", None, None, data, ())
    steps = publication_steps(cluster, simulated_profiles=None)
    assert [step.state.value for step in steps] == ["done", "done", "missing", "missing", "missing"]
    assert [step.dag_id for step in steps[-2:]] == ["profile_workloads", "retrain_models"]
