"""ResNet-50 on ImageNet (He et al., CVPR '16): 224x224 images, 1,000 classes, 25.6 million parameters."""

from torch import nn

from profiler_jobs.zoo.image_classification import IMAGENET, image_workload
from profiler_jobs.zoo.residual_network import classifier, convolution, residual_stages


def resnet50(classes: int) -> nn.Sequential:
    """Return the network: (batch, 3, 224, 224) to (batch, classes)."""
    return nn.Sequential(
        convolution(3, 64, 7, stride=2),
        nn.ReLU(inplace=True),
        nn.MaxPool2d(3, 2, 1),
        *residual_stages((3, 4, 6, 3), bottleneck=True),
        *classifier(2048, classes),
    )


build = image_workload(resnet50, IMAGENET)
