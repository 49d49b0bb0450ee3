"""The bill of materials: valid CycloneDX, with every pin of the locks, the same each time."""

import importlib.util
import json
import re
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]
NAMES = ("airflow", "mlflow", "development")


@pytest.fixture(scope="module")
def writer() -> ModuleType:
    pytest.importorskip("cyclonedx", reason="CycloneDX is not installed (make install-test-all)")
    spec = importlib.util.spec_from_file_location("sbom", ROOT / "docker" / "sbom.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", NAMES)
def test_it_is_valid_and_has_every_pin_with_its_hashes(writer: ModuleType, name: str) -> None:
    from cyclonedx.schema import SchemaVersion
    from cyclonedx.validation.json import JsonStrictValidator

    text = writer.sbom(name)
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(text) is None
    document = json.loads(text)
    libraries = {
        f"{each['name']}=={each['version']}": {entry["content"] for entry in each["hashes"]}
        for each in document["components"]
        if each["type"] == "library"
    }
    pins: dict[str, set[str]] = {}
    for lock in writer.LOCKS[name]:
        held: set[str] = set()
        for line in (ROOT / lock).read_text(encoding="utf-8").splitlines():
            if re.match(r"[A-Za-z0-9]", line):
                held = pins.setdefault(line.split()[0], set())
            held.update(re.findall(r"--hash=sha256:(\w+)", line))
    assert libraries == pins
    bases = {each["name"] for each in document["components"] if each["type"] == "container"}
    assert bases == (set() if name == "development" else {"python"})


def test_the_same_locks_give_the_same_bytes(writer: ModuleType) -> None:
    assert writer.sbom("mlflow") == writer.sbom("mlflow")


def test_the_locks_are_those_that_the_images_install(writer: ModuleType) -> None:
    for name in ("airflow", "mlflow"):
        dockerfile = (ROOT / "docker" / f"{name}.Dockerfile").read_text(encoding="utf-8")
        installed = set(re.findall(r"--requirement (\S+)", dockerfile))
        assert installed == {lock.rpartition("/")[2] for lock in writer.LOCKS[name]}
        unhashed = [
            line
            for line in re.split(r"&&|\nRUN ", re.sub(r"\\\n", " ", dockerfile))
            if "pip install" in line and "--require-hashes" not in line and "./source" not in line
        ]
        assert unhashed == []
        assert "apt" not in dockerfile, "packages of the distribution have no lock"
