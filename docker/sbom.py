"""A software bill of materials (CycloneDX 1.6) of each image and of the development environment.

    python docker/sbom.py --out sbom        # sbom/airflow.cdx.json, mlflow.cdx.json, development.cdx.json

From the locks: a component a distribution, with its version, its package URL and the hashes by which it is
installed; for an image its base besides. The same locks give the same bytes: the serial number is of the
content, and there is no time of day.
"""

import argparse
import re
import tomllib
from pathlib import Path
from uuid import NAMESPACE_URL, uuid5

from cyclonedx.model import HashAlgorithm, HashType
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.output.json import JsonV1Dot6
from packageurl import PackageURL

REPOSITORY = Path(__file__).resolve().parents[1]
# What is installed from which locks; an image's Dockerfile names its base.
LOCKS = {
    "airflow": ("requirements-uv.lock", "docker/requirements-airflow.lock", "docker/requirements-build.lock"),
    "mlflow": ("requirements-uv.lock", "docker/requirements-mlflow.lock", "docker/requirements-build.lock"),
    "development": ("requirements.lock", "requirements-test-all.lock", "requirements-lint.lock"),
}
_PIN = re.compile(
    r"^(?P<name>[\w.-]+)==(?P<version>[^\s\\;]+).*\n(?P<hashes>(?:    --hash=.*\n)*)", re.MULTILINE
)
_BASE = re.compile(
    r"^FROM (?P<name>[^\s:@]+):(?P<tag>[^\s@]+)(?:@sha256:(?P<digest>[0-9a-f]{64}))?", re.MULTILINE
)


def components_of(lock: str) -> list[Component]:
    """Return a component for each pin of a lock's text."""
    return [
        Component(
            type=ComponentType.LIBRARY,
            name=pin["name"],
            version=pin["version"],
            bom_ref=f"{pin['name']}=={pin['version']}",
            purl=PackageURL("pypi", name=pin["name"], version=pin["version"]),
            hashes=_hashes(re.findall(r"--hash=sha256:([0-9a-f]{64})", pin["hashes"])),
        )
        for pin in _PIN.finditer(lock)
    ]


def bom_of(name: str, repository: Path = REPOSITORY) -> Bom:
    """Return what one of `LOCKS` consists of."""
    version = tomllib.loads((repository / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    texts = [(repository / lock).read_text(encoding="utf-8") for lock in LOCKS[name]]
    components = {each.bom_ref.value: each for text in texts for each in components_of(text)}
    dockerfile = repository / "docker" / f"{name}.Dockerfile"
    if dockerfile.exists():
        base = _BASE.search(dockerfile.read_text(encoding="utf-8"))
        if base is None:
            raise SystemExit(f"{dockerfile}: no line FROM NAME:TAG.")
        components["base"] = Component(
            type=ComponentType.CONTAINER,
            name=base["name"],
            version=base["tag"],
            bom_ref=f"{base['name']}:{base['tag']}",
            hashes=_hashes([base["digest"]] if base["digest"] else []),
        )
    bom = Bom(
        components=components.values(), serial_number=uuid5(NAMESPACE_URL, "\n".join([name, version, *texts]))
    )
    kind = ComponentType.CONTAINER if dockerfile.exists() else ComponentType.APPLICATION
    bom.metadata.component = Component(
        type=kind, name=f"lucid-{name}", version=version, bom_ref=f"lucid-{name}"
    )
    bom.register_dependency(bom.metadata.component, components.values())
    bom.metadata.timestamp = None
    return bom


def sbom(name: str, repository: Path = REPOSITORY) -> str:
    """Return the document, a line each value."""
    return JsonV1Dot6(bom_of(name, repository)).output_as_string(indent=2) + "\n"


def _hashes(digests: list[str]) -> list[HashType]:
    return [HashType(alg=HashAlgorithm.SHA_256, content=digest) for digest in digests]


def main() -> None:
    """Write the documents."""
    parser = argparse.ArgumentParser(prog="python docker/sbom.py", description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True, help="the folder to write to")
    folder = parser.parse_args().out
    folder.mkdir(parents=True, exist_ok=True)
    for name in LOCKS:
        file = folder / f"{name}.cdx.json"
        file.write_text(sbom(name), encoding="utf-8")
        print(f"{file}: {len(bom_of(name).components)} components")


if __name__ == "__main__":
    main()
