"""Which outside images of docker-compose.yml and docker/*.Dockerfile are pinned by digest, and pinning them.

    python docker/pin_images.py            # ask docker for the digest of each tag, and write it
    python docker/pin_images.py --check    # name those without a digest; exit code 1 if there are any

A tag may be pushed again by its owner, a digest may not. Resolving asks the images' registries: run it where
they can be reached, look at the difference, commit it.
"""

import argparse
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]
OURS = "lucid-"  # built from this repository
_IMAGE = re.compile(
    r"^(?P<before>\s*image: |FROM )(?P<name>[^\s:@]+(?::\d+/[^\s:@]+)?):(?P<tag>[^\s@]+)"
    r"(?P<digest>@sha256:[0-9a-f]{64})?",
    re.MULTILINE,
)


def files(repository: Path) -> list[Path]:
    """Return the files that name images."""
    return [repository / "docker-compose.yml", *sorted((repository / "docker").glob("*.Dockerfile"))]


def outside_images(text: str) -> Iterator[re.Match[str]]:
    """Yield each place that names an image of others."""
    return (match for match in _IMAGE.finditer(text) if not match["name"].startswith(OURS))


def unpinned(repository: Path = REPOSITORY) -> list[str]:
    """Return `FILE: IMAGE:TAG` of each image without a digest."""
    return [
        f"{path.relative_to(repository)}: {match['name']}:{match['tag']}"
        for path in files(repository)
        for match in outside_images(path.read_text(encoding="utf-8"))
        if not match["digest"]
    ]


def digest_of(image: str) -> str:
    """Return the digest that a registry has for a tag now. Raises SystemExit with what docker says."""
    command = ["docker", "buildx", "imagetools", "inspect", image, "--format", "{{.Manifest.Digest}}"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    except FileNotFoundError:
        sys.exit("docker is not installed: digests are asked of the registries by docker buildx imagetools.")
    digest = done.stdout.strip()
    if done.returncode or not re.fullmatch(r"sha256:[0-9a-f]{64}", digest):
        sys.exit(f"{image}: docker gave no digest. {done.stderr.strip() or digest}")
    return digest


def pin(repository: Path = REPOSITORY) -> None:
    """Write each image's present digest beside its tag; nothing is written unless all are known."""
    texts = {path: path.read_text(encoding="utf-8") for path in files(repository)}
    images = {f"{match['name']}:{match['tag']}" for text in texts.values() for match in outside_images(text)}
    digests = {image: digest_of(image) for image in sorted(images)}

    def pinned(match: re.Match[str]) -> str:
        image = f"{match['name']}:{match['tag']}"
        return f"{match['before']}{image}@{digests[image]}" if image in digests else match[0]

    for path, text in texts.items():
        path.write_text(_IMAGE.sub(pinned, text), encoding="utf-8")
    for image, digest in digests.items():
        print(f"{image}@{digest}")


def main() -> None:
    """Pin, or check."""
    parser = argparse.ArgumentParser(prog="python docker/pin_images.py", description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="name what is not pinned, and change nothing")
    if not parser.parse_args().check:
        pin()
        return
    left = unpinned()
    for line in left:
        print(line)
    sys.exit(1 if left else 0)


if __name__ == "__main__":
    main()
