"""PointNet on ShapeNet (Qi et al., CVPR '17): 2,500 points in 16 categories, 3.5 million parameters.

The paper's classification network with both alignment networks and the regulariser that keeps the second one
close to a rotation (Section 4.2).
"""

from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional

from profiler_jobs.zoo.batches import Batch, BatchPool
from profiler_jobs.zoo.mixed_precision import choose_precision
from profiler_jobs.zoo.supervised import SupervisedTraining
from profiler_jobs.zoo.training_step import TrainingStep

POINTS = 2500
CLASSES = 16
_REGULARISER = 0.001


def _of_each_point(*widths: int) -> nn.Sequential:
    """Return a perceptron that is applied to every point by itself, as 1x1 convolutions."""
    layers: list[nn.Module] = []
    for channels_in, channels_out in pairwise(widths):
        layers += [
            nn.Conv1d(channels_in, channels_out, 1),
            nn.BatchNorm1d(channels_out),
            nn.ReLU(inplace=True),
        ]
    return nn.Sequential(*layers)


def _of_the_cloud(*widths: int) -> nn.Sequential:
    layers: list[nn.Module] = []
    for channels_in, channels_out in pairwise(widths):
        layers += [nn.Linear(channels_in, channels_out), nn.BatchNorm1d(channels_out), nn.ReLU(inplace=True)]
    return nn.Sequential(*layers)


class Alignment(nn.Module):
    """Predicts a square matrix for each cloud, near the identity at first (T-Net)."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.channels = channels
        self.points = _of_each_point(channels, 64, 128, 1024)
        self.cloud = _of_the_cloud(1024, 512, 256)
        self.matrix = nn.Linear(256, channels * channels)
        self.register_buffer("identity", torch.eye(channels), persistent=False)
        self.identity: Tensor

    def forward(self, points: Tensor) -> Tensor:
        """Map (batch, channels, points) to (batch, channels, channels)."""
        pooled = self.points(points).amax(dim=2)
        entries: Tensor = self.matrix(self.cloud(pooled))
        return entries.unflatten(1, (self.channels, self.channels)) + self.identity


class PointNet(nn.Module):
    """The classification network."""

    def __init__(self, classes: int) -> None:
        super().__init__()
        self.of_input = Alignment(3)
        self.of_features = Alignment(64)
        self.points = _of_each_point(3, 64, 64)
        self.features = _of_each_point(64, 64, 128, 1024)
        self.head = nn.Sequential(
            *_of_the_cloud(1024, 512, 256)[:-1],
            nn.Dropout(0.3),
            nn.ReLU(inplace=True),
            nn.Linear(256, classes),
        )

    def forward(self, points: Tensor) -> tuple[Tensor, Tensor]:
        """Map (batch, 3, points) to the classes' scores and the matrices that aligned the features."""
        aligned = torch.bmm(self.of_input(points), points)
        features = self.points(aligned)
        matrices = self.of_features(features)
        pooled = self.features(torch.bmm(matrices, features)).amax(dim=2)
        return self.head(pooled), matrices


def _loss(predicted: tuple[Tensor, Tensor], target: Tensor) -> Tensor:
    scores, matrices = predicted
    identity = torch.eye(matrices.shape[1], device=matrices.device)
    distance = torch.linalg.matrix_norm(identity - torch.bmm(matrices, matrices.transpose(1, 2)))
    return functional.cross_entropy(scores, target) + _REGULARISER * distance.mean()


def build(*, batch_size: int, amp: bool, device: torch.device, seed: int) -> TrainingStep:
    """Build the workload; an example is a cloud of points."""

    def make_batch(source: torch.Generator) -> Batch:
        points = torch.randn((batch_size, 3, POINTS), generator=source)
        radius = points.norm(dim=1).amax(dim=1)[:, None, None]  # a shape fills the unit ball
        return points / radius, torch.randint(CLASSES, (batch_size,), generator=source)

    torch.manual_seed(seed)
    network = PointNet(CLASSES).to(device)
    precision = choose_precision(device, amp=amp)
    optimizer = torch.optim.Adam(network.parameters(), lr=1e-3, fused=precision.fused_optimizer)
    batches = BatchPool(make_batch, device, seed)
    return SupervisedTraining(network, _loss, batches, optimizer, precision, examples_per_step=batch_size)
