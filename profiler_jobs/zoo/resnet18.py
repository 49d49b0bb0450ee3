"""ResNet-18 on CIFAR-10 (He et al., CVPR '16): 32x32 images, 10 classes, 11.2 million parameters.

For images this small the first convolution is 3x3 at full resolution and nothing is pooled before the stages,
as in the paper's own networks for CIFAR-10.
"""

from torch import nn

from profiler_jobs.zoo.image_classification import CIFAR_10, image_workload
from profiler_jobs.zoo.residual_network import classifier, convolution, residual_stages


def resnet18(classes: int) -> nn.Sequential:
    """Return the network: (batch, 3, 32, 32) to (batch, classes)."""
    return nn.Sequential(
        convolution(3, 64, 3),
        nn.ReLU(inplace=True),
        *residual_stages((2, 2, 2, 2), bottleneck=False),
        *classifier(512, classes),
    )


build = image_workload(resnet18, CIFAR_10)
