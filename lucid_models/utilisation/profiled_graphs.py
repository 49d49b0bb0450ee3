"""Solo profiles beside the graphs of the configurations that were profiled."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from foundation.errors import BadInputError
from lucid_models.utilisation.graph_features import GraphFeatures
from lucid_models.utilisation.step_model import Columns, columns_of

if TYPE_CHECKING:
    import pandas as pd

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class ProfiledGraphs:
    """Configurations with their graphs and what was measured of them, as arrays of shape (rows,).

    `amp` is 1 with mixed precision, else 0. `without_graph` counts the profiles that no graph belongs to.
    """

    job_types: tuple[str, ...]
    models: tuple[str, ...]
    graphs: tuple[GraphFeatures, ...]
    amp: Floats
    gpu_util_pct: Floats
    gpu_mem_util_pct: Floats
    gpu_mem_mib: Floats
    device: str
    simulated: bool
    without_graph: int

    def __len__(self) -> int:
        return len(self.job_types)

    @cached_property
    def columns(self) -> Columns:
        """Return the graphs' features by name."""
        return columns_of(self.graphs)

    @cached_property
    def weights(self) -> Floats:
        """Return one weight a row, so that every model weighs the same; they sum to the number of models."""
        _, of = np.unique(np.asarray(self.models), return_inverse=True)
        return np.asarray(1.0 / np.bincount(of)[of])

    def of_model(self, name: str) -> NDArray[np.bool_]:
        """Return which rows are configurations of a model."""
        return np.array([model == name for model in self.models], dtype=np.bool_)

    def only(self, rows: NDArray[np.bool_]) -> "ProfiledGraphs":
        """Return some of the rows."""
        places = np.flatnonzero(rows)
        return ProfiledGraphs(
            tuple(self.job_types[place] for place in places),
            tuple(self.models[place] for place in places),
            tuple(self.graphs[place] for place in places),
            self.amp[places],
            self.gpu_util_pct[places],
            self.gpu_mem_util_pct[places],
            self.gpu_mem_mib[places],
            self.device,
            self.simulated,
            self.without_graph,
        )


def join_graphs(solo: "pd.DataFrame", graphs: Mapping[str, GraphFeatures] | None = None) -> ProfiledGraphs:
    """Join solo profiles (PROFILE_SCHEMA) to graphs by job type (None: the zoo's own).

    Raises BadInputError when the profiles are of several devices, or none has a graph.
    """
    if graphs is None:
        from lucid_models.utilisation.zoo_features import read_zoo_features

        graphs = read_zoo_features()
    devices = sorted({str(device) for device in solo["device"]})
    if len(devices) > 1:
        raise BadInputError(
            f"The profiles are of {len(devices)} devices: {', '.join(devices)}.",
            remedy="Utilisation belongs to a device: train one model for each.",
        )
    profiled = solo[solo["job_type"].isin(list(graphs))]
    if profiled.empty:
        raise BadInputError(
            f"None of the {len(solo)} profiled configurations has a graph.",
            remedy="Export their networks to ONNX and read the features (docs/profiling.md).",
        )
    names = tuple(str(name) for name in profiled["job_type"])
    return ProfiledGraphs(
        names,
        tuple(str(model) for model in profiled["model"]),
        tuple(graphs[name] for name in names),
        profiled["amp"].to_numpy(dtype=np.float64),
        profiled["gpu_util_pct"].to_numpy(dtype=np.float64),
        profiled["gpu_mem_util_pct"].to_numpy(dtype=np.float64),
        profiled["gpu_mem_mib"].to_numpy(dtype=np.float64),
        devices[0],
        bool(profiled["simulated"].astype(bool).any()),
        len(solo) - len(profiled),
    )
