"""Training the wait model from a queue's log: registered, measured beside medians, the same twice."""

from typing import Any

import pytest

from cluster_logs.queue_log import QueueLog
from foundation.errors import BadInputError, NotFoundError
from foundation.site import Site
from lucid_models.registry import Registry
from parts.waits.model.training import train_waits
from parts.waits.tests.queue_logs import FAST_WAITS, make_queue_log
from pipeline.training.explanations import explain_model, explain_predictions, load_registered_model


@pytest.mark.slow
def test_a_version_is_registered_beside_medians_and_is_the_same_twice(
    queue_log: QueueLog, own_registry: str
) -> None:
    common: Any = {"log": queue_log, "source": "jobs.csv", "cluster": "small", "settings": FAST_WAITS}
    report = train_waits(**common, tracking_uri=own_registry)
    assert (report.name, report.version, report.reused) == ("lucid-waits-small", 1, False)
    assert report.metrics["mse_log10"] < report.baselines["partition_median"]["mse_log10"]
    assert set(report.metrics) == set(report.baselines["partition_median"])
    registry = Registry(own_registry)
    version = registry.version("lucid-waits-small", 1)
    assert version.tags["cluster"] == "small"
    card = registry.read_run_file(report.run_id, "model_card.md").decode()
    assert "jobs.csv" in card
    assert "2 moments from 1970-01-07 12:00" in card
    again = train_waits(**common, tracking_uri=own_registry)
    assert (again.version, again.reused, again.digest) == (1, True, report.digest)

    registered = load_registered_model(Site(registry=own_registry, cluster="small"), kind="waits")
    assert "rank_of_partition" in explain_model(registered)[""]["importances"]
    assert explain_predictions(Site(lake="none", cluster="small"), registered) == []
    with pytest.raises(NotFoundError, match="no jobs of cluster 'small'"):
        explain_predictions(Site(lake="none", cluster="small"), registered, job_ids=["7"])


def test_a_few_snapshots_are_refused() -> None:
    log = make_queue_log(days=4)
    with pytest.raises(BadInputError, match="4 moments of the queue are too few"):
        train_waits(log=log, source="jobs.csv", cluster="small", tracking_uri="http://127.0.0.1:1")
