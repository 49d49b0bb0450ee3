"""An LSTM language model on WikiText-2: two layers of 200, 35 tokens at a time, 14.0 million parameters.

The sizes are those of PyTorch's word-level language-modelling example, which Lucid measured. The state goes
on from one step to the next, without its history. An example is a sequence of 35 tokens.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional

from profiler_jobs.zoo.batches import Batch, BatchPool
from profiler_jobs.zoo.mixed_precision import choose_precision
from profiler_jobs.zoo.supervised import SupervisedTraining
from profiler_jobs.zoo.training_step import TrainingStep

TOKENS = 35
VOCABULARY = 33_278
_WIDTH = 200
_DROPOUT = 0.2


class WordModel(nn.Module):
    """Scores every word as the next one."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(VOCABULARY, _WIDTH)
        self.lstm = nn.LSTM(_WIDTH, _WIDTH, num_layers=2, dropout=_DROPOUT, batch_first=True)
        self.dropout = nn.Dropout(_DROPOUT)
        self.scores = nn.Linear(_WIDTH, VOCABULARY)
        nn.init.uniform_(self.words.weight, -0.1, 0.1)
        nn.init.uniform_(self.scores.weight, -0.1, 0.1)
        nn.init.zeros_(self.scores.bias)
        self._state: tuple[Tensor, Tensor] | None = None

    def forward(self, words: Tensor) -> Tensor:
        """Map (batch, tokens) to (batch, tokens, vocabulary); goes on from the last state while training."""
        embedded = self.dropout(self.words(words))
        output, (hidden, cell) = self.lstm(embedded, self._state if self.training else None)
        if self.training:
            # Under autocast the library returns a lower type than it takes.
            self._state = (hidden.detach().to(embedded.dtype), cell.detach().to(embedded.dtype))
        return self.scores(self.dropout(output))


def _loss(scores: Tensor, following: Tensor) -> Tensor:
    return functional.cross_entropy(scores.flatten(0, 1), following.flatten())


def build(*, batch_size: int, amp: bool, device: torch.device, seed: int) -> TrainingStep:
    """Build the workload; an example is a sequence of 35 tokens."""

    def make_batch(source: torch.Generator) -> Batch:
        words = torch.randint(VOCABULARY, (batch_size, TOKENS + 1), generator=source)
        return words[:, :-1].contiguous(), words[:, 1:].contiguous()

    torch.manual_seed(seed)
    network = WordModel().to(device)
    precision = choose_precision(device, amp=amp)
    optimizer = torch.optim.SGD(network.parameters(), lr=0.01, fused=precision.fused_optimizer)
    batches = BatchPool(make_batch, device, seed)
    return SupervisedTraining(network, _loss, batches, optimizer, precision, examples_per_step=batch_size)
