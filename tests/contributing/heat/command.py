"""`lucid heat`."""

import typer


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(heat)


def heat(lake: str, cluster: str, hour: int) -> None:
    """Say how hot a cluster's GPUs are at an hour of the day."""
    from cluster_logs.lake import Lake
    from parts.heat.model import HeatModel

    rows = Lake(lake).read_series("gpu_heat", cluster)
    model = HeatModel.fit(rows["time"].dt.hour.tolist(), rows["celsius"].tolist())
    print(f"{model.predict(hour):.1f} degrees Celsius at {hour} h")
