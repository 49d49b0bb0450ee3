"""Makes the adapter that settings describe."""

from pathlib import Path

from live_scheduler.kubernetes.access import find_access
from live_scheduler.kubernetes.api_client import ApiClient
from live_scheduler.kubernetes.cluster_reading import ReadingRules
from live_scheduler.kubernetes.kueue_adapter import KueueAdapter
from live_scheduler.live_settings import KueueSettings


def open_kueue(cluster: str, settings: KueueSettings) -> KueueAdapter:
    """Return the adapter; raises NotFoundError, BadInputError for how to log in. Nothing is asked yet."""
    access = find_access(
        Path(settings.kubeconfig).expanduser() if settings.kubeconfig else None, settings.context or None
    )
    rules = ReadingRules(settings.gpu_resources, settings.user_labels, settings.order_classes)
    return KueueAdapter(cluster, ApiClient(access), rules)
