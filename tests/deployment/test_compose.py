"""docker-compose.yml without an engine: the real Compose binary reads it."""

import json
import re
import shutil
import subprocess
import sys
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
    memory = {
        name
        for name, service in services.items()
        if any(str(volume).startswith("publisher-memory:") for volume in service.get("volumes", ()))
    }
    assert memory == {"airflow-worker-publish"}
    assert set(services["airflow-worker"]["volumes"]) < set(services["airflow-worker-publish"]["volumes"])
    # Whoever may write the trust file decides what is published: it is no file of the common state.
    assert services["airflow-worker"]["environment"]["LUCID_TRUST"].endswith("/run/secrets/trust.json}")


# Which store each service reaches; what it is not on the network of, it cannot reach.
NETWORKS = {
    "postgres": {"database"},
    "redis": {"broker"},
    "object-store": {"objects"},
    "create-buckets": {"objects"},
    "mlflow": {"front", "database", "objects"},
    "airflow-init": {"database"},
    "airflow-api-server": {"front", "database", "objects"},
    "airflow-scheduler": {"database", "broker"},
    "airflow-dag-processor": {"database"},
    "airflow-triggerer": {"front", "database"},
    "airflow-worker": {"front", "database", "broker", "objects"},
    "airflow-worker-judge": {"front", "database", "broker", "objects"},
    "airflow-worker-publish": {"front", "database", "broker", "objects"},
    "upkeep": {"front", "database"},
}
MEMORY_LIMIT = 8 * 1024**3  # bytes; of the largest


