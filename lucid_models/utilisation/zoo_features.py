"""The graphs of the workload zoo as a table, which is data of this package.

`python -m lucid_models.utilisation.zoo_features --onnx DIR` writes it anew from the files that `python -m
profiler_jobs.zoo.onnx_export --out DIR` wrote. A profile of one of these configurations needs no ONNX file
to teach or test the utilisation model.
"""

import argparse
import csv
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from pathlib import Path

from foundation.errors import BadInputError, NotFoundError
from lucid_models.utilisation.graph_features import FEATURE_NAMES, GraphFeatures

TABLE = "zoo_features.csv"


@cache
def read_zoo_features() -> Mapping[str, GraphFeatures]:
    """Return the features of every configuration of the zoo, by job type."""
    return read_features_table(Path(str(files("lucid_models.utilisation") / TABLE)))


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


def write_features_table(graphs: Mapping[str, GraphFeatures], path: Path) -> None:
    """Write the table, in the order of the mapping."""
    with path.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(["job_type", *FEATURE_NAMES])
        for name, graph in graphs.items():
            values = graph.to_data().values()
            writer.writerow([name, *(int(value) if value == int(value) else value for value in values)])


def measure_zoo(folder: Path, job_types: Sequence[str] | None = None) -> dict[str, GraphFeatures]:
    """Read the features of the zoo's exported files, by job type, in the zoo's order (None: all of it).

    Raises NotFoundError naming the first file that is missing.
    """
    from lucid_models.utilisation.onnx_graph import read_graph_features
    from profiler_jobs.workloads import all_job_types

    features = {}
    for job_type in all_job_types():
        if job_types is None or job_type.name in job_types:
            # The exporter's file_name; its module needs PyTorch, this one does not.
            file = folder / f"{job_type.model.name}_{job_type.batch_size}_{int(job_type.amp)}.onnx"
            features[job_type.name] = read_graph_features(file)
    return features


def main() -> None:
    """Write the table."""
    parser = argparse.ArgumentParser(
        prog="python -m lucid_models.utilisation.zoo_features", description=__doc__.splitlines()[0]
    )
    parser.add_argument(
        "--onnx", type=Path, required=True, metavar="DIR", help="folder of the exported files"
    )
    parser.add_argument(
        "--out",
        type=Path,
        default=Path(__file__).with_name(TABLE),
        metavar="FILE",
        help="default: this package's",
    )
    given = parser.parse_args()
    graphs = measure_zoo(given.onnx)
    write_features_table(graphs, given.out)
    print(f"{len(graphs)} graphs in {given.out}")


if __name__ == "__main__":
    main()
