"""The local stack without starting it: ports, secrets, loopback."""

import json
import os
import socket
import stat
from base64 import b64encode
from dataclasses import asdict
from pathlib import Path

import pytest

from foundation.errors import BadInputError, ServiceUnavailableError
from local_stack import stack as local_stack
from local_stack.airflow_client import AirflowClient
from local_stack.stack_config import (
    REPOSITORY,
    StackConfig,
    admin_password,
    gpu_slots,
    mlflow_password,
    running_stack,
    stack_environment,
    stack_processes,
)
from mlflow_access.accounts import Accounts


@pytest.fixture
def busy_port():
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        yield server.getsockname()[1]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.mark.parametrize("part", ["airflow", "mlflow"])
def test_a_busy_port_names_the_port_and_the_option(tmp_path: Path, busy_port: int, part: str) -> None:
    ports = {"airflow_port": free_port(), "mlflow_port": free_port(), f"{part}_port": busy_port}
    with pytest.raises(BadInputError) as caught:
        local_stack.up(StackConfig(tmp_path, **ports), tell=lambda line: None)
    assert f"Port {busy_port} is in use" in str(caught.value)
    assert f"--{part}-port" in str(caught.value)
    assert f"LUCID_{part.upper()}_PORT" in str(caught.value)
    assert not (tmp_path / "run" / "supervisor.json").exists()


def test_one_port_for_both_is_refused(tmp_path: Path) -> None:
    port = free_port()
    with pytest.raises(BadInputError, match="cannot share"):
        local_stack.up(StackConfig(tmp_path, port, port), tell=lambda line: None)


@pytest.mark.parametrize("value", ["http", "0", "70000", "-1"])
def test_a_wrong_port_variable_is_one_line(value: str, monkeypatch, capsys, tmp_path: Path) -> None:
    monkeypatch.setenv("LUCID_AIRFLOW_PORT", value)
    assert local_stack.main(["up", "--state-dir", str(tmp_path)]) == 1
    said = capsys.readouterr()
    assert said.err.startswith(f"error: LUCID_AIRFLOW_PORT={value!r} is not a port")
    assert len(said.err.splitlines()) == 1


def test_ports_come_from_options_then_environment(monkeypatch, tmp_path: Path) -> None:
    import argparse

    parser = argparse.ArgumentParser()
    local_stack.add_stack_options(parser)
    monkeypatch.setenv("LUCID_AIRFLOW_PORT", "18081")
    monkeypatch.setenv("LUCID_MLFLOW_PORT", "15001")
    monkeypatch.setenv("LUCID_STATE_DIR", str(tmp_path))
    config = local_stack.config_from(parser.parse_args(["--mlflow-port", "15002"]))
    assert (config.airflow_port, config.mlflow_port, config.state_dir) == (18081, 15002, tmp_path)


@pytest.mark.parametrize(("word", "asks"), [("true", True), ("false", False), ("", False)])
def test_approval_comes_from_the_environment_and_reaches_airflow(
    monkeypatch, tmp_path: Path, word: str, asks: bool
) -> None:
    import argparse

    monkeypatch.setenv("LUCID_REQUIRE_APPROVAL", word)
    parser = argparse.ArgumentParser()
    local_stack.add_stack_options(parser)
    config = local_stack.config_from(parser.parse_args(["--state-dir", str(tmp_path)]))
    environment = stack_environment(config, os.environ)
    assert environment["LUCID_REQUIRE_APPROVAL"] == str(asks).lower()
    assert any(f"Approval {'on' if asks else 'off'}" in line for line in local_stack.login_lines(config))


def test_a_wrong_approval_variable_is_one_line(monkeypatch, capsys, tmp_path: Path) -> None:
    monkeypatch.setenv("LUCID_REQUIRE_APPROVAL", "yes please")
    assert local_stack.main(["up", "--state-dir", str(tmp_path)]) == 1
    said = capsys.readouterr().err
    assert (
        said
        == "error: LUCID_REQUIRE_APPROVAL='yes please' is neither true nor false. Set it to true or false.\n"
    )


def test_a_wrong_rule_of_the_gate_is_said_before_anything_starts(monkeypatch, tmp_path: Path) -> None:
    monkeypatch.setenv("LUCID_GATE_RULES", '{"margin": 1}')
    with pytest.raises(BadInputError, match="LUCID_GATE_RULES: Unknown gate setting 'margin'"):
        local_stack.up(StackConfig(tmp_path, free_port(), free_port()), tell=lambda line: None)
    assert not (tmp_path / "run" / "supervisor.json").exists()


