"""Write the table of the workload zoo's graphs anew: `python -m experiments.profiling.zoo_graphs --onnx DIR`.

DIR holds the files that `python -m experiments.profiling.onnx_export --out DIR` wrote.
"""

import argparse
import csv
from collections.abc import Mapping, Sequence
from pathlib import Path

from parts.horus.graph_features import FEATURE_NAMES, GraphFeatures
from parts.horus.model import table_path
from parts.horus.onnx_graph import read_graph_features
from profiler_jobs.workloads import all_job_types


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
        prog="python -m experiments.profiling.zoo_graphs", description=__doc__.splitlines()[0]
    )
    parser.add_argument(
        "--onnx", type=Path, required=True, metavar="DIR", help="folder of the exported files"
    )
    parser.add_argument(
        "--out",
        type=Path,
        default=table_path(),
        metavar="FILE",
        help="default: that of parts/horus",
    )
    given = parser.parse_args()
    graphs = measure_zoo(given.onnx)
    write_features_table(graphs, given.out)
    print(f"{len(graphs)} graphs in {given.out}")


if __name__ == "__main__":
    main()
