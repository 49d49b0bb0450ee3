"""What every workload of the zoo offers: build it once, then step.

A workload's module is found by its model's name (`catalogue.py`) and holds `build`, a `Build`. All data is
generated from the seed, in the shapes of the real data set, on the host, and is copied to the device in every
step as a data loader would.
"""

from dataclasses import dataclass
from typing import Any, Protocol


@dataclass(frozen=True)
class ExportView:
    """A `torch.nn.Module` and example inputs (a tuple of tensors, batch first) for `torch.onnx.export`.

    The module holds every parameter that the workload keeps on the device for its forward passes.
    """

    module: Any
    inputs: tuple[Any, ...]


class TrainingStep(Protocol):
    """A model with its optimizer and data, ready to train."""

    @property
    def examples_per_step(self) -> int:
        """Return how many examples (images, sentences, environment steps: see its module) one step trains."""

    def step(self) -> Any:
        """Train one step: data to the device, forward, backward, optimizer. Returns the loss, on the device.

        Does not wait for the device, except where the workload itself must: an environment on the host needs
        the action before it can go on.
        """

    def export_view(self) -> ExportView:
        """Return the network whose forward pass describes the workload in ONNX, and its input."""


class Build(Protocol):
    """Builds one configuration of a workload."""

    def __call__(self, *, batch_size: int, amp: bool, device: Any, seed: int) -> TrainingStep:
        """Build it on the `torch.device`; the same seed gives the same weights and data.

        Seeds PyTorch's global generators, which draw the weights and the dropout: one workload a process.
        Raises BadInputError when the workload has no such mixed-precision variant.
        """
