"""Residual networks (He et al., CVPR '16): the blocks and stages that ResNet-18 and ResNet-50 are made of."""

from collections.abc import Sequence

from torch import Tensor, nn


def convolution(
    channels_in: int, channels_out: int, side: int, *, stride: int = 1, groups: int = 1
) -> nn.Sequential:
    """Return a convolution that keeps the resolution (divided by the stride), normalised over the batch."""
    return nn.Sequential(
        nn.Conv2d(channels_in, channels_out, side, stride, side // 2, groups=groups, bias=False),
        nn.BatchNorm2d(channels_out),
    )


class ResidualBlock(nn.Module):
    """`relu(body(x) + shortcut(x))`; the shortcut projects where the shape changes (the paper's option B)."""

    def __init__(self, body: nn.Sequential, channels_in: int, channels_out: int, stride: int) -> None:
        super().__init__()
        self.body = body
        same = stride == 1 and channels_in == channels_out
        self.shortcut = nn.Identity() if same else convolution(channels_in, channels_out, 1, stride=stride)
        self.activation = nn.ReLU(inplace=True)

    def forward(self, features: Tensor) -> Tensor:
        """Map (batch, channels_in, h, w) to (batch, channels_out, h / stride, w / stride)."""
        return self.activation(self.body(features) + self.shortcut(features))


def basic_block(channels_in: int, width: int, stride: int) -> ResidualBlock:
    """Return the block of two 3x3 convolutions."""
    body = nn.Sequential(
        convolution(channels_in, width, 3, stride=stride),
        nn.ReLU(inplace=True),
        convolution(width, width, 3),
    )
    return ResidualBlock(body, channels_in, width, stride)


def bottleneck_block(channels_in: int, width: int, stride: int) -> ResidualBlock:
    """Return the block of 1x1, 3x3 and 1x1 convolutions; the stride is the 3x3's, as in today's libraries."""
    body = nn.Sequential(
        convolution(channels_in, width, 1),
        nn.ReLU(inplace=True),
        convolution(width, width, 3, stride=stride),
        nn.ReLU(inplace=True),
        convolution(width, 4 * width, 1),
    )
    return ResidualBlock(body, channels_in, 4 * width, stride)


def residual_stages(blocks: Sequence[int], *, bottleneck: bool) -> list[nn.Module]:
    """Return four stages of so many blocks, 64 to 512 wide, each but the first at half the resolution."""
    stages: list[nn.Module] = []
    channels = 64
    for stage, count in enumerate(blocks):
        width = 64 << stage
        for position in range(count):
            stride = 2 if stage > 0 and position == 0 else 1
            make = bottleneck_block if bottleneck else basic_block
            stages.append(make(channels, width, stride))
            channels = 4 * width if bottleneck else width
    return stages


def classifier(channels: int, classes: int) -> list[nn.Module]:
    """Return the average over the image and one linear layer."""
    return [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, classes)]
