"""The control tasks obey their physics as an agent can tell, end, start anew, and repeat with a seed."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from profiler_jobs.zoo.environments import BipedalWalker, LunarLander

NOTHING, LEFT, MAIN, RIGHT = range(4)
X, Y, SPEED_X, SPEED_Y, ANGLE, SPIN, LEFT_LEG, RIGHT_LEG = range(8)


def random_actions(kind, count, random):
    if kind is LunarLander:
        return random.integers(kind.ACTIONS, size=count)
    return random.uniform(-1, 1, (count, kind.ACTIONS))


def play(kind, count, seed, steps):
    world, random = kind(count, seed), np.random.default_rng(seed)
    return [world.step(random_actions(kind, count, random)) for _ in range(steps)]


@pytest.mark.parametrize("kind", [LunarLander, BipedalWalker])
@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 2**31), count=st.integers(1, 5))
def test_whatever_is_done_the_numbers_stay_sound_and_repeat(kind, seed, count):
    one, other = play(kind, count, seed, 150), play(kind, count, seed, 150)
    for (seen, rewards, ended), again in zip(one, other, strict=True):
        assert seen.shape == (count, kind.OBSERVATIONS)
        assert rewards.shape == ended.shape == (count,)
        assert seen.dtype == rewards.dtype == np.float32
        assert np.abs(seen).max() < 10
        assert np.abs(rewards).max() < 200
        assert np.array_equal(seen, again[0])
        assert np.array_equal(rewards, again[1])


@pytest.mark.parametrize("kind", [LunarLander, BipedalWalker])
def test_episodes_end_and_the_next_one_begins(kind):
    outcomes = play(kind, 8, 1, 400)
    ends = np.array([ended for _, _, ended in outcomes])
    assert (ends.sum(axis=0) >= 1).all()
    start = kind(1, 0).observe()[0]
    for seen, rewards, ended in outcomes:
        assert np.allclose(seen[ended], start, atol=1.1)
        assert ((rewards == -100) <= ended).all()


def fly(action, steps=20):
    lander = LunarLander(1, 0)
    before = lander.observe()[0]
    for _ in range(steps):
        seen, _, _ = lander.step(np.array([action]))
    return seen[0] - before


def test_a_lander_falls_and_its_main_engine_holds_it():
    fallen, held = fly(NOTHING), fly(MAIN)
    assert fallen[SPEED_Y] == pytest.approx(-0.55 * 20 / 50, rel=1e-4)
    assert held[SPEED_Y] > 0 > fallen[SPEED_Y]
    assert fallen[SPIN] == 0


def test_a_landers_side_engines_turn_it_either_way():
    assert fly(LEFT)[SPIN] == -fly(RIGHT)[SPIN] != 0


def test_an_unheld_lander_crashes_on_the_ground():
    lander = LunarLander(1, 0)
    for _ in range(200):
        seen, rewards, ended = lander.step(np.array([NOTHING]))
        if ended[0]:
            break
        last = seen[0]
    assert ended[0]
    assert rewards[0] == -100
    assert last[Y] < 0.3


def test_a_walkers_torque_turns_its_joint():
    for joint, place in enumerate((4, 6, 9, 11)):
        ahead, back = BipedalWalker(1, 0), BipedalWalker(1, 0)
        torque = np.zeros((1, 4))
        torque[0, joint] = 1
        for _ in range(3):
            forward, _, _ = ahead.step(torque)
            backward, _, _ = back.step(-torque)
        assert forward[0, place] > backward[0, place]


def test_a_walker_left_alone_comes_to_stand_on_its_feet_or_falls():
    walker = BipedalWalker(16, 0)
    touched = np.zeros(16, dtype=bool)
    for _ in range(200):
        seen, _, ended = walker.step(np.zeros((16, 4)))
        touched |= (seen[:, 8] > 0) | (seen[:, 13] > 0) | ended
    assert touched.all()
