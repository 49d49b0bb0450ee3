"""Training on labelled images, shared by the networks that classify ImageNet and CIFAR-10."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional

from profiler_jobs.zoo.batches import Batch, BatchPool
from profiler_jobs.zoo.mixed_precision import choose_precision, start_momentum_at_zero
from profiler_jobs.zoo.supervised import SupervisedTraining
from profiler_jobs.zoo.training_step import Build, TrainingStep


@dataclass(frozen=True)
class ImageData:
    """The shape of a data set of RGB images."""

    classes: int
    side_pixels: int
    weight_decay: float  # what its training recipes use


IMAGENET = ImageData(1000, 224, 1e-4)
CIFAR_10 = ImageData(10, 32, 5e-4)


def image_workload(make_network: Callable[[int], nn.Module], data: ImageData) -> Build:
    """Return what builds the training of a network with SGD and momentum 0.9; an example is an image.

    `make_network` is given the number of classes.
    """

    def build(*, batch_size: int, amp: bool, device: torch.device, seed: int) -> TrainingStep:
        def make_batch(generator: torch.Generator) -> Batch:
            shape = (batch_size, 3, data.side_pixels, data.side_pixels)
            images = torch.randn(shape, generator=generator)  # as normalised images are: mean 0, deviation 1
            return images, torch.randint(data.classes, (batch_size,), generator=generator)

        torch.manual_seed(seed)
        network = make_network(data.classes).to(device)
        precision = choose_precision(device, amp=amp)
        optimizer = torch.optim.SGD(
            network.parameters(),
            lr=0.01,
            momentum=0.9,
            weight_decay=data.weight_decay,
            fused=precision.fused_optimizer,
        )
        start_momentum_at_zero(optimizer)
        batches = BatchPool(make_batch, device, seed)
        return SupervisedTraining(
            network, functional.cross_entropy, batches, optimizer, precision, examples_per_step=batch_size
        )

    return build
