"""What a release's page says of when waiting jobs start."""

from dataclasses import replace

from lucid_models.releases.store import ReleaseInfo
from parts.waits.steps.wait_answers import says_when_jobs_start

RELEASE = ReleaseInfo(
    name="lucid-release-small",
    version=2,
    alias=None,
    aliases=(),
    cluster="small",
    created="2020-05-01T00:00:00+00:00",
    models={"duration": {"name": "lucid-duration", "version": 3, "digest": "ab"}},
    policy="lucid",
    settings={},
    choice=None,
    parts={},
    training={"until": "2020-04-30", "datasets": {}},
    provenance={},
    verdict=None,
    run_id="",
    manifest_sha256="",
)


def test_who_says_when_a_job_starts_is_told_with_and_without_a_wait_model() -> None:
    assert "carries no wait model" in says_when_jobs_start(RELEASE)
    models = {**RELEASE.models, "waits": {"name": "lucid-waits", "version": 4, "digest": "ab"}}
    assert "wait model (version 4) or" in says_when_jobs_start(
        replace(RELEASE, models=models, parts={"waits": {"least_jobs": 30}})
    )
