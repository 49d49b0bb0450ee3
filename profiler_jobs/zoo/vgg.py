"""VGG-11 on CIFAR-10 (Simonyan and Zisserman, ICLR '15, column A): 32x32 images, 9.2 million parameters.

As implementations for CIFAR-10 do, the convolutions are normalised over the batch and one linear layer
follows them: after five poolings a 32x32 image is one point, which leaves the paper's three wide layers
nothing to join.
"""

from torch import nn

from profiler_jobs.zoo.image_classification import CIFAR_10, image_workload

# Output channels of the 3x3 convolutions, in the groups that end in a pooling.
_GROUPS = ((64,), (128,), (256, 256), (512, 512), (512, 512))


def vgg11(classes: int) -> nn.Sequential:
    """Return the network: (batch, 3, 32, 32) to (batch, classes)."""
    layers: list[nn.Module] = []
    channels = 3
    for group in _GROUPS:
        for width in group:
            layers += [nn.Conv2d(channels, width, 3, padding=1), nn.BatchNorm2d(width), nn.ReLU(inplace=True)]
            channels = width
        layers.append(nn.MaxPool2d(2))
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(channels, classes))


build = image_workload(vgg11, CIFAR_10)
