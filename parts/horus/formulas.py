"""Utilisation and memory of a job from the features of its graph, and how far these miss; NumPy only.

Utilisation is the share of a training step in which the device works. It is low where kernels are short
beside the time that the host takes to launch them (Horus, TPDS '21, section 3, finds it rise with
the FLOPs of a model). In units of the host's time for one operator, a step takes

    device = per_kernel x kernels + amp_device x (per_gmac x GMACs + per_melement x million activations)
    host   = amp_host x (kernels + per_step)
    utilisation = (1 + (host / device)^overlap)^(-1 / overlap)

where `kernels` are operators and time steps of recurrent ones, GMACs billions of multiply-accumulates, and
the amp factors hold with mixed precision only. Host and device overlap; the sharper, the more the longer
one rules. Memory is busy during the part of the device's time that is not mere launching, times `traffic`.
So utilisation rises with the batch and with the work an operator brings, and with nothing else that the
graph does not say: a job that waits for its input or its environment is taken to be busier than it is.

Memory, by Horus's formula (section 5):

    memory = overhead + parameter_copies x parameters + activation_copies x (data + activations)

in MiB of 4-byte numbers. The parameter copies stand for weights, gradients and the optimizer's states, the
activation copies for activations and their gradients, of which an allocator keeps some and frees others; with
mixed precision data and activations take half. The overhead is the context and its libraries.

A residual is how far a measurement lies above its prediction, on the scale of the quantity (`logit`, the
logarithm of memory). Residuals are of whole models that were left out. Every model counts once, however many
configurations it has: the next job is a new model, not one more batch size.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from lucid_models.model_format import Fields
from parts.horus.graph_features import FEATURE_NAMES, GraphFeatures

Floats = NDArray[np.float64]
Columns = Mapping[str, Floats]
LOWEST, HIGHEST = 1e-6, 1e6
_LEAST, _MOST = 0.001, 0.999  # the range of predictions: measurements are no finer
NUMBERS_PER_MIB = 2**20 / 4
AMP_BYTES = 0.5
# In words on either scale: further off than this, nothing was predicted.
FURTHEST = 20.0


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
        """Return the utilisation, in (0, 1), of steps of which device and host take so long."""
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


def memory_terms(columns: Columns, amp: Floats) -> Floats:
    """Return what the formula's coefficients multiply, shape (rows, 3): 1, MiB of parameters, MiB of a
    batch.
    """
    batch = columns["input_elements"] + columns["activation_elements"]
    return np.stack(
        [
            np.ones(len(batch)),
            columns["parameters"] / NUMBERS_PER_MIB,
            batch / NUMBERS_PER_MIB * np.where(amp > 0, AMP_BYTES, 1.0),
        ],
        axis=1,
    )


@dataclass(frozen=True)
class MemoryModel:
    """The formula's coefficients for one device, none of them negative."""

    overhead_mib: float
    parameter_copies: float
    activation_copies: float

    def parts_mib(self, columns: Columns, amp: Floats) -> Floats:
        """Return the three parts of the sum, shape (rows, 3)."""
        coefficients = np.array([self.overhead_mib, self.parameter_copies, self.activation_copies])
        return np.asarray(memory_terms(columns, amp) * coefficients)

    def mib(self, columns: Columns, amp: Floats) -> Floats:
        """Return the expected footprint in MiB."""
        return np.asarray(self.parts_mib(columns, amp).sum(axis=1))

    def to_data(self) -> dict[str, float]:
        """Return plain data for JSON."""
        return {
            "overhead_mib": float(self.overhead_mib),
            "parameter_copies": float(self.parameter_copies),
            "activation_copies": float(self.activation_copies),
        }

    @classmethod
    def from_data(cls, place: Fields) -> "MemoryModel":
        """Read what `to_data` wrote; raises CorruptModelError."""
        return cls(
            place.number("overhead_mib", 0.0, 1e6),
            place.number("parameter_copies", 0.0, 1e3),
            place.number("activation_copies", 0.0, 1e3),
        )


def level_of_cost(under_cost: float) -> float:
    """Return the share of cases to over-estimate when an under-estimate costs so many times as much.

    The cheapest quantile of a forecast with errors that cost differently (the newsvendor's rule).
    """
    return under_cost / (1.0 + under_cost)


def model_quantile(residuals: Floats, models: Sequence[str], level: float) -> float:
    """Return the residual below which `level` of the models lie, each of which weighs the same.

    One more model than was seen is counted on, beyond the largest residual seen (as in conformal prediction),
    so that the level holds for the next one.
    """
    names, of = np.unique(np.asarray(models), return_inverse=True)
    weights = 1.0 / np.bincount(of)[of]
    order = np.argsort(residuals, kind="stable")
    reached = np.cumsum(weights[order])
    if level >= 0.5:
        wanted = level * (len(names) + 1)
        position = int(np.searchsorted(reached, wanted - 1e-9))
    else:
        wanted = level * (len(names) + 1) - 1.0
        position = int(np.searchsorted(reached, wanted + 1e-9))
    return float(residuals[order][min(position, len(order) - 1)])


@dataclass(frozen=True)
class Margins:
    """What is added to an expectation: to be careful, and for the ends of the range."""

    careful: float
    low: float
    high: float

    @classmethod
    def of(cls, residuals: Floats, models: Sequence[str], *, level: float, range_share: float) -> "Margins":
        """Choose them from the residuals of left-out models."""
        tail = (1.0 - range_share) / 2.0
        careful, low, high = (model_quantile(residuals, models, share) for share in (level, tail, 1.0 - tail))
        return cls(careful, min(low, careful), max(high, careful))

    def to_data(self) -> dict[str, float]:
        """Return plain data for JSON."""
        return {"careful": self.careful, "low": self.low, "high": self.high}

    @classmethod
    def from_data(cls, place: Fields) -> "Margins":
        """Read what `to_data` wrote; raises CorruptModelError."""
        margins = cls(*(place.number(name, -FURTHEST, FURTHEST) for name in ("careful", "low", "high")))
        if not margins.low <= margins.careful <= margins.high:
            raise place.fail("careful", "does not lie between low and high")
        return margins
