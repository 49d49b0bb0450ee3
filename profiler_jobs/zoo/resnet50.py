"""ResNet-50 on ImageNet (He et al., CVPR '16): 224x224 images, 1,000 classes, 25.6 million parameters."""

import torch
from torch import nn

from profiler_jobs.zoo.image_classification import IMAGENET, train_images
from profiler_jobs.zoo.residual_network import classifier, convolution, residual_stages
from profiler_jobs.zoo.training_step import TrainingStep


def resnet50(classes: int) -> nn.Sequential:
    """Return the network: (batch, 3, 224, 224) to (batch, classes)."""
    return nn.Sequential(
        convolution(3, 64, 7, stride=2),
        nn.ReLU(inplace=True),
        nn.MaxPool2d(3, 2, 1),
        *residual_stages((3, 4, 6, 3), bottleneck=True),
        *classifier(2048, classes),
    )


def build(*, batch_size: int, amp: bool, device: torch.device, seed: int) -> TrainingStep:
    """Build the workload; an example is an image."""
    torch.manual_seed(seed)
    network = resnet50(IMAGENET.classes)
    return train_images(network, IMAGENET, batch_size=batch_size, amp=amp, device=device, seed=seed)
