"""The training step that most workloads share: a batch, forward, a loss against a target, an update."""

from collections.abc import Callable

from torch import Tensor, nn
from torch.optim import Optimizer

from profiler_jobs.zoo.batches import BatchPool
from profiler_jobs.zoo.mixed_precision import Precision
from profiler_jobs.zoo.training_step import ExportView


class SupervisedTraining:
    """Trains `loss(network(*inputs), target)`, where a batch is the inputs and, last, the target."""

    def __init__(
        self,
        network: nn.Module,
        loss: Callable[[Tensor, Tensor], Tensor],
        batches: BatchPool,
        optimizer: Optimizer,
        precision: Precision,
        *,
        examples_per_step: int,
    ) -> None:
        self._network = network.train()
        self._loss = loss
        self._batches = batches
        self._optimizer = optimizer
        self._precision = precision
        self._examples_per_step = examples_per_step

    @property
    def examples_per_step(self) -> int:
        """Return the batch size."""
        return self._examples_per_step

    def step(self) -> Tensor:
        """Train one batch."""
        *inputs, target = self._batches.next()
        self._optimizer.zero_grad(set_to_none=True)
        with self._precision.autocast():
            loss = self._loss(self._network(*inputs), target)
        self._precision.backward(loss)
        self._precision.update(self._optimizer)
        return loss.detach()

    def export_view(self) -> ExportView:
        """Return the network and the first batch's inputs, on the host."""
        return ExportView(self._network, self._batches.first[:-1])
