"""A cluster goes once its name was typed again, and nothing of another."""

from pathlib import Path
from typing import Any

import pytest

from cluster_logs.lake import Lake
from tests.dags.run_facts import note_of, states_of

pytestmark = pytest.mark.usefixtures("metadata_database")


@pytest.fixture(autouse=True)
def registry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One in which nothing was ever registered."""
    monkeypatch.setenv("LUCID_TRACKING_URI", f"sqlite:///{tmp_path / 'mlflow.db'}")


def remove(dag_bag: Any, **form: str) -> Any:
    return dag_bag.dags["remove_cluster"].test(run_conf={"cluster": "small", **form})


def test_a_cluster_is_removed_once_its_name_is_typed_again(dag_bag: Any, small_lake: Path) -> None:
    lake = Lake(str(small_lake))
    lake.write_jobs("other", lake.read_jobs("small"))
    told = remove(dag_bag)
    assert states_of(told) == {"remove_cluster": {"failed"}}
    assert "Nothing was removed" in note_of(told)
    assert "400 rows of jobs" in note_of(told)
    assert lake.clusters() == ["other", "small"]
    done = remove(dag_bag, typed_again="small")
    assert states_of(done) == {"remove_cluster": {"success"}}
    assert "400 rows of jobs" in note_of(done)
    assert lake.clusters() == ["other"]
