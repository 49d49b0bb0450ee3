"""Goodput by measured speed-ups: what the curves say, and a draw that is a job's own."""

import pytest

from experiments.lyra_rivals.goodput import drawn_goodputs, goodputs
from simulator.workload.speed_up import SpeedUp
from simulator.workload.speed_up_table import measured_speed_ups


def test_goodputs_are_multiples_of_that_on_the_fewest_workers() -> None:
    assert goodputs(SpeedUp.linear(16), gpus_each=2, least=2, most=4) == (1.0, 1.5, 2.0)
    # ResNet-50: 0.474975 s an iteration on 2 GPUs, 0.259920 s on 4.
    curve = measured_speed_ups()["Resnet50Model128"]
    assert goodputs(curve, gpus_each=1, least=2, most=4)[-1] == pytest.approx(0.474975 / 0.259920)


def test_beyond_what_was_measured_nothing_is_gained() -> None:
    assert goodputs(SpeedUp.linear(4), gpus_each=4, least=1, most=2) == (1.0, 1.0)


def test_a_draw_depends_on_the_job_and_the_seed_alone() -> None:
    drawn = {f"{i}": drawn_goodputs(f"{i}", 1, 2, 4, seed=0) for i in range(200)}
    assert len(set(drawn.values())) == 9  # every measured model, and none that scales perfectly
    assert drawn["7"] == drawn_goodputs("7", 1, 2, 4, seed=0)
    assert any(drawn[i] != drawn_goodputs(i, 1, 2, 4, seed=1) for i in drawn)
    assert all(curve[0] == 1.0 for curve in drawn.values())
