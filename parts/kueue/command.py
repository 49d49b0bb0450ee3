"""`lucid live kueue`: the live scheduler of a Kubernetes cluster with Kueue."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from lucid_cli.live_run import LiveStart, run_live
from lucid_cli.option_groups import with_options


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(kueue)


@with_options(LiveStart)
def kueue(
    start: LiveStart,
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
) -> None:
    """Order the workloads of a Kubernetes cluster with Kueue by the published release, until told to end.

    Tested against recorded API objects, not on a cluster: begin with the mode observe. It proposes the
    priority of workloads that wait, and nothing else.
    """
    adapter_settings = {
        "kubeconfig": None if kubeconfig is None else str(kubeconfig.absolute()),
        "context": context,
        "user_labels": tuple(user_label) if user_label else None,
        "gpu_resources": tuple(gpu_resource) if gpu_resource else None,
        "order_classes": order_classes,
    }
    settings = start.read(adapter="kueue")
    stated = {name: value for name, value in adapter_settings.items() if value is not None}
    settings = replace(settings, adapter_settings={**settings.adapter_settings, **stated})
    run_live(settings, start.tracking_uri)
