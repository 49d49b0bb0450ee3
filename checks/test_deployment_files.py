"""docker-compose.yml, the images' files and their locks: secrets, ports, users, versions."""

import re
from typing import Any

import pytest
import yaml

from checks.tree import ROOT
from lucid_airflow.dag_defaults import JUDGE_QUEUE, PUBLISH_QUEUE
from mlflow_access.accounts import OWN_ACCOUNTS, password_variable

COMPOSE_FILE = ROOT / "docker-compose.yml"
EXAMPLE = ROOT / ".env.example"
SECRET = re.compile(r"PASSWORD|SECRET|FERNET|TOKEN|ACCESS_KEY(?!_ID)")
KEY = re.compile(r"LUCID_\w+_KEY")  # of a signer
VARIABLE = re.compile(r"(?<!\$)\$\{(?P<name>\w+)(?P<rest>[^}]*)\}")


@pytest.fixture(scope="module")
def services() -> dict[str, Any]:
    document = yaml.safe_load(COMPOSE_FILE.read_text(encoding="utf-8"))
    found: dict[str, Any] = document["services"]
    return found


def test_no_secret_has_a_default() -> None:
    text = COMPOSE_FILE.read_text(encoding="utf-8")
    seen = set()
    for match in VARIABLE.finditer(text):
        if SECRET.search(match["name"]):
            assert match["rest"].startswith(":?"), match[0]
            seen.add(match["name"])
    assert seen == set(re.findall(r"^(LUCID_\w+)=$", EXAMPLE.read_text(encoding="utf-8"), re.MULTILINE))


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


def test_each_queue_has_workers_with_its_key_alone(services: dict[str, Any]) -> None:
    queues = {
        str(service["command"][-1]): name
        for name, service in services.items()
        if "celery" in service.get("command", ())
    }
    assert queues == {
        "default": "airflow-worker",
        JUDGE_QUEUE: "airflow-worker-judge",
        PUBLISH_QUEUE: "airflow-worker-publish",
    }
    keys = {
        name: {variable for variable in service.get("environment", {}) if KEY.fullmatch(variable)}
        for name, service in services.items()
    }
    assert {name: held for name, held in keys.items() if held} == {
        "airflow-worker-judge": {"LUCID_JUDGE_KEY"},
        "airflow-worker-publish": {"LUCID_PUBLISHER_KEY"},
    }


def test_no_service_has_the_account_of_another(services: dict[str, Any]) -> None:
    """At MLflow; its server knows all accounts, the others one each, and none but the server the admin's."""
    accounts = {
        name: (service["environment"]["MLFLOW_TRACKING_USERNAME"], passwords_of(service))
        for name, service in services.items()
        if "MLFLOW_TRACKING_USERNAME" in service.get("environment", {})
    }
    own = {
        "airflow-worker": "train",
        "airflow-worker-judge": "judge",
        "airflow-worker-publish": "publish",
        "upkeep": "upkeep",
    }
    for name, (account, passwords) in accounts.items():
        assert account == own.get(name, "pages"), name
        assert passwords == {password_variable(account)}, name
    assert own.keys() < accounts.keys()
    others = {name: passwords_of(service) for name, service in services.items() if name not in accounts}
    assert {name: held for name, held in others.items() if held} == {
        "mlflow": {password_variable(account) for account in OWN_ACCOUNTS if account != "tasks"}
    }


def passwords_of(service: dict[str, Any]) -> set[str]:
    """The variables of accounts' passwords that reach a service, under whatever name."""
    given = " ".join(str(value) for value in service.get("environment", {}).values())
    return {name for name in map(password_variable, OWN_ACCOUNTS) if name in given}


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
    lines = (ROOT / "docker" / f"{name}.Dockerfile").read_text(encoding="utf-8").splitlines()
    users = [line.split()[1] for line in lines if line.startswith("USER ")]
    assert users
    assert users[-1].split(":")[0] not in ("root", "0")
    lock = (ROOT / "docker" / f"requirements-{name}.lock").read_text(encoding="utf-8")
    assert f"requirements-{name}.lock" in "\n".join(lines)
    assert "://" not in re.sub(r"(?m)#.*$", "", lock), "a lock names no index"
    pins = re.findall(r"^(\S+?)==\S+ \\\n    --hash=sha256:", lock, re.MULTILINE)
    assert len(pins) == len(re.findall(r"^[A-Za-z0-9]", lock, re.MULTILINE))


def test_what_the_image_copies_is_there() -> None:
    for dockerfile in (ROOT / "docker").glob("*.Dockerfile"):
        for line in re.sub(r"\\\n", " ", dockerfile.read_text(encoding="utf-8")).splitlines():
            if line.startswith("COPY "):
                for source in line.split()[1:-1]:
                    assert (ROOT / source).exists(), f"{dockerfile.name}: {source}"


def test_celery_stays_below_5_7() -> None:
    lock = (ROOT / "docker" / "requirements-airflow.lock").read_text(encoding="utf-8")
    version = re.search(r"^celery==(\d+)\.(\d+)", lock, re.MULTILINE)
    assert version
    assert (int(version[1]), int(version[2])) < (5, 7)


def test_servers_and_clients_agree_on_versions() -> None:
    """The DAGs were tested with the development lock: what talks over the wire must be the same there."""
    pins = {
        name: dict(
            re.findall(r"^(apache-airflow|mlflow|numpy|scikit-learn)==(\S+)", (ROOT / name).read_text(), re.M)
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
