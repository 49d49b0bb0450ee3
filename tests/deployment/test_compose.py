"""docker-compose.yml without an engine: the real Compose binary reads it."""

import configparser
import importlib.util
import re
import stat
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

REPOSITORY = Path(__file__).parents[2]
COMPOSE_FILE = REPOSITORY / "docker-compose.yml"
EXAMPLE = REPOSITORY / ".env.example"


@pytest.fixture(scope="session")
def compose() -> str:
    package = pytest.importorskip("compose", reason="Docker Compose is not installed (make install-test-all)")
    return str(Path(package.__path__[0]) / "docker-compose")


def required_variables() -> list[str]:
    return re.findall(r"^(LUCID_\w+)=$", EXAMPLE.read_text(encoding="utf-8"), re.MULTILINE)


def check(compose: str, variables: dict[str, str], tmp_path: Path, file: Path = COMPOSE_FILE) -> Any:
    env_file = tmp_path / "env"
    env_file.write_text("".join(f"{name}={value}\n" for name, value in variables.items()), encoding="utf-8")
    return subprocess.run(
        [compose, "--env-file", str(env_file), "-f", str(file), "config", "-q"],
        env={"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
    )


def test_compose_accepts_the_file(compose: str, tmp_path: Path) -> None:
    result = check(compose, dict.fromkeys(required_variables(), "x"), tmp_path)
    assert result.returncode == 0, result.stderr
    assert not result.stderr, "warnings count"


def test_compose_would_notice_a_fault(compose: str, tmp_path: Path) -> None:
    broken = tmp_path / "docker-compose.yml"
    broken.write_text(COMPOSE_FILE.read_text(encoding="utf-8").replace("healthcheck:", "healthchek:", 1))
    assert check(compose, dict.fromkeys(required_variables(), "x"), tmp_path, broken).returncode != 0


@pytest.mark.parametrize("missing", required_variables())
def test_nothing_starts_without_a_secret(compose: str, tmp_path: Path, missing: str) -> None:
    variables = dict.fromkeys(required_variables(), "x")
    del variables[missing]
    result = check(compose, variables, tmp_path)
    assert result.returncode != 0
    assert missing in result.stderr


def test_the_auth_configuration_is_private_and_keeps_odd_passwords(tmp_path: Path) -> None:
    spec = importlib.util.spec_from_file_location("serve_mlflow", REPOSITORY / "docker" / "serve_mlflow.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    environment = {
        "MLFLOW_AUTH_DATABASE_URI": "postgresql://u:p@h/d",
        "MLFLOW_ADMIN_USERNAME": "admin",
        "MLFLOW_ADMIN_PASSWORD": "50%-off; #1=yes",
    }
    file = module.write_auth_config(environment, tmp_path)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    config = configparser.ConfigParser(interpolation=None)
    config.read(file)
    assert config["mlflow"]["admin_password"] == "50%-off; #1=yes"


def test_each_signing_key_is_in_one_service_alone() -> None:
    services = yaml.safe_load(COMPOSE_FILE.read_text(encoding="utf-8"))["services"]
    held = {name: set(service.get("secrets", ())) for name, service in services.items()}
    assert {name for name, secrets in held.items() if "judge.key" in secrets} == {"airflow-worker-judge"}
    assert {name for name, secrets in held.items() if "publisher.key" in secrets} == {
        "airflow-worker-publish"
    }
    for name, service in services.items():
        environment = service.get("environment", {})
        assert ("LUCID_JUDGE_KEY" in environment) == (name == "airflow-worker-judge")
        assert ("LUCID_PUBLISHER_KEY" in environment) == (name == "airflow-worker-publish")
    # Whoever may write the trust file decides what is published: it is no file of the common state.
    assert services["airflow-worker"]["environment"]["LUCID_TRUST"].endswith("/run/secrets/trust.json}")
