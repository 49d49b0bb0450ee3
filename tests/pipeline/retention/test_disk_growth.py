"""Disk growth is flat: a year of work on a real MLflow leaves what some cycles need."""

from pathlib import Path
from typing import Any

import pytest

from live_scheduler.client import ReleaseClient
from lucid_models.registry import Registry
from lucid_models.releases.lifecycle import load_release_models, rollback_release
from lucid_models.releases.manifest import release_name
from tests.fixtures import MlflowServer
from tests.installation_growth import SETTINGS, GrowingInstallation, cycles

CYCLES, STEADY = 6, 4


@pytest.mark.thorough("six cycles of releases on an MLflow server")
@pytest.mark.evidence(table="faults", rows=("39",))
def test_growth_is_flat_and_what_is_live_still_loads(
    own_mlflow_server: MlflowServer,
    small_model_files: dict[str, list[Path]],
    tmp_path: Path,
    evidence: Any,
) -> None:
    installation = GrowingInstallation(own_mlflow_server, tmp_path, small_model_files)
    sizes = list(cycles(installation, SETTINGS, CYCLES))
    steady, later = sizes[STEADY - 2 : STEADY], sizes[STEADY:]
    for name in ("releases", "model_versions", "runs", "mlflow_kib", "lake_kib", "state_kib"):
        bound = max(getattr(size, name) for size in steady)
        assert all(getattr(size, name) <= bound * 1.1 for size in later), (name, sizes)
    assert sizes[1].runs > sizes[0].runs, "nothing grew: nothing was tried"

    uri = own_mlflow_server.uri
    aliases = Registry(uri).aliases(release_name("small"))
    for version in aliases.values():
        assert load_release_models(tracking_uri=uri, cluster="small", version=version)
    client = ReleaseClient(uri, "champion", tmp_path / "client", cluster="small")
    assert client.poll().version == aliases["champion"]
    assert rollback_release(tracking_uri=uri, cluster="small").version == aliases["previous"]
    assert client.poll().version == aliases["previous"]
    evidence(
        "faults",
        "39",
        "Releases, versions, runs, files and logs stay as many as their retention needs; what is live still "
        "loads and is rolled back; backups and upgrades: docs/keeping.md",
    )
