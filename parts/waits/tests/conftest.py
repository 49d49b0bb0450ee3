"""A log of a queue and a model of its waits, made once per session."""

import pytest

from cluster_logs.queue_log import QueueLog
from parts.waits.model.model import WaitModel
from parts.waits.model.queue_moment import QueueMoment, queue_at
from parts.waits.model.wait_table import WaitTable
from parts.waits.tests.queue_logs import FAST_WAITS, make_queue_log
from tests.dags.conftest import dag_bag as dag_bag
from tests.dags.conftest import defaults as defaults
from tests.dags.conftest import metadata_database as metadata_database
from tests.dags.conftest import parsed_dags as parsed_dags
from tests.dags.conftest import small_lake as small_lake
from tests.live_scheduler.conftest import client as client
from tests.live_scheduler.conftest import live as live
from tests.live_scheduler.conftest import standing as standing


@pytest.fixture(scope="session")
def queue_log() -> QueueLog:
    return make_queue_log(days=8)


@pytest.fixture(scope="session")
def wait_model(queue_log: QueueLog) -> WaitModel:
    return WaitModel(FAST_WAITS).fit(WaitTable.of(queue_log), queue_log.partition_name)


@pytest.fixture(scope="session")
def waiting_queue(queue_log: QueueLog) -> tuple[QueueMoment, list[str]]:
    """The queue of the last moment, and the partition of each waiting job."""
    queue = queue_at(queue_log, float(queue_log.moments_s[-1]))
    return queue, [queue_log.partition_name(code) for code in queue.waiting["partition"]]
