"""The two control tasks that the reinforcement-learning workloads train on, stepped on the host by NumPy.

They have the sizes of observations and actions, the kind of rewards and the episodes of LunarLander and
BipedalWalker, and cost the host as much (about 0.1 ms a step); the physics is a planar approximation, because
the original simulator (Box2D) is a dependency that nothing else here needs. Every array has one row an
environment; one whose episode ends starts anew by itself.
"""

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]
Reals = NDArray[np.float64]
Flags = NDArray[np.bool_]

_DT_S = 1 / 50


class Environment(Protocol):
    """Environments that are stepped together."""

    def observe(self) -> Floats:
        """Return what the agent sees, (environments, observations)."""

    def step(self, actions: NDArray[np.generic]) -> tuple[Floats, Floats, Flags]:
        """Act; return the observations (the first of the next episode where one ended), rewards, ends."""


class LunarLander:
    """Land between the flags with three engines: do nothing, fire left, main or right.

    Lengths are half the scene's width, so that the pad is at 0 and the scene ends at -1 and 1.
    """

    OBSERVATIONS = 8
    ACTIONS = 4
    _GRAVITY, _MAIN, _SIDE, _TORQUE = 0.55, 0.95, 0.12, 1.6
    _LEG, _SPLAY = 0.10, 0.45  # length, angle from the body's axis
    _LIMIT_STEPS = 1000

    def __init__(self, count: int, seed: int) -> None:
        self._random = np.random.default_rng(seed)
        self._body: Reals = np.empty((count, 6))  # x, y, their speeds, angle, spin
        self._legs: Flags = np.zeros((count, 2), dtype=np.bool_)
        self._steps = np.zeros(count, dtype=np.int64)
        self._potential: Reals = np.zeros(count)
        self._restart(np.ones(count, dtype=np.bool_))

    def observe(self) -> Floats:
        """Return position, speed, angle, spin and whether each leg stands, (environments, 8)."""
        return np.concatenate((self._body, self._legs), axis=1, dtype=np.float32)

    def step(self, actions: NDArray[np.generic]) -> tuple[Floats, Floats, Flags]:
        """Fire the engines that `actions`, (environments,) of 0 to 3, name."""
        x, y, speed_x, speed_y, angle, spin = self._body.T
        main = actions == 2
        side = (actions == 3).astype(np.float64) - (actions == 1)
        sine, cosine = np.sin(angle), np.cos(angle)
        thrust = self._MAIN * main * self._random.uniform(0.9, 1.1, len(x))
        speed_x += _DT_S * (-thrust * sine + self._SIDE * side * cosine)
        speed_y += _DT_S * (thrust * cosine + self._SIDE * side * sine - self._GRAVITY)
        spin -= _DT_S * self._TORQUE * side
        x += _DT_S * speed_x
        y += _DT_S * speed_y
        angle += _DT_S * spin
        splayed = angle[:, None] + np.array([-self._SPLAY, self._SPLAY])
        self._legs = y[:, None] - self._LEG * np.cos(splayed) <= 0
        stands = self._legs.any(axis=1)
        hard = stands & ((speed_y < -0.5) | (np.abs(angle) > 0.8))
        # A leg on the ground takes up the fall and brakes the rest.
        np.copyto(speed_y, np.maximum(speed_y, 0), where=stands)
        for speed in (speed_x, spin):
            np.multiply(speed, 0.6, out=speed, where=stands)
        self._steps += 1
        lost = hard | (np.abs(x) > 1) | (y > 2)
        landed = self._legs.all(axis=1) & ~lost & (np.abs(speed_x) + np.abs(speed_y) + np.abs(spin) < 0.01)
        before, self._potential = self._potential, self._shaping()
        fuel = 0.3 * main + 0.03 * np.abs(side)
        rewards = np.where(lost, -100.0, np.where(landed, 100.0, self._potential - before - fuel))
        ended = lost | landed | (self._steps >= self._LIMIT_STEPS)
        if ended.any():
            self._restart(ended)
        return self.observe(), rewards.astype(np.float32), ended

    def _shaping(self) -> Reals:
        x, y, speed_x, speed_y, angle, _ = self._body.T
        cost = np.hypot(x, y) + np.hypot(speed_x, speed_y) + np.abs(angle)
        shaped: Reals = -100 * cost + 10 * self._legs.sum(axis=1)
        return shaped

    def _restart(self, which: Flags) -> None:
        push = self._random.uniform(-0.5, 0.5, (int(which.sum()), 6))
        self._body[which] = np.array([0, 1.4, 0, 0, 0, 0]) + push * np.array([0, 0, 1, 1, 0.2, 0.2])
        self._legs[which] = False
        self._steps[which] = 0
        self._potential[which] = self._shaping()[which]


