"""EfficientNet-B0 on CIFAR-10 (Tan and Le, ICML '19): 32x32 images, 4.0 million parameters.

The network is the paper's Table 1; for images this small its first convolution keeps the resolution, as
implementations for CIFAR-10 do.
"""

from torch import nn

from profiler_jobs.zoo.image_classification import CIFAR_10, image_workload
from profiler_jobs.zoo.inverted_residual import BlockShape, InvertedResidual, SqueezeExcitation, swish
from profiler_jobs.zoo.residual_network import convolution

# Expansion, channels, blocks, filter's side, stride of the first one.
_GROUPS = (
    (1, 16, 1, 3, 1),
    (6, 24, 2, 3, 2),
    (6, 40, 2, 5, 2),
    (6, 80, 3, 3, 2),
    (6, 112, 3, 5, 1),
    (6, 192, 4, 5, 2),
    (6, 320, 1, 3, 1),
)
_DROPOUT = 0.2
_DROP_LAST_BLOCK = 0.2  # stochastic depth grows towards it linearly


def efficientnet_b0(classes: int) -> nn.Sequential:
    """Return the network: (batch, 3, 32, 32) to (batch, classes)."""
    layers: list[nn.Module] = [convolution(3, 32, 3), swish()]
    channels = 32
    total = sum(blocks for _, _, blocks, _, _ in _GROUPS)
    built = 0
    for expansion, width, blocks, side, first_stride in _GROUPS:
        for position in range(blocks):
            stride = first_stride if position == 0 else 1
            expanded = expansion * channels
            excitation = SqueezeExcitation(expanded, max(1, channels // 4), swish, nn.Sigmoid())
            shape = BlockShape(channels, expanded, width, side, stride)
            layers.append(InvertedResidual(shape, swish, excitation, _DROP_LAST_BLOCK * built / total))
            channels = width
            built += 1
    return nn.Sequential(
        *layers,
        convolution(channels, 1280, 1),
        swish(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Dropout(_DROPOUT, inplace=True),
        nn.Linear(1280, classes),
    )


build = image_workload(efficientnet_b0, CIFAR_10)
