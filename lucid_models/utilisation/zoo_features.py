"""The graphs of the workload zoo as a table, which is data of this package.

A profile of one of these configurations needs no ONNX file to teach or test the utilisation model.
`experiments.profiling.zoo_graphs` writes it.
"""

import csv
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from pathlib import Path

from foundation.errors import BadInputError, NotFoundError
from lucid_models.utilisation.graph_features import FEATURE_NAMES, GraphFeatures


@cache
def read_zoo_features() -> Mapping[str, GraphFeatures]:
    """Return the features of every configuration of the zoo, by job type."""
    return read_features_table(table_path())


def table_path() -> Path:
    """Return where the table lies."""
    return Path(str(files("lucid_models.utilisation") / "zoo_features.csv"))


def read_features_table(path: Path) -> dict[str, GraphFeatures]:
    """Read a table of features by job type; raises NotFoundError, or BadInputError naming the row."""
    if not path.is_file():
        raise NotFoundError(f"There is no table of graphs {str(path)!r}.", remedy="Check the path.")
    with path.open(newline="", encoding="utf-8") as stream:
        reader = csv.DictReader(stream)
        missing = {"job_type", *FEATURE_NAMES} - set(reader.fieldnames or ())
        if missing:
            raise BadInputError(
                f"{path} lacks the columns {', '.join(sorted(missing))}.", remedy="Write it again."
            )
        features: dict[str, GraphFeatures] = {}
        for row in reader:
            try:
                features[row["job_type"]] = GraphFeatures.from_data(row)
            except BadInputError as error:
                raise BadInputError(f"{path}, {row['job_type']!r}: {error}") from error
    return features
