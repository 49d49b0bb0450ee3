"""The inverted residual block of MobileNetV2, MobileNetV3 and EfficientNet.

Expand by a 1x1 convolution, filter each channel by itself, weigh the channels (squeeze and excitation, in the
later two), project to few channels without an activation; add the input where the shapes agree.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from profiler_jobs.zoo.residual_network import convolution

Activation = Callable[[], nn.Module]


def relu6() -> nn.Module:
    """Return MobileNetV2's activation."""
    return nn.ReLU6(inplace=True)


def relu() -> nn.Module:
    """Return a rectifier that works in place."""
    return nn.ReLU(inplace=True)


def hard_swish() -> nn.Module:
    """Return MobileNetV3's activation."""
    return nn.Hardswish(inplace=True)


def swish() -> nn.Module:
    """Return EfficientNet's activation."""
    return nn.SiLU(inplace=True)


class SqueezeExcitation(nn.Module):
    """Scales each channel by a gate that two 1x1 convolutions compute from the channels' means."""

    def __init__(self, channels: int, squeezed: int, activation: Activation, gate: nn.Module) -> None:
        super().__init__()
        self.gate = nn.Sequential(
            nn.AdaptiveAvgPool2d(1),
            nn.Conv2d(channels, squeezed, 1),
            activation(),
            nn.Conv2d(squeezed, channels, 1),
            gate,
        )

    def forward(self, features: Tensor) -> Tensor:
        """Return the features, scaled."""
        return features * self.gate(features)


class StochasticDepth(nn.Module):
    """Drops the whole branch of single examples while training (Huang et al., ECCV '16)."""

    def __init__(self, probability: float) -> None:
        super().__init__()
        self.probability = probability

    def forward(self, branch: Tensor) -> Tensor:
        """Return the branch with some examples zero and the others scaled up."""
        if not self.training:
            return branch
        keep_share = 1.0 - self.probability
        mask = torch.empty((len(branch), 1, 1, 1), dtype=branch.dtype, device=branch.device)
        return branch * mask.bernoulli_(keep_share).div_(keep_share)


@dataclass(frozen=True)
class BlockShape:
    """One block: its channels, the width between them, the filter's side and stride."""

    channels_in: int
    expanded: int
    channels_out: int
    side: int
    stride: int


class InvertedResidual(nn.Module):
    """One block; `excitation` is a `SqueezeExcitation` over the expanded channels or None."""

    def __init__(
        self,
        shape: BlockShape,
        activation: Activation,
        excitation: nn.Module | None = None,
        drop_probability: float = 0.0,
    ) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        if shape.expanded != shape.channels_in:
            layers += [convolution(shape.channels_in, shape.expanded, 1), activation()]
        layers += [
            convolution(
                shape.expanded, shape.expanded, shape.side, stride=shape.stride, groups=shape.expanded
            ),
            activation(),
        ]
        if excitation is not None:
            layers.append(excitation)
        layers.append(convolution(shape.expanded, shape.channels_out, 1))
        self.residual = shape.stride == 1 and shape.channels_in == shape.channels_out
        if self.residual and drop_probability > 0:
            layers.append(StochasticDepth(drop_probability))
        self.body = nn.Sequential(*layers)

    def forward(self, features: Tensor) -> Tensor:
        """Map (batch, channels_in, h, w) to (batch, channels_out, h / stride, w / stride)."""
        projected = self.body(features)
        return features + projected if self.residual else projected
