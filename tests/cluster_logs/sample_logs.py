"""A small log of each text format; those of the formats that parts bring lie in their tests."""

from pathlib import Path

from cluster_logs.readers.registry import formats

_FOLDERS = (
    Path(__file__).parent / "data",
    *sorted((Path(__file__).parents[2] / "parts").glob("*/tests/data")),
)
SAMPLES = {
    path.name.partition(".")[0]: path
    for folder in _FOLDERS
    for path in sorted(folder.iterdir())
    if path.name.partition(".")[0] in formats()
}