class BipedalWalker:
    """Walk to the right on two legs of two joints each, driven by four torques in [-1, 1]."""

    OBSERVATIONS = 24
    ACTIONS = 4
    _THIGH = _SHIN = 0.55
    _GRAVITY = 9.8
    _MOTOR, _FRICTION = 60.0, 6.0  # of a joint, in 1/s² at full torque and in 1/s
    _STIFFNESS, _DAMPING = 400.0, 25.0  # of the ground under a foot
    _LOW, _HIGH = np.array([-0.9, -1.7]), np.array([1.1, -0.1])  # a hip's and a knee's range, in radians
    _RAYS = np.linspace(0.0, 1.5, 10)  # of the rangefinder, in radians from straight down
    _RANGE = 5.0
    _LIMIT_STEPS = 1600

    def __init__(self, count: int, seed: int) -> None:
        self._random = np.random.default_rng(seed)
        self._hull: Reals = np.empty((count, 6))  # x, y, their speeds, angle, spin
        self._joints: Reals = np.empty((count, 2, 2))  # environment, leg, (hip, knee): angles
        self._speeds: Reals = np.zeros((count, 2, 2))
        self._contacts: Flags = np.zeros((count, 2), dtype=np.bool_)
        self._steps = np.zeros(count, dtype=np.int64)
        self._restart(np.ones(count, dtype=np.bool_))

    def observe(self) -> Floats:
        """Return hull, joints, contacts and the rangefinder's ten distances, (environments, 24)."""
        x, y, speed_x, speed_y, angle, spin = self._hull.T
        legs = np.stack((self._joints, self._speeds / 8), axis=3).reshape(-1, 2, 4)
        with_contacts = np.concatenate((legs, self._contacts[:, :, None]), axis=2).reshape(-1, 10)
        aims = angle[:, None] + self._RAYS
        height = (y - _ground(x))[:, None]
        distances = np.minimum(height / np.maximum(np.cos(aims), 1e-3), self._RANGE) / self._RANGE
        hull = np.stack((angle, 0.5 * spin, 0.3 * speed_x, 0.3 * speed_y), axis=1)
        return np.concatenate((hull, with_contacts, distances), axis=1, dtype=np.float32)

    def step(self, actions: NDArray[np.generic]) -> tuple[Floats, Floats, Flags]:
        """Apply the torques `actions`, (environments, 4): hip and knee of one leg, then of the other."""
        torques = np.clip(np.asarray(actions, dtype=np.float64), -1, 1).reshape(-1, 2, 2)
        self._speeds += _DT_S * (self._MOTOR * torques - self._FRICTION * self._speeds)
        turned = self._joints + _DT_S * self._speeds
        self._joints = np.clip(turned, self._LOW, self._HIGH)
        self._speeds[turned != self._joints] = 0
        x, y, speed_x, speed_y, angle, spin = self._hull.T
        hip = angle[:, None] + self._joints[:, :, 0]
        knee = hip + self._joints[:, :, 1]
        hip_turn = spin[:, None] + self._speeds[:, :, 0]
        knee_turn = hip_turn + self._speeds[:, :, 1]
        foot_x = x[:, None] + self._THIGH * np.sin(hip) + self._SHIN * np.sin(knee)
        foot_y = y[:, None] - self._THIGH * np.cos(hip) - self._SHIN * np.cos(knee)
        foot_speed_x = self._THIGH * np.cos(hip) * hip_turn + self._SHIN * np.cos(knee) * knee_turn
        depth = _ground(foot_x) - foot_y
        self._contacts = depth > 0
        lift = self._contacts * np.maximum(
            self._STIFFNESS * depth - self._DAMPING * speed_y[:, None], 0
        )  # a foot pushes, it never pulls
        grip = -0.8 * self._contacts * np.clip(foot_speed_x + speed_x[:, None], -4, 4) * 5
        speed_x += _DT_S * grip.sum(axis=1)
        speed_y += _DT_S * (lift.sum(axis=1) - self._GRAVITY)
        lever = lift * (foot_x - x[:, None])
        spin += _DT_S * (lever.sum(axis=1) - torques.sum(axis=(1, 2)) - 2 * spin)
        x += _DT_S * speed_x
        y += _DT_S * speed_y
        angle += _DT_S * spin
        self._steps += 1
        fallen = (y - _ground(x) < 0.4) | (np.abs(angle) > 1) | (x < -2)
        effort = 0.03 * np.abs(torques).sum(axis=(1, 2))
        rewards = np.where(fallen, -100.0, 130 / 30 * _DT_S * speed_x - 5 * _DT_S * np.abs(spin) - effort)
        ended = fallen | (x > 30) | (self._steps >= self._LIMIT_STEPS)
        if ended.any():
            self._restart(ended)
        return self.observe(), rewards.astype(np.float32), ended

    def _restart(self, which: Flags) -> None:
        count = int(which.sum())
        self._hull[which] = np.array([0, self._THIGH + self._SHIN, 0, 0, 0, 0])
        self._hull[which, 2:] += self._random.uniform(-0.05, 0.05, (count, 4))
        self._joints[which] = np.array([[0.3, -0.4], [-0.1, -0.4]])
        self._joints[which] += self._random.uniform(-0.05, 0.05, (count, 2, 2))
        self._speeds[which] = 0
        self._contacts[which] = False
        self._steps[which] = 0


def _ground(x: Reals) -> Reals:
    """Return the height of the gently rolling ground."""
    height: Reals = 0.05 * np.sin(0.7 * x) + 0.03 * np.sin(1.9 * x)
    return height
