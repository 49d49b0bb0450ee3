"""ResNet-18 on CIFAR-10 (He et al., CVPR '16): 32x32 images, 10 classes, 11.2 million parameters.

For images this small the first convolution is 3x3 at full resolution and nothing is pooled before the stages,
as in the paper's own networks for CIFAR-10.
"""

import torch
from torch import nn

from profiler_jobs.zoo.image_classification import CIFAR_10, train_images
from profiler_jobs.zoo.residual_network import classifier, convolution, residual_stages
from profiler_jobs.zoo.training_step import TrainingStep


def resnet18(classes: int) -> nn.Sequential:
    """Return the network: (batch, 3, 32, 32) to (batch, classes)."""
    return nn.Sequential(
        convolution(3, 64, 3),
        nn.ReLU(inplace=True),
        *residual_stages((2, 2, 2, 2), bottleneck=False),
        *classifier(512, classes),
    )


def build(*, batch_size: int, amp: bool, device: torch.device, seed: int) -> TrainingStep:
    """Build the workload; an example is an image."""
    torch.manual_seed(seed)
    network = resnet18(CIFAR_10.classes)
    return train_images(network, CIFAR_10, batch_size=batch_size, amp=amp, device=device, seed=seed)
