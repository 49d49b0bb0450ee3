"""TD3 on BipedalWalker (Fujimoto et al., ICML '18): a walker's policy, trained from a replay memory.

Actor and twin critics have two layers of 400 and 300, and all other settings are those of Stable Baselines3,
which Lucid measured: one environment, one update an environment step, the actor at every second one. A step
is such a round: two steps of the environment and two updates. An example is a step of the environment.
"""

import copy

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from profiler_jobs.zoo.environments import BipedalWalker, Floats
from profiler_jobs.zoo.mixed_precision import require_amp
from profiler_jobs.zoo.training_step import ExportView, TrainingStep

ROUND = 2  # updates of the critics for one of the actor
_DISCOUNT = 0.99
_TARGET_SHARE = 0.005  # how far the targets follow in an update
_EXPLORATION = 0.1
_TARGET_NOISE, _TARGET_NOISE_MAX = 0.2, 0.5
_MEMORY = 100_000
_REMEMBERED_AT_FIRST = 1_000
_SEEN, _DONE = BipedalWalker.OBSERVATIONS, BipedalWalker.ACTIONS


def _perceptron(width_in: int, width_out: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Linear(width_in, 400),
        nn.ReLU(inplace=True),
        nn.Linear(400, 300),
        nn.ReLU(inplace=True),
        nn.Linear(300, width_out),
    )


class ActorCritics(nn.Module):
    """What to do, and two opinions of what it is worth."""

    def __init__(self) -> None:
        super().__init__()
        self.actor = nn.Sequential(_perceptron(_SEEN, _DONE), nn.Tanh())
        self.critics = nn.ModuleList(_perceptron(_SEEN + _DONE, 1) for _ in range(2))

    def worth(self, observations: Tensor, actions: Tensor) -> tuple[Tensor, Tensor]:
        """Return both critics' values, (batch, 1), of actions, (batch, 4)."""
        first, second = self.critics
        both = torch.cat((observations, actions), dim=1)
        return first(both), second(both)

    def forward(self, observations: Tensor) -> tuple[Tensor, Tensor]:
        """Return both critics' values of what the actor does, from (batch, 24)."""
        return self.worth(observations, self.actor(observations))


class ReplayMemory:
    """The last transitions, on the host."""

    def __init__(self, capacity: int) -> None:
        # Observation, action, next observation, reward, whether the episode went on.
        self._columns = tuple(
            np.zeros((capacity, width), dtype=np.float32) for width in (_SEEN, _DONE, _SEEN, 1, 1)
        )
        self._capacity = capacity
        self._added = 0

    def add(self, *columns: Floats) -> None:
        """Remember transitions, one row each, in place of the oldest."""
        rows = (self._added + np.arange(len(columns[0]))) % self._capacity
        for kept, new in zip(self._columns, columns, strict=True):
            kept[rows] = new
        self._added += len(rows)

    def sample(self, count: int, random: np.random.Generator) -> list[Tensor]:
        """Return `count` of them, drawn with replacement, as columns on the host."""
        rows = random.integers(min(self._added, self._capacity), size=count)
        return [torch.from_numpy(column[rows]) for column in self._columns]


class TwinDelayedTraining:
    """Walks and learns by turns."""

    def __init__(self, networks: ActorCritics, batch_size: int, device: torch.device, seed: int) -> None:
        self._networks = networks
        self._targets = copy.deepcopy(networks).requires_grad_(False)
        self._batch_size = batch_size
        self._device = device
        self._random = np.random.default_rng(seed)
        self._of_actor = torch.optim.Adam(networks.actor.parameters(), lr=1e-3)
        self._of_critics = torch.optim.Adam(networks.critics.parameters(), lr=1e-3)
        self._memory = ReplayMemory(_MEMORY)
        crowd = BipedalWalker(_REMEMBERED_AT_FIRST // 10, seed)
        for _ in range(10):
            self._walk(crowd, self._random.uniform(-1, 1, (_REMEMBERED_AT_FIRST // 10, _DONE)))
        self._walker = BipedalWalker(1, seed + 1)

    @property
    def examples_per_step(self) -> int:
        """Return the environment steps of one round."""
        return ROUND

    def step(self) -> Tensor:
        """Run one round; returns the critics' last loss. Waits for every action, as an agent must."""
        for _ in range(ROUND):
            self._act()
        for _ in range(ROUND):
            observations, actions, following, rewards, goes_on = (
                column.to(self._device, non_blocking=True)
                for column in self._memory.sample(self._batch_size, self._random)
            )
            with torch.no_grad():
                noise = (torch.randn_like(actions) * _TARGET_NOISE).clamp(
                    -_TARGET_NOISE_MAX, _TARGET_NOISE_MAX
                )
                next_actions = (self._targets.actor(following) + noise).clamp(-1, 1)
                worth = torch.minimum(*self._targets.worth(following, next_actions))
                target = rewards + _DISCOUNT * goes_on * worth
            first, second = self._networks.worth(observations, actions)
            loss = functional.mse_loss(first, target) + functional.mse_loss(second, target)
            self._of_critics.zero_grad(set_to_none=True)
            loss.backward()
            self._of_critics.step()
        gain, _ = self._networks(observations)
        self._of_actor.zero_grad(set_to_none=True)
        (-gain.mean()).backward()
        self._of_actor.step()
        self._follow()
        return loss.detach()

    @torch.no_grad()
    def _act(self) -> None:
        observation = torch.from_numpy(self._walker.observe()).to(self._device)
        action = self._networks.actor(observation).cpu().numpy()
        noise = self._random.normal(0.0, _EXPLORATION, action.shape)
        self._walk(self._walker, np.clip(action + noise, -1, 1))

    def _walk(self, walker: BipedalWalker, actions: NDArray[np.float64]) -> None:
        before = walker.observe()
        after, rewards, ended = walker.step(actions)
        goes_on = (~ended).astype(np.float32)
        self._memory.add(before, actions.astype(np.float32), after, rewards[:, None], goes_on[:, None])

    @torch.no_grad()
    def _follow(self) -> None:
        pairs = zip(self._targets.parameters(), self._networks.parameters(), strict=True)
        for target, trained in pairs:
            target.lerp_(trained, _TARGET_SHARE)

    def export_view(self) -> ExportView:
        """Return actor and critics, and a batch of observations."""
        generator = torch.Generator().manual_seed(0)
        return ExportView(self._networks, (torch.randn((self._batch_size, _SEEN), generator=generator),))


def build(*, batch_size: int, amp: bool, device: torch.device, seed: int) -> TrainingStep:
    """Build the workload; an example is a step of the environment."""
    require_amp("TD3", amp=amp, offered=False)
    torch.manual_seed(seed)
    return TwinDelayedTraining(ActorCritics().to(device), batch_size, device, seed)
