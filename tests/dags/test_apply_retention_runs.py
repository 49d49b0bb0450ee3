"""What is past its retention goes once a day; a run says what went."""

import os
import time
from pathlib import Path
from typing import Any

import pytest

from tests.dags.run_facts import note_of, states_of

pytestmark = pytest.mark.usefixtures("metadata_database")


@pytest.fixture
def old_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A sweep that was not looked at for years, in an installation that has nothing else."""
    monkeypatch.setenv("LUCID_TRACKING_URI", f"sqlite:///{tmp_path / 'mlflow.db'}")
    monkeypatch.setenv("LUCID_LAKE_URI", str(tmp_path / "lake"))
    monkeypatch.setenv("LUCID_STATE_DIR", str(tmp_path / "state"))
    sweep = tmp_path / "lake/sweeps/cluster=small/old"
    sweep.mkdir(parents=True)
    long_ago_s = time.time() - 900 * 86_400
    os.utime(sweep, (long_ago_s, long_ago_s))
    return sweep


def apply(dag_bag: Any, **form: Any) -> Any:
    return dag_bag.dags["apply_retention"].test(run_conf=form)


def test_a_run_counts_then_removes_then_finds_nothing(dag_bag: Any, old_page: Path) -> None:
    assert "1 work files would go" in note_of(apply(dag_bag, dry_run=True))
    assert old_page.exists()
    done = apply(dag_bag, dry_run=False)
    assert states_of(done) == {"apply_retention": {"success"}}
    assert "1 work files went" in note_of(done)
    assert not old_page.exists()
    assert "Nothing is past its retention" in note_of(apply(dag_bag, dry_run=False))


def test_what_cannot_be_done_fails_the_run_with_its_reason(
    dag_bag: Any, old_page: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LUCID_TRACKING_URI", "http://127.0.0.1:9")
    failed = apply(dag_bag, dry_run=False)
    assert "did not answer" in note_of(failed)
    assert not old_page.exists()  # all else was done
