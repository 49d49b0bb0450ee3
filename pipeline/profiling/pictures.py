"""Pictures of measured profiles: which jobs use the GPU how much alone, and how fast pairs run together."""

from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from foundation.png_figures import save_figure
from profiler_jobs.profile_table import ProfileSet

_INCHES_A_ROW = 0.17


def draw_profiles(profiles: ProfileSet, folder: Path) -> list[Path]:
    """Draw `solo_profiles.png` and `pair_speeds.png` of what there is; returns the files."""
    folder.mkdir(parents=True, exist_ok=True)
    files = []
    if len(profiles.solo):
        files.append(_draw_solo(profiles, folder / "solo_profiles.png"))
    if len(profiles.pairs):
        files.append(_draw_pairs(profiles, folder / "pair_speeds.png"))
    return files


def _draw_solo(profiles: ProfileSet, path: Path) -> Path:
    """Bars of utilisation and memory, a row a configuration."""
    table = profiles.solo.sort_values(["gpu_util_pct", "job_type"], kind="stable")
    rows = np.arange(len(table))
    figure = Figure(figsize=(9.0, 1.6 + _INCHES_A_ROW * len(table)), layout="constrained")
    use, memory = figure.subplots(1, 2, sharey=True)
    use.barh(rows, table["gpu_util_pct"], color="#4878a8", label="a kernel runs")
    use.barh(rows, table["gpu_mem_util_pct"], color="#e3a857", height=0.4, label="memory is moved")
    use.set(xlabel="share of time, %", xlim=(0, 100))
    use.legend(loc="lower right", fontsize=7)
    use.set_yticks(rows, table["job_type"].tolist(), fontsize=6)
    memory.barh(rows, table["gpu_mem_mib"] / 1024, color="#6a9a6a")
    memory.set(xlabel="memory, GiB")
    figure.suptitle(_title(profiles, "alone"), fontsize=9)
    return save_figure(figure, path)


def _draw_pairs(profiles: ProfileSet, path: Path) -> Path:
    """A map of the row's normalised speed beside the column; what was not measured is grey."""
    names = sorted({*profiles.pairs["job_type_1"], *profiles.pairs["job_type_2"]})
    place = {name: row for row, name in enumerate(names)}
    speeds = np.full((len(names), len(names)), np.nan)
    for pair in profiles.pairs.to_dict("records"):
        first, second = place[pair["job_type_1"]], place[pair["job_type_2"]]
        if first == second:
            speeds[first, first] = (pair["speed_1"] + pair["speed_2"]) / 2
        else:
            speeds[first, second], speeds[second, first] = pair["speed_1"], pair["speed_2"]
    size = 3.0 + 0.14 * len(names)
    figure = Figure(figsize=(size + 1, size), layout="constrained")
    axes = figure.subplots()
    axes.set_facecolor("#d8d8d8")
    shown = axes.imshow(speeds, vmin=0.5, vmax=1.0, cmap="RdYlGn")
    axes.set_xticks(range(len(names)), names, rotation=90, fontsize=5)
    axes.set_yticks(range(len(names)), names, fontsize=5)
    axes.set(xlabel="beside", ylabel="normalised speed of")
    figure.colorbar(shown, ax=axes, label="colocated / solo", shrink=0.7)
    figure.suptitle(_title(profiles, "in pairs (grey: not measured)"), fontsize=9)
    return save_figure(figure, path)


def _title(profiles: ProfileSet, how: str) -> str:
    table = profiles.solo if len(profiles.solo) else profiles.pairs
    simulated = ", SIMULATED" if bool(table["simulated"].any()) else ""
    return f"{table['device'].iloc[0]}{simulated}: {how}"
