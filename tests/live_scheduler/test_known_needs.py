"""What is known of a live job's needs: from its type or its template, scored by the release; else nothing."""

import numpy as np
import pandas as pd
import pytest

from cluster_logs.lake import Lake
from foundation.site import Site
from live_scheduler.cluster_state import LiveJob
from live_scheduler.deciding.known_needs import REFRESH_S, KnownNeeds, MeasuredNeeds
from lucid_models.known_profiles import LatestProfiles
from lucid_models.packing.model import PackingAnalyzeModel, PackingSettings
from lucid_models.scoring import PackingScorer, scorer_from_document
from pipeline.profiling.profile_store import write_profile_set
from pipeline.release.live_needs import measurements
from profiler_jobs.campaign import measure_simulated_profiles
from tests.waiting import PATIENCE_S

LIGHT, HEAVY = "PointNet/ShapeNet/64/0", "ResNet50/ImageNet/64/1"
MEASURED = {LIGHT: (20.0, 5.0, 2_000.0), HEAVY: (97.0, 80.0, 11_000.0)}


@pytest.fixture(scope="module")
def packing() -> PackingScorer:
    """Heavy from 60 % of GPU utilisation on."""
    util = np.linspace(1, 100, 60)
    features = np.column_stack([util, util / 2, 100 * util, np.zeros(60)])
    model = PackingAnalyzeModel(PackingSettings(min_samples_leaf=2))
    model.fit_labelled(features, np.where(util < 60, 0, 2))
    scorer = scorer_from_document(model.to_data())
    assert isinstance(scorer, PackingScorer)
    return scorer


def metrics_of(*rows: tuple[str, str, float]) -> pd.DataFrame:
    """(user, name, GPU utilisation) of jobs that ran."""
    submitted = pd.Timestamp("2024-01-01", tz="UTC")
    return pd.DataFrame(
        [
            {
                "job_id": str(number), "submit_time": submitted, "user": user, "name": name, "job_type": None,
                "gpu_util_pct": util, "gpu_mem_util_pct": util / 2, "gpu_mem_mib": 100 * util,
                "power_w": None, "gpus_seen": 1, "samples": 10, "observed_gpu_s": 600.0, "coverage": 0.9,
                "origin": "running", "known_time": submitted + pd.Timedelta(hours=1), "source": "test",
            }
            for number, (user, name, util) in enumerate(rows)
        ]
    )  # fmt: skip


def live(**facts: object) -> LiveJob:
    return LiveJob("1", "shared", "shared", 1, 1e9, **facts)  # type: ignore[arg-type]


def test_its_type_then_its_template_then_nothing(packing: PackingScorer) -> None:
    read = MeasuredNeeds(MEASURED, LatestProfiles(metrics_of(("u", "train_1", 30.0))))
    needs = KnownNeeds(lambda: read, lambda: packing)
    stated = needs(live(user="u", name="train_1", comment=f"second try job_type={HEAVY}"))
    assert stated is not None
    assert (stated.gpu_util_pct, stated.amp, stated.sharing_score) == (97.0, True, 2)
    named = needs(live(name=LIGHT))
    assert named is not None
    assert (named.gpu_mem_mib, named.amp, named.job_type, named.sharing_score) == (2_000.0, False, LIGHT, 0)
    template = needs(live(user="u", name="train_77"))  # of one family
    assert template is not None
    assert (template.gpu_util_pct, template.sharing_score) == (30.0, 0)
    assert needs(live(user="v", name="train_1")) is None
    assert needs(live(user="u", name="new", comment="job_type=unheard/of/1/0")) is None


def test_half_of_the_figures_are_none(packing: PackingScorer) -> None:
    metrics = metrics_of(("u", "train", 30.0)).assign(gpu_mem_mib=None)
    needs = KnownNeeds(lambda: MeasuredNeeds({}, LatestProfiles(metrics)), lambda: packing)
    assert needs(live(user="u", name="train")) is None


def test_without_a_release_there_is_no_score_and_with_a_new_one_another(packing: PackingScorer) -> None:
    in_use: list[PackingScorer | None] = [None]
    needs = KnownNeeds(lambda: MeasuredNeeds(MEASURED, LatestProfiles(metrics_of())), lambda: in_use[0])
    first = needs(live(name=HEAVY))
    assert first is not None
    assert first.sharing_score is None
    in_use[0] = packing
    second = needs(live(name=HEAVY))
    assert second is not None
    assert second.sharing_score == 2


def test_measurements_are_read_again_and_what_was_known_stays_known(packing: PackingScorer) -> None:
    now = [0.0]
    reads: list[int] = []

    def read() -> MeasuredNeeds:
        reads.append(1)
        if len(reads) != 3:
            raise OSError("the lake is away")
        return MeasuredNeeds(MEASURED, LatestProfiles(metrics_of()))

    needs = KnownNeeds(read, lambda: packing, monotonic=lambda: now[0])
    for count, known in ((2, False), (3, True), (4, True)):
        now[0] += REFRESH_S + 1
        needs(live(name=LIGHT))
        assert needs._reader is not None
        needs._reader.join(timeout=PATIENCE_S)
        assert (len(reads), needs(live(name=LIGHT)) is not None) == (count, known)


def test_the_lake_tells_what_was_measured_and_not_what_was_simulated() -> None:
    uri = "memory://known-needs"
    profiles = measure_simulated_profiles(0)
    write_profile_set(Site(lake=uri, cluster="c"), profiles)
    Lake(uri).write_job_metrics("c", metrics_of(("u", "train", 30.0)))
    assert measurements(Site(lake=uri, cluster="c")).by_job_type == {}
    templates = measurements(Site(lake=uri, cluster="c")).by_template
    assert templates is not None
    assert templates.of(None, "u", "train")["gpu_util_pct"] == 30.0
    assert measurements(Site(lake=uri, cluster="nobody")).by_job_type == {}
    write_profile_set(
        Site(lake=uri, cluster="c"), type(profiles)(profiles.solo.assign(simulated=False), profiles.pairs)
    )
    known = measurements(Site(lake=uri, cluster="c")).by_job_type
    assert set(known) == set(profiles.solo["job_type"])
