"""What a computation graph says of the work in it: `GraphFeatures`, as plain numbers.

The features of Horus (TPDS '21, section 5): floating-point operations, parameters, activations, counts of
operators, batch and input size, all of one forward pass. `onnx_graph.read_graph_features` reads them from an
ONNX file; this module needs no library, so that a scheduler can hold and scale them.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

from foundation.errors import BadInputError

# No network that a GPU could train comes near; a larger number is a broken or a hostile file.
LARGEST = 1e18
# Grow with the batch; everything else belongs to the network.
_PER_BATCH = (
    "input_elements",
    "dense_macs",
    "depthwise_macs",
    "activation_elements",
    "elementwise_elements",
)


@dataclass(frozen=True)
class GraphFeatures:
    """One forward pass of a network over one batch.

    - `batch_size`: examples in the batch.
    - `input_elements`: numbers in all inputs.
    - `parameters`: trainable numbers; constants of the graph that are no parameters may be among them.
    - `dense_macs`, `depthwise_macs`: multiply-accumulates of convolutions, matrix products and recurrent
      operators, and of depth-wise convolutions, which move far more memory for each.
    - `activation_elements`: numbers that all operators put out, views (a reshape, a slice) not counted.
    - `elementwise_elements`: those of them that come from operators without multiply-accumulates.
    - `convolutions`, `depthwise_convolutions`, `matrix_products`, `normalisations`, `recurrent`,
      `elementwise`: operators of each class that put out floating-point numbers; the last holds all others.
    - `recurrent_steps`: time steps of all recurrent operators, each of which waits for the last.
    """

    batch_size: int
    input_elements: float
    parameters: float
    dense_macs: float
    depthwise_macs: float
    activation_elements: float
    elementwise_elements: float
    convolutions: int
    depthwise_convolutions: int
    matrix_products: int
    normalisations: int
    recurrent: int
    elementwise: int
    recurrent_steps: float

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if not 0 <= value <= LARGEST:
                raise BadInputError(
                    f"The graph's {field.name} is {value!r}, which no network has.",
                    remedy="Check the dimensions of the graph's inputs and weights.",
                )
        if self.batch_size < 1 or self.operators < 1:
            raise BadInputError(
                f"A graph with a batch of {self.batch_size} and {self.operators} operators does no work.",
                remedy="Export the network that is trained, with a batch of at least one example.",
            )

    @property
    def operators(self) -> int:
        """Return all operators that compute something: the kernels of a forward pass."""
        return (
            self.convolutions
            + self.depthwise_convolutions
            + self.matrix_products
            + self.normalisations
            + self.recurrent
            + self.elementwise
        )

    @property
    def macs(self) -> float:
        """Return all multiply-accumulates; half of what is commonly called FLOPs."""
        return self.dense_macs + self.depthwise_macs

    @property
    def flops(self) -> float:
        """Return floating-point operations: two a multiply-accumulate, one an element of other operators."""
        return 2.0 * self.macs + self.elementwise_elements

    @property
    def flops_per_operator(self) -> float:
        """Return how much arithmetic a launch of a kernel brings: small ones leave the GPU waiting."""
        return self.flops / self.operators

    @property
    def flops_per_byte(self) -> float:
        """Return the arithmetic a byte moved: weights once, activations written and read, 4 bytes each."""
        moved = 4.0 * (self.parameters + 2.0 * self.activation_elements + self.input_elements)
        return self.flops / moved if moved else 0.0

    def at_batch(self, batch_size: int) -> "GraphFeatures":
        """Return the features of the same network at another batch size; raises BadInputError below 1."""
        if batch_size < 1:
            raise BadInputError(f"The batch size is {batch_size}.", remedy="Use 1 or more.")
        if batch_size == self.batch_size:
            return self
        ratio = batch_size / self.batch_size
        scaled = {name: getattr(self, name) * ratio for name in _PER_BATCH}
        return replace(self, batch_size=batch_size, **scaled)

    def to_data(self) -> dict[str, float]:
        """Return the fields as plain data."""
        return asdict(self)

    @classmethod
    def from_data(cls, row: Mapping[str, Any]) -> "GraphFeatures":
        """Read what `to_data` gave, or a row of a table; raises BadInputError for a missing or bad field."""
        values: dict[str, Any] = {}
        for field in fields(cls):
            try:
                number = float(row[field.name])
            except (KeyError, TypeError, ValueError):
                raise BadInputError(
                    f"The graph's {field.name} is missing or no number.", remedy="Read the graph again."
                ) from None
            whole = field.type is int
            if not abs(number) <= LARGEST or (whole and number != int(number)):
                raise BadInputError(
                    f"The graph's {field.name} is {number!r}.", remedy="Read the graph again."
                )
            values[field.name] = int(number) if whole else number
        return cls(**values)


FEATURE_NAMES = tuple(field.name for field in fields(GraphFeatures))
