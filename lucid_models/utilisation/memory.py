"""GPU memory before a job runs, by Horus's formula (TPDS '21, section 5), NumPy only.

    memory = overhead + parameter_copies x parameters + activation_copies x (data + activations)

in MiB of 4-byte numbers. The parameter copies stand for weights, gradients and the optimizer's states, the
activation copies for activations and their gradients, of which an allocator keeps some and frees others; with
mixed precision data and activations take half. The overhead is the context and its libraries.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lucid_models.model_format import Fields
from lucid_models.utilisation.step_model import Columns

Floats = NDArray[np.float64]
NUMBERS_PER_MIB = 2**20 / 4
AMP_BYTES = 0.5


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
