"""DCGAN on LSUN (Radford et al., ICLR '16): 64x64 images out of noise, 6.3 million parameters.

Generator and discriminator are 64 channels wide, with 3.6 and 2.8 million parameters. A step updates the
discriminator on real and on generated images and then the generator; an example is a real image.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional

from profiler_jobs.zoo.batches import Batch, BatchPool
from profiler_jobs.zoo.mixed_precision import Precision, choose_precision
from profiler_jobs.zoo.training_step import ExportView, TrainingStep

LATENT = 100
_WIDTH = 64
_SIDE_PIXELS = 64


def generator() -> nn.Sequential:
    """Return the generator: (batch, 100, 1, 1) to (batch, 3, 64, 64) in [-1, 1]."""
    layers: list[nn.Module] = []
    channels = LATENT
    for width, stride, padding in (
        (8 * _WIDTH, 1, 0),
        (4 * _WIDTH, 2, 1),
        (2 * _WIDTH, 2, 1),
        (_WIDTH, 2, 1),
    ):
        layers += [
            nn.ConvTranspose2d(channels, width, 4, stride, padding, bias=False),
            nn.BatchNorm2d(width),
            nn.ReLU(inplace=True),
        ]
        channels = width
    return nn.Sequential(*layers, nn.ConvTranspose2d(channels, 3, 4, 2, 1, bias=False), nn.Tanh())


def discriminator() -> nn.Sequential:
    """Return the discriminator: (batch, 3, 64, 64) to (batch, 1), the logit of being real."""
    layers: list[nn.Module] = [nn.Conv2d(3, _WIDTH, 4, 2, 1, bias=False), nn.LeakyReLU(0.2, inplace=True)]
    channels = _WIDTH
    for width in (2 * _WIDTH, 4 * _WIDTH, 8 * _WIDTH):
        layers += [
            nn.Conv2d(channels, width, 4, 2, 1, bias=False),
            nn.BatchNorm2d(width),
            nn.LeakyReLU(0.2, inplace=True),
        ]
        channels = width
    return nn.Sequential(*layers, nn.Conv2d(channels, 1, 4, 1, 0, bias=False), nn.Flatten())


class Adversaries(nn.Module):
    """Both networks, one after the other."""

    def __init__(self) -> None:
        super().__init__()
        self.generator = generator().apply(_initialise)
        self.discriminator = discriminator().apply(_initialise)

    def forward(self, latent: Tensor) -> Tensor:
        """Return the logit that each image generated from (batch, 100, 1, 1) is real."""
        return self.discriminator(self.generator(latent))


def _initialise(layer: nn.Module) -> None:
    """Draw weights as the paper's Section 4 says."""
    if isinstance(layer, nn.Conv2d | nn.ConvTranspose2d):
        nn.init.normal_(layer.weight, 0.0, 0.02)
    elif isinstance(layer, nn.BatchNorm2d):
        nn.init.normal_(layer.weight, 1.0, 0.02)


class AdversarialTraining:
    """Trains both networks by turns; the noise is drawn on the device."""

    def __init__(
        self,
        networks: Adversaries,
        batches: BatchPool,
        precision: Precision,
        device: torch.device,
        batch_size: int,
    ) -> None:
        self._networks = networks.train()
        self._batches = batches
        self._precision = precision
        self._device = device
        self._batch_size = batch_size
        self._of_discriminator, self._of_generator = (
            torch.optim.Adam(
                network.parameters(), lr=2e-4, betas=(0.5, 0.999), fused=precision.fused_optimizer
            )
            for network in (networks.discriminator, networks.generator)
        )
        self._real = torch.ones((batch_size, 1), device=device)
        self._generated = torch.zeros((batch_size, 1), device=device)

    @property
    def examples_per_step(self) -> int:
        """Return the batch size."""
        return self._batch_size

    def step(self) -> Tensor:
        """Train the discriminator, then the generator; returns the sum of their losses."""
        (images,) = self._batches.next()
        judge, scale = self._networks.discriminator, functional.binary_cross_entropy_with_logits
        latent = torch.randn((self._batch_size, LATENT, 1, 1), device=self._device)

        self._of_discriminator.zero_grad(set_to_none=True)
        with self._precision.autocast():
            generated = self._networks.generator(latent)
            loss = scale(judge(images), self._real) + scale(judge(generated.detach()), self._generated)
        self._precision.backward(loss)
        self._precision.update(self._of_discriminator)

        self._of_generator.zero_grad(set_to_none=True)
        with self._precision.autocast():
            fooled = scale(judge(generated), self._real)
        self._precision.backward(fooled)
        self._precision.update(self._of_generator)
        return (loss + fooled).detach()

    def export_view(self) -> ExportView:
        """Return the generator followed by the discriminator, and the numbers they start from."""
        latent = torch.randn((self._batch_size, LATENT, 1, 1), generator=torch.Generator().manual_seed(0))
        return ExportView(self._networks, (latent,))


def build(*, batch_size: int, amp: bool, device: torch.device, seed: int) -> TrainingStep:
    """Build the workload; an example is a real image."""

    def make_batch(source: torch.Generator) -> Batch:
        return (torch.rand((batch_size, 3, _SIDE_PIXELS, _SIDE_PIXELS), generator=source) * 2 - 1,)

    torch.manual_seed(seed)
    networks = Adversaries().to(device)
    batches = BatchPool(make_batch, device, seed)
    return AdversarialTraining(networks, batches, choose_precision(device, amp=amp), device, batch_size)