def test_secrets_are_generated_once_and_private(tmp_path: Path) -> None:
    config = StackConfig(tmp_path)
    first, second = stack_environment(config, {}), stack_environment(config, {})
    assert first == second
    assert len(first["AIRFLOW__API_AUTH__JWT_SECRET"]) >= 64
    assert (
        first["AIRFLOW__CORE__FERNET_KEY"]
        != stack_environment(StackConfig(tmp_path / "other"), {})["AIRFLOW__CORE__FERNET_KEY"]
    )
    assert admin_password(config) == admin_password(config)
    for file in config.secrets_dir.iterdir():
        assert stat.S_IMODE(file.stat().st_mode) == 0o600, file


def test_everything_listens_on_loopback(tmp_path: Path) -> None:
    config = StackConfig(tmp_path, airflow_port=18082, mlflow_port=15003)
    environment = stack_environment(config, {"no_proxy": "example.org"})
    assert environment["AIRFLOW__API__HOST"] == "127.0.0.1"
    assert environment["AIRFLOW__API__BASE_URL"] == "http://127.0.0.1:18082"
    assert environment["NO_PROXY"] == "example.org,127.0.0.1,localhost"
    for spec in stack_processes(config):
        if "--port" in spec.argv:
            assert spec.argv[spec.argv.index("--host") + 1] == "127.0.0.1"
        elif spec.name in ("scheduler", "triggerer"):
            assert "--skip-serve-logs" in spec.argv  # their log servers would listen on every interface


def test_forms_read_from_the_checkout_unless_it_is_said(tmp_path: Path) -> None:
    config = StackConfig(tmp_path)
    assert stack_environment(config, {})["LUCID_INPUT_ROOTS"] == str(REPOSITORY)
    with_data = stack_environment(config, {"LUCID_REFERENCE_DATA": "/data"})
    assert with_data["LUCID_INPUT_ROOTS"] == f"{REPOSITORY},/data"
    assert stack_environment(config, {"LUCID_INPUT_ROOTS": "/logs"})["LUCID_INPUT_ROOTS"] == "/logs"


def test_each_process_has_the_login_of_its_own_part(tmp_path: Path) -> None:
    """Tasks write, what only shows things reads, the server knows all; no list of processes says any."""
    config = StackConfig(tmp_path)
    environment = stack_environment(config, {})
    processes = {spec.name: spec for spec in stack_processes(config)}
    accounts = {
        name: spec.environment.get("MLFLOW_TRACKING_USERNAME")
        for name, spec in processes.items()
        if spec.secrets
    }
    assert accounts == {
        "mlflow": None,
        "scheduler": "tasks",
        "upkeep": "upkeep",
        **dict.fromkeys(("api-server", "dag-processor", "triggerer"), "pages"),
    }
    passwords = {
        account: mlflow_password(config, account) for account in ("admin", "tasks", "pages", "upkeep")
    }
    assert len(set(passwords.values())) == 4
    assert processes["scheduler"].surroundings()["MLFLOW_TRACKING_PASSWORD"] == passwords["tasks"]
    assert processes["triggerer"].surroundings()["MLFLOW_TRACKING_PASSWORD"] == passwords["pages"]
    known = Accounts({**environment, **processes["mlflow"].surroundings()})
    for account, password in passwords.items():
        encoded = b64encode(f"{account}:{password}".encode()).decode()
        found = known.authenticate(f"Basic {encoded}")
        assert found is not None
        assert found.name == account
    said = json.dumps([asdict(spec) for spec in processes.values()]) + json.dumps(environment)
    assert not any(password in said for password in passwords.values())
    assert f"password {passwords['admin']}" in "\n".join(local_stack.login_lines(config))


def test_two_folders_share_nothing(tmp_path: Path) -> None:
    one = stack_environment(StackConfig(tmp_path / "one"), {})
    two = stack_environment(StackConfig(tmp_path / "two"), {})
    for name in ("AIRFLOW_HOME", "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN", "LUCID_LAKE_URI", "LUCID_STACK"):
        assert one[name] != two[name]


def test_no_stack_runs_in_an_empty_folder(tmp_path: Path, capsys) -> None:
    assert running_stack(tmp_path) is None
    assert local_stack.main(["status", "--state-dir", str(tmp_path)]) == 3
    assert local_stack.main(["down", "--state-dir", str(tmp_path)]) == 0
    assert "no stack was running" in capsys.readouterr().out


def test_an_airflow_that_is_away_is_one_clear_error() -> None:
    with AirflowClient(f"http://127.0.0.1:{free_port()}", username="admin", password="x") as airflow:
        assert airflow.health() == {}
        with pytest.raises(ServiceUnavailableError, match="Is it up"):
            airflow.trigger("ingest_logs", {})


@pytest.mark.parametrize(
    ("named", "slots"), [(None, 1), ("", 1), ("0", 1), ("0, 1,2", 3), ("simulated:0,simulated:1", 2)]
)
def test_the_gpu_pool_has_a_slot_a_device(named: str | None, slots: int) -> None:
    assert gpu_slots({} if named is None else {"LUCID_GPU_DEVICES": named}) == slots
