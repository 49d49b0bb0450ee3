"""A real MLflow server behind our accounts, with a release of two clusters, and clients of every account."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import pytest

from mlflow_access.accounts import FILE_VARIABLE, AccountsFile, password_variable
from tests.fixtures import MlflowServer, register_small_models

SERVICES = ("admin", "train", "judge", "publish", "pages", "upkeep")
VENUS, MARS = "venus", "mars"


@dataclass
class GuardedMlflow:
    """The server, the passwords of its accounts, and what lies on it."""

    server: MlflowServer
    passwords: dict[str, str]
    accounts: AccountsFile
    _clients: dict[str, httpx.Client] = field(default_factory=dict)

    @property
    def uri(self) -> str:
        return self.server.uri

    def client(self, account: str | None) -> httpx.Client:
        """A client of an account; None: without a login."""
        key = account or ""
        if key not in self._clients:
            auth = (account, self.passwords[account]) if account else None
            self._clients[key] = httpx.Client(base_url=self.uri, auth=auth, trust_env=False, timeout=30)
        return self._clients[key]

    def log_in(self, account: str, monkeypatch: pytest.MonkeyPatch) -> None:
        """Let this process ask as an account from now on."""
        monkeypatch.setenv("MLFLOW_TRACKING_USERNAME", account)
        monkeypatch.setenv("MLFLOW_TRACKING_PASSWORD", self.passwords[account])


@pytest.fixture(scope="session")
def guarded_mlflow(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GuardedMlflow]:
    folder = tmp_path_factory.mktemp("guarded-mlflow")
    passwords = {account: f"{account}-{account}-{account}" for account in SERVICES}
    accounts = AccountsFile(folder / "accounts.json")
    passwords["schedule"] = accounts.add("schedule", ("schedule",), VENUS)
    environment = {password_variable(account): passwords[account] for account in SERVICES}
    server = MlflowServer(
        folder,
        app="mlflow_access.app:create_app()",
        accounts={**environment, FILE_VARIABLE: str(accounts.path)},
    )
    server.start()
    try:
        yield GuardedMlflow(server, passwords, accounts)
    finally:
        server.stop()


@pytest.fixture(scope="session")
def stocked(guarded_mlflow: GuardedMlflow, small_model_files: dict[str, list[Path]]) -> GuardedMlflow:
    """With a live release of two clusters each: made, judged and published by the account of each part."""
    from lucid_models.releases.lifecycle import build_release, publish_release, record_verdict

    with pytest.MonkeyPatch.context() as monkeypatch:
        for cluster in (VENUS, MARS):
            release = {"tracking_uri": guarded_mlflow.uri, "cluster": cluster}
            guarded_mlflow.log_in("train", monkeypatch)
            register_small_models(guarded_mlflow.uri, small_model_files, cluster)
            version = build_release(**release, settings={"allow_simulated_profiles": True}).version
            guarded_mlflow.log_in("judge", monkeypatch)
            record_verdict(**release, version=version, verdict={"approved": True, "sentence": "No loss."})
            guarded_mlflow.log_in("publish", monkeypatch)
            publish_release(**release)
    return guarded_mlflow
