"""MobileNetV3-Large on ImageNet (Howard et al., ICCV '19): 224x224 images, 5.5 million parameters.

The network is the paper's Table 1.
"""

from torch import nn

from profiler_jobs.zoo.image_classification import IMAGENET, image_workload
from profiler_jobs.zoo.inverted_residual import (
    BlockShape,
    InvertedResidual,
    SqueezeExcitation,
    hard_swish,
    relu,
)
from profiler_jobs.zoo.residual_network import convolution

# Filter's side, expanded channels, channels, squeeze and excitation, hard swish (else ReLU), stride.
_BLOCKS = (
    (3, 16, 16, False, False, 1),
    (3, 64, 24, False, False, 2),
    (3, 72, 24, False, False, 1),
    (5, 72, 40, True, False, 2),
    (5, 120, 40, True, False, 1),
    (5, 120, 40, True, False, 1),
    (3, 240, 80, False, True, 2),
    (3, 200, 80, False, True, 1),
    (3, 184, 80, False, True, 1),
    (3, 184, 80, False, True, 1),
    (3, 480, 112, True, True, 1),
    (3, 672, 112, True, True, 1),
    (5, 672, 160, True, True, 2),
    (5, 960, 160, True, True, 1),
    (5, 960, 160, True, True, 1),
)


def mobilenetv3(classes: int) -> nn.Sequential:
    """Return the network: (batch, 3, 224, 224) to (batch, classes)."""
    layers: list[nn.Module] = [convolution(3, 16, 3, stride=2), hard_swish()]
    channels = 16
    for side, expanded, width, excited, swish, stride in _BLOCKS:
        excitation = SqueezeExcitation(expanded, _squeezed(expanded), relu, nn.Hardsigmoid(inplace=True))
        shape = BlockShape(channels, expanded, width, side, stride)
        layers.append(InvertedResidual(shape, hard_swish if swish else relu, excitation if excited else None))
        channels = width
    return nn.Sequential(
        *layers,
        convolution(channels, 960, 1),
        hard_swish(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(960, 1280),
        hard_swish(),
        nn.Dropout(0.2, inplace=True),
        nn.Linear(1280, classes),
    )


def _squeezed(expanded: int) -> int:
    """Return a quarter of the channels, as the nearest multiple of 8 that is not over a tenth smaller."""
    quarter = expanded / 4
    rounded = max(8, int(quarter + 4) // 8 * 8)
    return rounded if rounded >= 0.9 * quarter else rounded + 8


build = image_workload(mobilenetv3, IMAGENET)
