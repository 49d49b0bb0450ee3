"""What users of a real Slurm are told of their jobs' waits, by a live scheduler that orders or looks on."""

from pathlib import Path

import pytest

from parts.waits.tests.queue_logs import save_wait_model
from tests.live_scheduler.live_release import keep_release
from tests.slurm.answered_slurm import Answered, tell_place_and_time
from tests.slurm.private_slurm import PrivateSlurm

pytestmark = pytest.mark.slow


def test_users_are_told_by_the_wait_model_where_the_policy_is_not_known(
    slurm: PrivateSlurm, small_model_files: dict[str, list[Path]], tmp_path: Path
) -> None:
    models = {**small_model_files, "waits": [save_wait_model(tmp_path)]}
    keep_release(
        tmp_path / "live" / "small" / "releases", models, waits={"least_jobs": 30, "recent_jobs": 500}
    )
    answered = Answered(slurm, tmp_path)
    with answered.daemon("control"):
        large = tell_place_and_time(answered)
        expected = answered.ask("when", large)
        assert expected["said_by"] == "play_forward"  # the policy is ours, and no job has been judged yet
        assert expected["at_s"] < expected["learned_start_p50_s"] <= expected["learned_start_p90_s"]
    # The same queue under Slurm's own order: no job has been judged yet, and no play knows a site's policy.
    with answered.daemon("observe"):
        told = answered.ask("when", large)
    assert told["said_by"] == "wait_model"
    assert told["start_p50_s"] == told["learned_start_p50_s"] != told["played_start_p50_s"]
    assert told["at_s"] < told["start_p50_s"] <= told["start_p90_s"] < told["end_p90_s"]
    assert "the cluster's own policy is not known" in told["said_by_why"]
