"""Training data of a workload: a few generated batches in pinned memory, handed out in turn."""

from collections.abc import Callable
from itertools import cycle

import torch
from torch import Tensor

Batch = tuple[Tensor, ...]

# Few, so that ImageNet's largest batches (73 MiB each) lock little of the host's memory.
POOL_BATCHES = 4


class BatchPool:
    """Batches on the host, page-locked where the device is another one, copied to it one after the other."""

    def __init__(
        self, make_batch: Callable[[torch.Generator], Batch], device: torch.device, seed: int
    ) -> None:
        generator = torch.Generator().manual_seed(seed)
        batches = [make_batch(generator) for _ in range(POOL_BATCHES)]
        if device.type != "cpu" and torch.accelerator.is_available():
            batches = [tuple(tensor.pin_memory() for tensor in batch) for batch in batches]
        self._device = device
        self._turns = cycle(batches)
        self.first = batches[0]

    def next(self) -> Batch:
        """Return the next batch on the device; the copy may still be under way, in the current stream."""
        return tuple(tensor.to(self._device, non_blocking=True) for tensor in next(self._turns))
