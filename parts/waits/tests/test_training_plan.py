"""When a retraining trains the wait model."""

from tests.fixtures import ReleaseShop
from tests.pipeline.training.test_training_plan import lake as lake
from tests.pipeline.training.test_training_plan import plan


def test_it_is_trained_by_default(lake: str, local_shop: ReleaseShop) -> None:
    found = plan(local_shop, lake, hold_out_days=1)
    assert found.train[:3] == ("packing", "throughput", "duration")
    assert found.train[-1] == "waits"
    assert "waits" not in found.reasons
