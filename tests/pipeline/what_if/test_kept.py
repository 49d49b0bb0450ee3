"""What is kept of a what-if, for how long, and that its figures are those of the replays."""

import json
from pathlib import Path

import pandas as pd
import pytest

from cluster_logs.lake import Lake
from cluster_logs.synthetic.generator import synthesize, write_to_lake
from foundation.errors import NotFoundError
from foundation.site import Site
from pipeline.studies.sweeps.runs import SweepRun
from pipeline.studies.sweeps.sweep import SweepPlan, read_records
from pipeline.what_if import kept
from pipeline.what_if.kept import (
    grade_of_what_if,
    keep_what_if,
    list_kept,
    read_kept,
    variant_names,
    what_if_folder,
)
from tests.pipeline.what_if.what_if_results import RUN_ID, asked, simulated_sweep


@pytest.fixture(scope="module")
def sweep_uri(tmp_path_factory: pytest.TempPathFactory) -> str:
    return simulated_sweep(tmp_path_factory.mktemp("sweep"))


def test_its_figures_are_those_of_the_replays(sweep_uri: str, tmp_path: Path) -> None:
    document = keep_what_if(SweepPlan.load(sweep_uri), asked(), tmp_path)
    assert document == read_kept(tmp_path, RUN_ID)
    assert document["asked"]["asked_by"] == "ada"
    assert [variant["name"] for variant in document["variants"]] == [
        "fifo",
        "fifo, nodes vc0 -1",
        "lucid",
        "lucid, nodes vc0 -1",
    ]
    records = list(read_records(SweepPlan.load(sweep_uri)).values())
    for variant, record in zip(document["variants"], records, strict=True):
        for metric in ("mean_jct_s", "mean_queuing_delay_s"):
            assert variant[metric] == pytest.approx(record["figures"][metric])
            assert variant[f"{metric}_low"] <= variant[metric] <= variant[f"{metric}_high"]
    assert [variant["gpus"] for variant in document["variants"]] == [32, 24, 32, 24]
    assert document["reference"] == "fifo"
    fewer = document["variants"][1]["change"]["mean_queuing_delay_s"]
    assert fewer["difference_s"] > 0
    assert fewer["outcome"] in ("worse", "may be chance")
    rows = pd.DataFrame(document["virtual_clusters"])
    assert set(rows["virtual_cluster"]) == {"vc0", "vc1"}
    assert rows.groupby("variant")["jobs"].sum().to_dict() == {
        variant["name"]: variant["jobs"] for variant in document["variants"]
    }


def test_a_run_that_failed_is_kept_with_its_error(sweep_uri: str, tmp_path: Path) -> None:
    plan = SweepPlan.load(sweep_uri)
    first = next(iter(plan.runs))
    record = Path(plan.record_uri(first))
    good = record.read_text()
    record.write_text(
        json.dumps({**json.loads(good), "status": "failed", "error": "it broke", "figures": None})
    )
    try:
        document = keep_what_if(SweepPlan.load(sweep_uri), asked(), tmp_path)
    finally:
        record.write_text(good)
    assert document["variants"][0]["error"] == "it broke"
    assert document["reference"] == "fifo, nodes vc0 -1"


def test_the_newest_are_kept_and_the_same_run_replaces_itself(
    sweep_uri: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept, "MOST_KEPT", 2)
    for day, run_id in ((1, "a"), (3, "../../c"), (2, "b"), (3, "../../c")):
        keep_what_if(SweepPlan.load(sweep_uri), asked(run_id, at=f"2026-11-0{day}T00:00:00+00:00"), tmp_path)
    assert [document["asked"]["run_id"] for document in list_kept(tmp_path)] == ["../../c", "b"]
    assert len(list(tmp_path.iterdir())) == 2
    assert what_if_folder(tmp_path, "../../c").parent == tmp_path
    with pytest.raises(NotFoundError, match="No result is kept of the what-if 'a'"):
        read_kept(tmp_path, "a")


def test_variants_that_would_be_called_alike_say_all_of_themselves() -> None:
    runs = [SweepRun("lucid"), SweepRun("lucid", {"gss": 2}), SweepRun("fifo", added_nodes={"*": 3})]
    assert variant_names(runs) == ["lucid seed 0", "lucid gss=2 seed 0", "fifo, nodes +3 in all"]


def test_how_far_a_replay_is_like_the_log_is_kept_with_it(sweep_uri: str, tmp_path: Path) -> None:
    lake = Lake(str(tmp_path / "lake"))
    write_to_lake(synthesize("helios-venus", days=2, seed=0), lake, "one")
    grade = grade_of_what_if(Site(lake=lake.uri, cluster="one"), {"start": "", "end": None})
    document = keep_what_if(SweepPlan.load(sweep_uri), asked(), tmp_path / "pages", grade)
    assert document["grade"]["grade"] == "A"
    assert document["grade"]["rule"].startswith("Waits of a replay")
    assert read_kept(tmp_path / "pages", RUN_ID) == document
    absent = grade_of_what_if(Site(lake=lake.uri, cluster="two"), {})
    assert absent.grade is None
    assert "two" in absent.sentence
