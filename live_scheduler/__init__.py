"""What runs beside a cluster: the light client of releases, and the live scheduler.

    client = ReleaseClient("http://mlflow:5000", "champion", "state", cluster="mine")
    order = rank_queue(read_queue("queue.csv"), client.poll())

The client takes NumPy and httpx only; `poll` returns a `LiveRelease`, or a `FallbackRelease` that ranks first
in, first out. An adapter of another kind of cluster is an `AdapterKind`, which opens a `ClusterAdapter` for
`LiveSettings`: it reads a `ClusterState` and makes or refuses each `Change` (CONTRIBUTING.md, "Add a live
adapter"). The daemon's answers over HTTP are in `service/`.
"""

from typing import TYPE_CHECKING

from foundation.lazy_names import lazy_names

if TYPE_CHECKING:
    from live_scheduler.adapter import Change as Change
    from live_scheduler.adapter import ClusterAdapter as ClusterAdapter
    from live_scheduler.adapter import PriorityRange as PriorityRange
    from live_scheduler.adapter import Refusal as Refusal
    from live_scheduler.adapter import ReturnToDefault as ReturnToDefault
    from live_scheduler.adapter import SetPriority as SetPriority
    from live_scheduler.adapters import AdapterKind as AdapterKind
    from live_scheduler.adapters import OpenedCluster as OpenedCluster
    from live_scheduler.client import ReleaseClient as ReleaseClient
    from live_scheduler.cluster_state import ClusterState as ClusterState
    from live_scheduler.cluster_state import EndedJob as EndedJob
    from live_scheduler.cluster_state import LiveJob as LiveJob
    from live_scheduler.cluster_state import LiveNode as LiveNode
    from live_scheduler.live_settings import LiveSettings as LiveSettings
    from live_scheduler.ranking import RankedJob as RankedJob
    from live_scheduler.ranking import rank_queue as rank_queue
    from live_scheduler.ranking import read_queue as read_queue
    from live_scheduler.release import FallbackRelease as FallbackRelease
    from live_scheduler.release import LiveRelease as LiveRelease

__getattr__, __dir__ = lazy_names(__name__)
