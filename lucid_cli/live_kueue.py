"""`lucid live kueue`: the live scheduler of a Kubernetes cluster with Kueue."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from lucid_cli.live_run import (
    ClusterOption,
    ModeOption,
    PolicyOption,
    ReleaseOption,
    SettingsOption,
    cluster_finder,
    run_live,
)
from lucid_cli.options import TrackingOption


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(kueue)


def kueue(
    cluster: ClusterOption = None,
    mode: ModeOption = None,
    settings_file: SettingsOption = None,
    release: ReleaseOption = None,
    policy: PolicyOption = None,
    kubeconfig: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="How to log in; without it the pod's service account or ~/.kube/config."
        ),
    ] = None,
    context: Annotated[
        str | None, typer.Option(metavar="NAME", help="Context of the kubeconfig; default: its current one.")
    ] = None,
    user_label: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY", help="Label or annotation that names a workload's user (repeat)."),
    ] = None,
    gpu_resource: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Resource that counts as GPUs (repeat); default nvidia.com/gpu."),
    ] = None,
    order_classes: Annotated[
        bool | None,
        typer.Option(
            "--order-classes/--keep-classes", help="Order workloads whatever priority class they name."
        ),
    ] = None,
    tracking_uri: TrackingOption = None,
) -> None:
    """Order the workloads of a Kubernetes cluster with Kueue by the published release, until told to end.

    Tested against recorded API objects, not on a cluster: begin with the mode observe. It proposes the
    priority of workloads that wait, and nothing else.
    """
    from live_scheduler.settings_file import read_live_settings

    chosen = read_live_settings(
        settings_file,
        adapter="kueue",
        cluster=cluster,
        mode=mode,
        release=release,
        policy=policy,
        find_cluster=cluster_finder(tracking_uri),
    )
    given = {
        "kubeconfig": None if kubeconfig is None else str(kubeconfig.absolute()),
        "context": context,
        "user_labels": tuple(user_label) if user_label else None,
        "gpu_resources": tuple(gpu_resource) if gpu_resource else None,
        "order_classes": order_classes,
    }
    own = {**chosen.adapter_settings, **{name: value for name, value in given.items() if value is not None}}
    run_live(replace(chosen, adapter_settings=own), tracking_uri)
