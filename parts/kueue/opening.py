"""Kubernetes with Kueue as an adapter: how it is reached and read, and opened."""

from dataclasses import dataclass
from pathlib import Path

from live_scheduler.adapters import AdapterKind, OpenedCluster
from live_scheduler.live_settings import LiveSettings
from parts.kueue.api_client import ApiClient, find_access
from parts.kueue.cluster_reading import ReadingRules
from parts.kueue.kueue_adapter import KueueAdapter


@dataclass(frozen=True)
class KueueSettings:
    """How a Kubernetes cluster with Kueue is reached and read; the table `[kueue]` of the settings.

    - `kubeconfig`: how to log in; empty: the pod's own service account, KUBECONFIG or ~/.kube/config.
    - `context`: the kubeconfig's context; empty: its current one.
    - `gpu_resources`: the resources that count as GPUs.
    - `gpu_device_classes`: classes of devices that count as GPUs, where pods ask by resource claims.
    - `user_labels`: labels or annotations that name a workload's user; its namespace where none is there.
    - `order_classes`: order workloads by the release whatever priority class they name.
    """

    kubeconfig: str = ""
    context: str = ""
    gpu_resources: tuple[str, ...] = ("nvidia.com/gpu",)
    gpu_device_classes: tuple[str, ...] = ("gpu.nvidia.com",)
    user_labels: tuple[str, ...] = ()
    order_classes: bool = False


class Kueue(AdapterKind):
    """Proposes the priority of workloads that wait, and nothing else."""

    Settings = KueueSettings

    def open(self, settings: LiveSettings, folder: Path) -> OpenedCluster:
        """Return the cluster; raises NotFoundError, BadInputError for how to log in."""
        return OpenedCluster(open_kueue(settings.cluster, self.own_settings(settings)))


def open_kueue(cluster: str, settings: KueueSettings) -> KueueAdapter:
    """Return the adapter; raises NotFoundError, BadInputError for how to log in. Nothing is asked yet."""
    access = find_access(
        Path(settings.kubeconfig).expanduser() if settings.kubeconfig else None, settings.context or None
    )
    rules = ReadingRules(
        settings.gpu_resources, settings.user_labels, settings.order_classes, settings.gpu_device_classes
    )
    return KueueAdapter(cluster, ApiClient(access), rules)
