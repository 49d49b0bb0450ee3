"""PPO on LunarLander (Schulman et al., 2017): a lander's policy, trained on its own flights.

Policy and value are separate networks of two layers of 64, and all other settings are those of Stable
Baselines3, which Lucid measured: one environment, ten passes over what was flown, in minibatches of the batch
size. A step is one iteration of the algorithm: fly four batches' worth of environment steps, then update 40
times. (The library flies 2,048 steps before it updates. With four batches the environment steps an update,
which set how busy the GPU is, stay the same, and a step lasts a fraction of a second instead of several, so
that a window of a measurement holds many.) An example is a step of the environment.
"""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor, nn
from torch.distributions import Categorical
from torch.nn import functional

from profiler_jobs.zoo.environments import LunarLander
from profiler_jobs.zoo.mixed_precision import require_amp
from profiler_jobs.zoo.training_step import ExportView, TrainingStep

MINIBATCHES = 4
PASSES = 10
_DISCOUNT = 0.99
_TRACE_DECAY = 0.95  # lambda of generalised advantage estimation
_CLIP = 0.2
_VALUE_WEIGHT = 0.5
_GRADIENT_NORM_MAX = 0.5


def _perceptron(width_out: int) -> nn.Sequential:
    widths = (LunarLander.OBSERVATIONS, 64, 64)
    layers: list[nn.Module] = []
    for width_in, width in pairwise(widths):
        layers += [nn.Linear(width_in, width), nn.Tanh()]
    return nn.Sequential(*layers, nn.Linear(widths[-1], width_out))


class ActorCritic(nn.Module):
    """What to do, and what it is worth."""

    def __init__(self) -> None:
        super().__init__()
        self.policy = _perceptron(LunarLander.ACTIONS)
        self.value = _perceptron(1)

    def forward(self, observations: Tensor) -> tuple[Tensor, Tensor]:
        """Map (batch, 8) to the actions' logits, (batch, 4), and the values, (batch,)."""
        return self.policy(observations), self.value(observations).squeeze(1)


@dataclass(frozen=True)
class _Flown:
    """What was flown, on the device; one row an environment step."""

    observations: Tensor
    actions: Tensor
    log_probabilities: Tensor
    advantages: Tensor
    returns: Tensor


class PolicyOptimisation:
    """Flies and learns by turns."""

    def __init__(self, network: ActorCritic, batch_size: int, device: torch.device, seed: int) -> None:
        self._network = network
        self._batch_size = batch_size
        self._device = device
        self._lander = LunarLander(1, seed)
        self._order = torch.Generator().manual_seed(seed)
        self._optimizer = torch.optim.Adam(network.parameters(), lr=3e-4, eps=1e-5)

    @property
    def examples_per_step(self) -> int:
        """Return the environment steps of one iteration."""
        return MINIBATCHES * self._batch_size

    def step(self) -> Tensor:
        """Run one iteration; returns the last minibatch's loss. Waits for every action, as an agent must."""
        flown = self._fly()
        loss = torch.zeros((), device=self._device)
        for _ in range(PASSES):
            order = torch.randperm(self.examples_per_step, generator=self._order).to(self._device)
            for chosen in order.split(self._batch_size):
                loss = self._update(flown, chosen)
        return loss

    @torch.no_grad()
    def _fly(self) -> _Flown:
        length = self.examples_per_step
        observations = np.empty((length, LunarLander.OBSERVATIONS), dtype=np.float32)
        rewards, ended = np.empty(length, dtype=np.float32), np.empty(length, dtype=np.bool_)
        actions, log_probabilities, values = [], [], []
        observation = self._lander.observe()
        for moment in range(length):
            observations[moment] = observation
            logits, value = self._network(torch.from_numpy(observation).to(self._device))
            policy = Categorical(logits=logits, validate_args=False)
            action = policy.sample()
            observation, reward, end = self._lander.step(action.cpu().numpy())
            rewards[moment], ended[moment] = reward[0], end[0]
            actions.append(action)
            log_probabilities.append(policy.log_prob(action))
            values.append(value)
        _, last_value = self._network(torch.from_numpy(observation).to(self._device))
        worth = torch.cat([*values, last_value]).cpu().numpy()
        advantages = _advantages(rewards, ended, worth)
        to_device = (torch.from_numpy(array).to(self._device) for array in (observations, advantages))
        on_device, gains = to_device
        returns = gains + torch.cat(values)
        return _Flown(on_device, torch.cat(actions), torch.cat(log_probabilities), gains, returns)

    def _update(self, flown: _Flown, chosen: Tensor) -> Tensor:
        logits, values = self._network(flown.observations[chosen])
        policy = Categorical(logits=logits, validate_args=False)
        ratio = (policy.log_prob(flown.actions[chosen]) - flown.log_probabilities[chosen]).exp()
        gains = flown.advantages[chosen]
        gains = (gains - gains.mean()) / (gains.std() + 1e-8)
        surrogate = torch.minimum(ratio * gains, ratio.clamp(1 - _CLIP, 1 + _CLIP) * gains).mean()
        loss = _VALUE_WEIGHT * functional.mse_loss(values, flown.returns[chosen]) - surrogate
        self._optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(self._network.parameters(), _GRADIENT_NORM_MAX)
        self._optimizer.step()
        return loss.detach()

    def export_view(self) -> ExportView:
        """Return both networks and a minibatch of observations."""
        generator = torch.Generator().manual_seed(0)
        shape = (self._batch_size, LunarLander.OBSERVATIONS)
        return ExportView(self._network, (torch.randn(shape, generator=generator),))


def _advantages(
    rewards: np.ndarray[tuple[int], np.dtype[np.float32]],
    ended: np.ndarray[tuple[int], np.dtype[np.bool_]],
    values: np.ndarray[tuple[int], np.dtype[np.float32]],
) -> np.ndarray[tuple[int], np.dtype[np.float32]]:
    """Return the generalised advantage estimates of n steps from their rewards and n + 1 values."""
    goes_on = ~ended
    surprise = rewards + _DISCOUNT * values[1:] * goes_on - values[:-1]
    advantages = np.empty_like(rewards)
    gathered = 0.0
    for moment in reversed(range(len(rewards))):
        gathered = surprise[moment] + _DISCOUNT * _TRACE_DECAY * goes_on[moment] * gathered
        advantages[moment] = gathered
    return advantages


def build(*, batch_size: int, amp: bool, device: torch.device, seed: int) -> TrainingStep:
    """Build the workload; an example is a step of the environment."""
    require_amp("PPO", amp=amp, offered=False)
    torch.manual_seed(seed)
    return PolicyOptimisation(ActorCritic().to(device), batch_size, device, seed)
