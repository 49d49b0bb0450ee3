"""MobileNetV2 on CIFAR-10 (Sandler et al., CVPR '18): 32x32 images, 10 classes, 2.2 million parameters.

The network is the paper's Table 2; for images this small its first convolution and its second group of blocks
keep the resolution, as implementations for CIFAR-10 do.
"""

from torch import nn

from profiler_jobs.zoo.image_classification import CIFAR_10, image_workload
from profiler_jobs.zoo.inverted_residual import BlockShape, InvertedResidual, relu6
from profiler_jobs.zoo.residual_network import classifier, convolution

# Expansion, channels, blocks, stride of the first one.
_GROUPS = (
    (1, 16, 1, 1),
    (6, 24, 2, 1),  # stride 2 on ImageNet
    (6, 32, 3, 2),
    (6, 64, 4, 2),
    (6, 96, 3, 1),
    (6, 160, 3, 2),
    (6, 320, 1, 1),
)


def mobilenetv2(classes: int) -> nn.Sequential:
    """Return the network: (batch, 3, 32, 32) to (batch, classes)."""
    layers: list[nn.Module] = [convolution(3, 32, 3), relu6()]
    channels = 32
    for expansion, width, blocks, first_stride in _GROUPS:
        for position in range(blocks):
            stride = first_stride if position == 0 else 1
            shape = BlockShape(channels, expansion * channels, width, 3, stride)
            layers.append(InvertedResidual(shape, relu6))
            channels = width
    return nn.Sequential(*layers, convolution(channels, 1280, 1), relu6(), *classifier(1280, classes))


build = image_workload(mobilenetv2, CIFAR_10)
