"""What users of a real Slurm are told by the live scheduler, which orders the queue."""

from pathlib import Path

import pytest

from tests.live_scheduler.live_release import keep_release
from tests.slurm.answered_slurm import Answered, tell_place_and_time
from tests.slurm.private_slurm import PrivateSlurm

pytestmark = pytest.mark.slow


def test_users_are_told_place_and_time_of_their_jobs(
    slurm: PrivateSlurm, small_model_files: dict[str, list[Path]], tmp_path: Path
) -> None:
    keep_release(tmp_path / "live" / "small" / "releases", small_model_files)
    answered = Answered(slurm, tmp_path)
    with answered.daemon("control"):
        tell_place_and_time(answered)
