"""docker-compose.yml without an engine: the real Compose binary reads it, and our own rules hold."""

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
SECRET = re.compile(r"PASSWORD|SECRET|FERNET|TOKEN|ACCESS_KEY(?!_ID)")
VARIABLE = re.compile(r"(?<!\$)\$\{(?P<name>\w+)(?P<rest>[^}]*)\}")


@pytest.fixture(scope="session")
def compose() -> str:
    spec = importlib.util.find_spec("compose")
    assert spec is not None
    assert spec.submodule_search_locations
    return str(Path(next(iter(spec.submodule_search_locations))) / "docker-compose")


@pytest.fixture(scope="session")
def services() -> dict[str, Any]:
    document = yaml.safe_load(COMPOSE_FILE.read_text(encoding="utf-8"))
    found: dict[str, Any] = document["services"]
    return found


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


def test_no_secret_has_a_default() -> None:
    text = COMPOSE_FILE.read_text(encoding="utf-8")
    seen = set()
    for match in VARIABLE.finditer(text):
        if SECRET.search(match["name"]):
            assert match["rest"].startswith(":?"), match[0]
            seen.add(match["name"])
    assert seen == set(required_variables())


def test_no_secret_is_written_down(services: dict[str, Any]) -> None:
    for name, service in services.items():
        for variable, value in service.get("environment", {}).items():
            if SECRET.search(variable):
                assert VARIABLE.fullmatch(str(value)), f"{name}: {variable}"


def test_ports_are_published_on_loopback_only(services: dict[str, Any]) -> None:
    published = [port for service in services.values() for port in service.get("ports", [])]
    assert len(published) == 2
    assert all(str(port).startswith("127.0.0.1:") for port in published)
    assert not any("network_mode" in service or service.get("privileged") for service in services.values())


def test_lasting_services_have_health_checks(services: dict[str, Any]) -> None:
    one_shot = {
        dependency
        for service in services.values()
        for dependency, how in (service.get("depends_on") or {}).items()
        if how["condition"] == "service_completed_successfully"
    }
    assert one_shot == {"airflow-init", "create-buckets"}
    for name, service in services.items():
        assert ("healthcheck" in service) == (name not in one_shot), name


def test_images_are_pinned(services: dict[str, Any]) -> None:
    for name, service in services.items():
        _, _, tag = service["image"].rpartition(":")
        assert tag, name
        assert tag != "latest", name


@pytest.mark.parametrize("name", ["airflow", "mlflow"])
def test_our_images_run_as_nobody_special_from_hashed_locks(name: str) -> None:
    lines = (REPOSITORY / "docker" / f"{name}.Dockerfile").read_text(encoding="utf-8").splitlines()
    users = [line.split()[1] for line in lines if line.startswith("USER ")]
    assert users
    assert users[-1].split(":")[0] not in ("root", "0")
    lock = (REPOSITORY / "docker" / f"requirements-{name}.lock").read_text(encoding="utf-8")
    assert f"requirements-{name}.lock" in "\n".join(lines)
    assert "://" not in re.sub(r"(?m)#.*$", "", lock), "a lock names no index"
    pins = re.findall(r"^(\S+?)==\S+ \\\n    --hash=sha256:", lock, re.MULTILINE)
    assert len(pins) == len(re.findall(r"^[A-Za-z0-9]", lock, re.MULTILINE))


def test_what_the_image_copies_is_there() -> None:
    for dockerfile in (REPOSITORY / "docker").glob("*.Dockerfile"):
        for line in re.sub(r"\\\n", " ", dockerfile.read_text(encoding="utf-8")).splitlines():
            if line.startswith("COPY "):
                for source in line.split()[1:-1]:
                    assert (REPOSITORY / source).exists(), f"{dockerfile.name}: {source}"


def test_celery_stays_below_5_7() -> None:
    lock = (REPOSITORY / "docker" / "requirements-airflow.lock").read_text(encoding="utf-8")
    version = re.search(r"^celery==(\d+)\.(\d+)", lock, re.MULTILINE)
    assert version
    assert (int(version[1]), int(version[2])) < (5, 7)


def test_servers_and_clients_agree_on_versions() -> None:
    """The DAGs were tested with the development lock: what talks over the wire must be the same there."""
    pins = {
        name: dict(
            re.findall(
                r"^(apache-airflow|mlflow|numpy|scikit-learn)==(\S+)", (REPOSITORY / name).read_text(), re.M
            )
        )
        for name in (
            "requirements.lock",
            "docker/requirements-airflow.lock",
            "docker/requirements-mlflow.lock",
        )
    }
    tested = pins["requirements.lock"]
    assert pins["docker/requirements-airflow.lock"]["apache-airflow"] == tested["apache-airflow"]
    assert {versions["mlflow"] for versions in pins.values()} == {tested["mlflow"]}


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
