"""States that released versions left are read by this one, after the migrations that `make up` runs."""

import json
import os
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import create_engine, text

from cluster_logs.lake import Lake
from cluster_logs.site.rules import SiteRules
from cluster_logs.site.site_file import read_site
from foundation.errors import ServiceUnavailableError
from live_scheduler.client import ReleaseClient
from live_scheduler.memory.journal import Journal
from live_scheduler.safety.touched import TouchedJobs, Way
from live_scheduler.settings_file import read_live_settings
from local_stack import stack as local_stack
from local_stack.backup import restore
from local_stack.stack_config import StackConfig
from lucid_models.registry import Registry
from lucid_models.releases.lifecycle import list_releases, load_release_models
from lucid_models.releases.publication_history import read_history
from lucid_models.signing.installation import TRUST_VARIABLE, Signing
from tests.fixtures import MlflowServer
from tests.state_of_version import STATES

VERSIONS = sorted(STATES.glob("*.tar.xz"))


@pytest.fixture(params=VERSIONS, ids=lambda path: path.name.removesuffix(".tar.xz"))
def state(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The restored state of a version; what it signed is asked for."""
    state = tmp_path / "state"
    restore(request.param, state)
    monkeypatch.delenv(TRUST_VARIABLE)
    monkeypatch.setenv("LUCID_STATE_DIR", str(state))
    return state


def when_made(state: Path) -> datetime:
    """When the state was made: its publication has expired since."""
    return datetime.fromtimestamp((state / "trust.json").stat().st_mtime + 120, UTC)


@pytest.mark.evidence(table="faults", rows=("54",))
def test_files_of_a_version_are_read(state: Path, evidence: Any) -> None:
    lake = Lake(str(state / "lake"))
    assert len(lake.read_jobs("small")) == 120
    assert lake.read_nodes("small")["nodes"].tolist() == [4]
    assert len(lake.read_throughput("small")) > 0
    assert lake.read_quarantine("small")["reason"].tolist() == ["end_before_start"]
    live = state / "live" / "small"
    journal = Journal(live / "journal.jsonl")
    assert [event.duration_s for event in journal.read()] == [None, None, 540.0]
    assert journal.unreadable == 0
    assert TouchedJobs(live).that_are(Way.ORDERED) == ["4712"]
    assert read_live_settings(state / "live.toml").cluster == "small"
    assert read_site(state / "site.toml") == SiteRules()
    origin = json.loads((live / "small/current-champion.json").read_text())["origin"]
    client = ReleaseClient(origin, "champion", live, cluster="small", clock=lambda: when_made(state))
    assert client.current.version == 2
    evidence(
        "faults",
        "54",
        "The backup of each released version (tests/states) is restored, migrated and read: lake, releases, "
        "signatures, a scheduler's folder with its release, settings, site.toml",
    )


@pytest.mark.thorough("an MLflow server on the restored state")
def test_the_registry_of_a_version_is_served_after_its_migration(state: Path) -> None:
    migrate = [str(Path(sys.executable).parent / "mlflow"), "db", "upgrade"]
    subprocess.run([*migrate, f"sqlite:///{state / 'mlflow/mlflow.db'}"], check=True, capture_output=True)
    server = MlflowServer(state / "mlflow")
    server.start()
    try:
        releases = list_releases(tracking_uri=server.uri, cluster="small")
        assert [release.version for release in releases] == [2, 1]
        for release in releases:
            assert load_release_models(tracking_uri=server.uri, cluster="small", version=release.version)
        history = read_history(Registry(server.uri), "small", Signing.of_environment())
        assert [(past.publication.release.version, past.problem) for past in history] == [
            (2, None),
            (1, None),
        ]
    finally:
        server.stop()


def older_mlflow_database(path: Path) -> str:
    """An MLflow database as a version of MLflow before this one made it; returns its revision."""
    from alembic import command
    from alembic.script import ScriptDirectory
    from mlflow.store.db.utils import _get_alembic_config

    config = _get_alembic_config(f"sqlite:///{path}")
    script = ScriptDirectory.from_config(config)
    head = script.get_revision("head")
    older = head.down_revision
    engine = create_engine(f"sqlite:///{path}")
    from mlflow.store.tracking.dbmodels.initial_models import Base

    Base.metadata.create_all(engine)
    with engine.connect() as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, str(older))
        connection.commit()
    engine.dispose()
    return str(older)


def revision(path: Path) -> str:
    with create_engine(f"sqlite:///{path}").connect() as connection:
        return str(connection.execute(text("SELECT version_num FROM alembic_version")).scalar())


@pytest.mark.evidence(table="faults", rows=("46",))
def test_databases_are_migrated_in_order_before_anything_starts_on_them(
    tmp_path: Path, evidence: Any
) -> None:
    config = StackConfig(tmp_path)
    for folder in (config.mlflow_dir, config.log_dir, config.run_dir):
        folder.mkdir(parents=True)
    database = config.mlflow_dir / "mlflow.db"
    older = older_mlflow_database(database)
    assert revision(database) == older
    assert not local_stack._prepared(config)
    local_stack._migrate_mlflow(config, os.environ, lambda line: None)
    assert revision(database) != older
    assert Registry(f"sqlite:///{database}").models_named("") == {}
    # A migration that fails ends `up`, and nothing says that the databases are ready.
    database.write_text("no database")
    with pytest.raises(ServiceUnavailableError, match="db upgrade"):
        local_stack._migrate_mlflow(config, os.environ, lambda line: None)
    assert not config.migrated_marker.exists()
    evidence(
        "faults",
        "46",
        "One `up` at a time migrates both databases; Airflow's processes wait for the mark that stands when "
        "that is done, and one that was killed or failed is run again by the next `up`",
    )