@pytest.fixture(scope="session")
def merged(compose: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The file as Compose has it after merging: every secret is its own variable's name."""
    folder = tmp_path_factory.mktemp("merged")
    (folder / "env").write_text("".join(f"{name}={name}\n" for name in required_variables()))
    done = subprocess.run(
        [compose, "--env-file", folder / "env", "-f", COMPOSE_FILE, "config", "--format", "json"],
        env={"HOME": str(folder), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=True,
    )
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize("name", NETWORKS)
def test_every_service_is_hardened(merged: dict[str, Any], name: str) -> None:
    service = merged["services"][name]
    assert service["cap_drop"] == ["ALL"]
    assert "cap_add" not in service
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert service["read_only"] is True
    assert any(mount.partition(":")[0] in ("/tmp", "/data") for mount in service["tmpfs"])
    assert 0 < int(service["pids_limit"]) <= 1024
    assert 0 < int(service["mem_limit"]) <= MEMORY_LIMIT
    assert service["logging"] == {"driver": "json-file", "options": {"max-size": "10m", "max-file": "5"}}
    assert set(service["networks"]) == NETWORKS[name]


def test_every_service_is_named_here(merged: dict[str, Any]) -> None:
    assert set(merged["services"]) == set(NETWORKS)
    internal = {name for name, network in merged["networks"].items() if network.get("internal")}
    assert internal == {"database", "broker", "objects"}
    for service, networks in NETWORKS.items():
        if "ports" in merged["services"][service]:
            assert "front" in networks, "an internal network publishes nothing"


def test_the_object_stores_root_serves_nothing_else(merged: dict[str, Any]) -> None:
    holders = {
        name: {key for key, value in service["environment"].items() if "LUCID_OBJECT_STORE_PASSWORD" in value}
        for name, service in merged["services"].items()
    }
    assert {name: held for name, held in holders.items() if held} == {
        "object-store": {"MINIO_ROOT_PASSWORD"},
        "create-buckets": {"MC_HOST_store"},
    }
    users = {
        (service["environment"]["AWS_ACCESS_KEY_ID"], service["environment"]["AWS_SECRET_ACCESS_KEY"])
        for service in merged["services"].values()
        if "AWS_ACCESS_KEY_ID" in service["environment"]
    }
    assert users == {("lake", "LUCID_LAKE_STORE_PASSWORD"), ("mlflow", "LUCID_MLFLOW_STORE_PASSWORD")}


@pytest.mark.parametrize("bucket", ["lucid-lake", "mlflow-artifacts"])
def test_a_user_of_the_object_store_has_its_own_bucket_alone(bucket: str) -> None:
    policy = json.loads((REPOSITORY / "docker" / "bucket-policies" / f"{bucket}.json").read_text())
    resources = {each for statement in policy["Statement"] for each in statement["Resource"]}
    assert resources == {f"arn:aws:s3:::{bucket}", f"arn:aws:s3:::{bucket}/*"}
    actions = {each for statement in policy["Statement"] for each in statement["Action"]}
    assert not [action for action in actions if "*" in action or "Policy" in action]


FAKE_MC = """#!/bin/sh
printf '%s\\n' "$*" >> "$CALLS"
case "$*" in
*"user add"*) cat >> "$CALLS" ;;
*"policy attach"*) exit "$ATTACH" ;;
*"user info"*) echo "PolicyName: lucid-lake mlflow-artifacts" ;;
esac
"""


@pytest.mark.parametrize("attach", ["0", "1"], ids=["at first", "again"])
def test_buckets_and_their_users_are_made_without_a_password_in_a_process_list(
    tmp_path: Path, attach: str
) -> None:
    program = tmp_path / "mc"
    program.write_text(FAKE_MC)
    program.chmod(0o755)
    calls = tmp_path / "calls"
    subprocess.run(
        ["sh", REPOSITORY / "docker" / "create-buckets.sh"],
        env={
            "PATH": f"{tmp_path}:/usr/bin:/bin",
            "CALLS": str(calls),
            "ATTACH": attach,
            "LAKE_PASSWORD": "of-lake",
            "MLFLOW_PASSWORD": "of-mlflow",
        },
        check=True,
    )
    lines = calls.read_text().splitlines()
    assert lines[:4] == [
        "mb --ignore-existing store/lucid-lake",
        "--quiet admin user add store",
        "lake",
        "of-lake",
    ]
    assert not [line for line in lines if "of-" in line and " " in line]
    assert "admin policy attach store mlflow-artifacts --user mlflow" in lines


DIGEST = f"sha256:{'ab' * 32}"
FAKE_DOCKER = f"""#!/bin/sh
[ "$*" = "buildx imagetools inspect $4 --format {{{{.Manifest.Digest}}}}" ] || exit 2
case "$4" in redis*) [ -z "$NO_REDIS" ] || {{ echo "no such image" >&2; exit 1; }} ;; esac
echo {DIGEST}
"""


def run_pinning(tree: Path, *options: str, **environment: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, tree / "docker" / "pin_images.py", *options],
        env={"PATH": str(tree / "empty"), **environment},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A copy of what names images, and a docker that knows them."""
    shutil.copytree(REPOSITORY / "docker", tmp_path / "docker", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(COMPOSE_FILE, tmp_path)
    (tmp_path / "docker-compose.yml").write_text(
        re.sub(r"@sha256:[0-9a-f]{64}", "", COMPOSE_FILE.read_text(encoding="utf-8"))
    )
    (tmp_path / "docker-program").write_text(FAKE_DOCKER)
    (tmp_path / "docker-program").chmod(0o755)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "docker").symlink_to(tmp_path / "docker-program")
    return tmp_path


def test_images_are_pinned_by_one_command_and_what_is_not_is_named(tree: Path) -> None:
    path = f"{tree / 'bin'}:/usr/bin:/bin"
    before = run_pinning(tree, "--check")
    assert before.returncode == 1
    assert "docker-compose.yml: postgres:15.14-bookworm" in before.stdout.splitlines()
    done = run_pinning(tree, PATH=path)
    assert done.returncode == 0, done.stderr
    text = (tree / "docker-compose.yml").read_text(encoding="utf-8")
    assert f"image: postgres:15.14-bookworm@{DIGEST}\n" in text
    assert "image: lucid-airflow:0.1.0\n" in text, "what is built here has none"
    assert f"FROM python:3.11-slim-bookworm@{DIGEST}\n" in (tree / "docker" / "mlflow.Dockerfile").read_text()
    after = run_pinning(tree, "--check")
    assert (after.returncode, after.stdout) == (0, "")
    run_pinning(tree, PATH=path)
    assert (tree / "docker-compose.yml").read_text(encoding="utf-8") == text, "again, it changes nothing"


def test_a_digest_that_nobody_knows_changes_no_file(tree: Path) -> None:
    before = (tree / "docker-compose.yml").read_text(encoding="utf-8")
    failed = run_pinning(tree, PATH=f"{tree / 'bin'}:/usr/bin:/bin", NO_REDIS="1")
    assert failed.returncode == 1
    assert "redis:7.2-bookworm: docker gave no digest. no such image" in failed.stderr
    assert "docker is not installed" in run_pinning(tree).stderr
    assert (tree / "docker-compose.yml").read_text(encoding="utf-8") == before
