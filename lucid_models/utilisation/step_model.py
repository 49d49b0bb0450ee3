"""GPU utilisation as the share of a training step in which the device works: a handful of numbers, NumPy
only.

Utilisation is low where kernels are short beside the time that the host takes to launch them (Horus, TPDS
'21, section 3, finds it rise with the FLOPs of a model). In units of the host's time for one operator, a
step takes

    device = per_kernel x kernels + amp_device x (per_gmac x GMACs + per_melement x million activations)
    host   = amp_host x (kernels + per_step)
    utilisation = (1 + (host / device)^overlap)^(-1 / overlap)

where `kernels` are operators and time steps of recurrent ones, GMACs billions of multiply-accumulates, and
the amp factors hold with mixed precision only. Host and device overlap; the sharper, the more the longer
one rules. Memory is busy during the part of the device's time that is not mere launching, times `traffic`.
So utilisation rises with the batch and with the work an operator brings, and with nothing else that the
graph does not say: a job that waits for its input or its environment is taken to be busier than it is.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from lucid_models.model_format import Fields
from lucid_models.utilisation.graph_features import FEATURE_NAMES, GraphFeatures

Floats = NDArray[np.float64]
Columns = Mapping[str, Floats]

LOWEST, HIGHEST = 1e-6, 1e6
_LEAST, _MOST = 0.001, 0.999  # the range of predictions: measurements are no finer


def columns_of(graphs: Sequence[GraphFeatures]) -> Columns:
    """Return the features of graphs as arrays of shape (graphs,), by name, with `operators` besides."""
    named = {
        name: np.array([getattr(graph, name) for graph in graphs], dtype=np.float64) for name in FEATURE_NAMES
    }
    return {**named, "operators": np.array([graph.operators for graph in graphs], dtype=np.float64)}


@dataclass(frozen=True)
class StepParts:
    """Host and device of a step, arrays of one shape, in units of the host's time for an operator."""

    launches: Floats
    arithmetic: Floats
    traffic: Floats
    host: Floats

    @property
    def device(self) -> Floats:
        """Return the whole time of the device."""
        return self.launches + self.arithmetic + self.traffic


@dataclass(frozen=True)
class StepModel:
    """The numbers of the module's formula, each in [1e-6, 1e6]; `traffic` in [0, 1]."""

    per_kernel: float
    per_gmac: float
    per_melement: float
    per_step: float
    amp_device: float
    amp_host: float
    overlap: float
    traffic: float

    def parts(self, columns: Columns, amp: Floats) -> StepParts:
        """Return what a step consists of; `amp` is 1 with mixed precision, else 0."""
        kernels = columns["operators"] + columns["recurrent_steps"]
        device = np.where(amp > 0, self.amp_device, 1.0)
        return StepParts(
            self.per_kernel * kernels,
            self.per_gmac * columns["dense_macs"] / 1e9 * device,
            self.per_melement * columns["activation_elements"] / 1e6 * device,
            (kernels + self.per_step) * np.where(amp > 0, self.amp_host, 1.0),
        )

    def share(self, device: Floats, host: Floats) -> Floats:
        """Return the utilisation, in (0, 1), of steps whose device and host take so long."""
        # By logarithms: a ratio of 1e6 to the power of 20 is still a number.
        ratio = self.overlap * (np.log(host) - np.log(device))
        return np.asarray(np.clip(np.exp(-np.logaddexp(0.0, ratio) / self.overlap), _LEAST, _MOST))

    def utilisation(self, columns: Columns, amp: Floats) -> Floats:
        """Return the expected GPU utilisation, in (0, 1)."""
        parts = self.parts(columns, amp)
        return self.share(parts.device, parts.host)

    def memory_utilisation(self, columns: Columns, amp: Floats) -> Floats:
        """Return the expected share of time in which memory is read or written, in (0, 1)."""
        parts = self.parts(columns, amp)
        busy = self.traffic * (parts.arithmetic + parts.traffic) / parts.device
        return np.asarray(np.clip(self.share(parts.device, parts.host) * busy, _LEAST, _MOST))

    def to_data(self) -> dict[str, float]:
        """Return plain data for JSON."""
        return {field.name: float(getattr(self, field.name)) for field in fields(self)}

    @classmethod
    def from_data(cls, place: Fields) -> "StepModel":
        """Read what `to_data` wrote; raises CorruptModelError."""
        values = {
            field.name: place.number(field.name, LOWEST, HIGHEST)
            for field in fields(cls)
            if field.name != "traffic"
        }
        return cls(**values, traffic=place.number("traffic", 0.0, 1.0))


def logit(share: Floats) -> Floats:
    """Return log(share / (1 - share)); what lies outside (0, 1) is taken to its border."""
    inside = np.clip(share, _LEAST, _MOST)
    return np.asarray(np.log(inside) - np.log1p(-inside))


def shifted(share: Floats, by: float) -> Floats:
    """Return shares moved on the logit's scale, where a shift never leaves (0, 1)."""
    return np.asarray(1.0 / (1.0 + np.exp(-(logit(share) + by))))
