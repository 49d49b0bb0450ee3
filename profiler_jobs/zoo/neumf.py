"""NeuMF on MovieLens-1M (He et al., WWW '17): will a user watch a film? 1.6 million parameters.

32 predictive factors and three layers, with the numbers of users and films of the data set; one watched film
comes with four that were not. An example is a pair of user and film.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional

from profiler_jobs.zoo.batches import Batch, BatchPool
from profiler_jobs.zoo.mixed_precision import choose_precision
from profiler_jobs.zoo.supervised import SupervisedTraining
from profiler_jobs.zoo.training_step import TrainingStep

USERS = 6_040
FILMS = 3_706
_FACTORS = 32
_LAYERS = 3
_WATCHED_SHARE = 0.2


class NeuMF(nn.Module):
    """Generalised matrix factorisation beside a perceptron, joined by one linear layer."""

    def __init__(self) -> None:
        super().__init__()
        wide = _FACTORS << (_LAYERS - 1)
        self.user_factors = nn.Embedding(USERS, _FACTORS)
        self.film_factors = nn.Embedding(FILMS, _FACTORS)
        self.user_features = nn.Embedding(USERS, wide)
        self.film_features = nn.Embedding(FILMS, wide)
        layers: list[nn.Module] = []
        for width in (wide >> depth for depth in range(_LAYERS)):
            layers += [nn.Linear(2 * width, width), nn.ReLU(inplace=True)]
        self.perceptron = nn.Sequential(*layers)
        self.score = nn.Linear(2 * _FACTORS, 1)
        for table in (self.user_factors, self.film_factors, self.user_features, self.film_features):
            nn.init.normal_(table.weight, std=0.01)

    def forward(self, users: Tensor, films: Tensor) -> Tensor:
        """Map two (batch,) to the logits that the users watch the films, (batch,)."""
        product = self.user_factors(users) * self.film_factors(films)
        features = self.perceptron(torch.cat((self.user_features(users), self.film_features(films)), dim=1))
        return self.score(torch.cat((product, features), dim=1)).squeeze(1)


def build(*, batch_size: int, amp: bool, device: torch.device, seed: int) -> TrainingStep:
    """Build the workload; an example is a pair of user and film."""

    def make_batch(source: torch.Generator) -> Batch:
        users = torch.randint(USERS, (batch_size,), generator=source)
        films = torch.randint(FILMS, (batch_size,), generator=source)
        return users, films, (torch.rand(batch_size, generator=source) < _WATCHED_SHARE).float()

    torch.manual_seed(seed)
    network = NeuMF().to(device)
    precision = choose_precision(device, amp=amp)
    optimizer = torch.optim.Adam(network.parameters(), lr=1e-3, fused=precision.fused_optimizer)
    batches = BatchPool(make_batch, device, seed)
    return SupervisedTraining(
        network,
        functional.binary_cross_entropy_with_logits,
        batches,
        optimizer,
        precision,
        examples_per_step=batch_size,
    )
