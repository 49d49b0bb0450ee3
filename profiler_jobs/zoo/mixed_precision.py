"""How a workload computes: in single precision, or with PyTorch's automatic mixed precision (AMP)."""

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field

import torch
from torch import Tensor
from torch.optim import Optimizer

from foundation.errors import BadInputError


@dataclass(frozen=True)
class Precision:
    """The type that autocast lowers matrix products and convolutions to on a device; None: no autocast.

    With float16 the loss is scaled, because small gradients would vanish.
    """

    device: torch.device
    lowered: torch.dtype | None
    _scaler: torch.amp.GradScaler = field(init=False, repr=False)

    def __post_init__(self) -> None:
        scaler = torch.amp.GradScaler(self.device.type, enabled=self.lowered is torch.float16)
        object.__setattr__(self, "_scaler", scaler)

    @property
    def fused_optimizer(self) -> bool | None:
        """Return what an optimizer's `fused` should be; None leaves the choice to PyTorch.

        Before the step of an optimizer that is not fused, the scaler waits for the device to learn whether a
        gradient overflowed; a fused one decides that on the device.
        """
        return True if self.lowered is torch.float16 else None

    def autocast(self) -> AbstractContextManager[None]:
        """Return the context in which the forward pass and the loss are computed."""
        return torch.autocast(self.device.type, dtype=self.lowered) if self.lowered else nullcontext()

    def backward(self, loss: Tensor) -> None:
        """Compute the gradients of the loss, scaled where that is needed."""
        self._scaler.scale(loss).backward()

    def update(self, *optimizers: Optimizer) -> None:
        """Step the optimizers, whose gradients are there; at the end of every training step."""
        for optimizer in optimizers:
            self._scaler.step(optimizer)
        self._scaler.update()


def choose_precision(device: torch.device, *, amp: bool) -> Precision:
    """Return single precision, or what AMP means on the device: float16, and bfloat16 on a CPU."""
    lowered = torch.bfloat16 if device.type == "cpu" else torch.float16
    return Precision(device, lowered if amp else None)


def start_momentum_at_zero(optimizer: torch.optim.SGD) -> None:
    """Give every parameter its momentum now; the first step is the same.

    A fused SGD takes whatever lies in memory for the momentum when its first step is skipped, as the scaler
    skips it where a gradient overflows: seen on a GPU, losses were no numbers within ten steps.
    """
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            optimizer.state[parameter]["momentum_buffer"] = torch.zeros_like(parameter)


def require_amp(model: str, *, amp: bool, offered: bool) -> None:
    """Raise BadInputError unless AMP is as the only variant that the model has."""
    if amp is not offered:
        raise BadInputError(
            f"{model} is trained only {'with' if offered else 'without'} AMP.",
            remedy=f"Build it with amp={offered}.",
        )
