"""Accounts of MLflow: from the environment and from a file that may change under a running server."""

import json
import os
import stat
from base64 import b64encode
from pathlib import Path

import pytest

from foundation.errors import BadInputError, NotFoundError
from mlflow_access import __main__ as command
from mlflow_access.accounts import FILE_VARIABLE, Accounts, AccountsFile, MlflowAccount, digest

ADMIN = {"LUCID_MLFLOW_ADMIN_PASSWORD": "admin-password"}


def basic(name: str, password: str) -> str:
    return f"Basic {b64encode(f'{name}:{password}'.encode()).decode()}"


def test_an_account_is_known_by_its_password_alone() -> None:
    accounts = Accounts({**ADMIN, "LUCID_MLFLOW_TRAIN_PASSWORD": "train-password"})
    admin = accounts.authenticate(basic("admin", "admin-password"))
    assert admin is not None
    assert admin.roles == ("admin",)
    for wrong in (
        None,
        "",
        "Basic",
        "Basic ?",
        "Basic /w==",
        f"Bearer {b64encode(b'admin:admin-password').decode()}",
        basic("admin", "train-password"),
        basic("admin", ""),
        basic("judge", ""),
        basic("", ""),
        f"Basic {b64encode(b'admin').decode()}",
    ):
        assert accounts.authenticate(wrong) is None, wrong


@pytest.mark.parametrize(
    ("environment", "said"),
    [
        ({}, "nobody could use"),
        ({"LUCID_MLFLOW_ADMIN_PASSWORD": "short"}, "has 5 characters"),
        ({**ADMIN, "LUCID_MLFLOW_TRAIN_PASSWORD": "admin-password"}, "are one password"),
    ],
)
def test_passwords_that_protect_nothing_stop_the_server(environment: dict[str, str], said: str) -> None:
    with pytest.raises(BadInputError, match=said):
        Accounts(environment)


def test_an_added_account_is_good_at_once_and_a_removed_one_no_longer(tmp_path: Path) -> None:
    file = AccountsFile(tmp_path / "accounts.json")
    accounts = Accounts({**ADMIN, FILE_VARIABLE: str(file.path)})
    first = file.add("venus", ("schedule",), "venus")
    found = accounts.authenticate(basic("venus", first))
    assert found is not None
    assert found.cluster == "venus"
    second = file.add("venus", ("schedule",), "venus")
    assert accounts.authenticate(basic("venus", first)) is None
    assert accounts.authenticate(basic("venus", second)) is not None
    file.path.write_text("{")
    assert accounts.authenticate(basic("venus", second)) is not None, "a broken file locks nobody out"
    file.path.unlink()
    file.add("mars", ("schedule",), "mars")
    assert accounts.authenticate(basic("venus", second)) is None


def test_the_file_is_private_and_holds_no_password(tmp_path: Path) -> None:
    file = AccountsFile(tmp_path / "accounts.json")
    password = file.add("alice", ("train", "publish"))
    assert len(password) >= 43
    assert stat.S_IMODE(file.path.stat().st_mode) == 0o600
    text = file.path.read_text()
    assert password not in text
    assert digest(password) in text


@pytest.mark.parametrize(
    "document",
    ["[]", "{}", '{"accounts": [{}]}', "[" * 100_000],
)
def test_a_wrong_file_stops_the_server(tmp_path: Path, document: str) -> None:
    path = tmp_path / "accounts.json"
    path.write_text(document)
    with pytest.raises(BadInputError, match="does not hold accounts"):
        Accounts({**ADMIN, FILE_VARIABLE: str(path)})


@pytest.mark.parametrize(
    ("name", "roles", "cluster"),
    [
        ("a b", ("train",), None),
        ("a:b", ("train",), None),
        ("alice", (), None),
        ("alice", ("owner",), None),
        ("alice", ("schedule",), None),
        ("alice", ("train",), "venus"),
        ("alice", ("schedule", "publish"), "venus"),
        ("alice", ("schedule",), "venus' or '1'='1"),
    ],
)
def test_what_is_no_account_is_refused(name: str, roles: tuple[str, ...], cluster: str | None) -> None:
    with pytest.raises(BadInputError):
        MlflowAccount(name, roles, "", cluster)


def test_the_services_own_accounts_are_not_in_the_file(tmp_path: Path) -> None:
    file = AccountsFile(tmp_path / "accounts.json")
    with pytest.raises(BadInputError, match="LUCID_MLFLOW_PUBLISH_PASSWORD"):
        file.add("publish", ("publish",))
    with pytest.raises(NotFoundError):
        file.remove("publish")


def test_accounts_are_kept_by_one_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv(FILE_VARIABLE, raising=False)
    monkeypatch.setenv("LUCID_STATE_DIR", str(tmp_path))
    assert command.main(["add", "venus-1", "--role", "schedule", "--cluster", "venus"]) == 0
    told = dict(line.split("=", 1) for line in capsys.readouterr().out.splitlines())
    assert told["MLFLOW_TRACKING_USERNAME"] == "venus-1"
    accounts = Accounts({FILE_VARIABLE: str(tmp_path / "secrets" / "mlflow_accounts.json")})
    assert accounts.authenticate(basic("venus-1", told["MLFLOW_TRACKING_PASSWORD"])) is not None
    assert command.main(["list"]) == 0
    assert capsys.readouterr().out == "venus-1: schedule (cluster venus)\n"
    assert command.main(["remove", "venus-1"]) == 0
    assert json.loads((tmp_path / "secrets" / "mlflow_accounts.json").read_text()) == {"accounts": []}
    assert command.main(["remove", "venus-1"]) == 1
    assert capsys.readouterr().err.startswith("error: There is no account")
    assert os.environ.get("LUCID_MLFLOW_ADMIN_PASSWORD") is None
