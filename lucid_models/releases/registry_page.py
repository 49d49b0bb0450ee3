"""What MLflow's pages say of a release: a description in Markdown, and metrics by which releases compare.

MLflow's *Compare* shows the parameters and metrics of the runs that versions come from: they are logged there
as well as in the verdict's own run, the held-out window as a parameter, so that releases which were judged on
different days are seen to be. Times are in hours, which people read; the exact seconds are in `verdict.json`.
"""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import datetime
from typing import Any

from foundation.errors import LucidError
from foundation.human_times import human_duration
from foundation.markdown import markdown_text
from lucid_models.registry import RegisteredVersion, Registry
from lucid_models.releases.manifest import ReleaseManifest
from lucid_models.releases.page_address import release_page_url
from lucid_models.releases.store import identity_of, read_manifest
from lucid_models.tracking_run import OpenRun

LONGEST = 5_000  # characters that MLflow's databases keep of a description
WINDOW = "held_out_window"  # parameter of a run: the days that its metrics are of
RUN_NOTE = "mlflow.note.content"  # MLflow shows it as the description of a run
_HOUR_S = 3_600.0
# Figures of a policy's replay, as metrics: name -> the verdict's column, and what one unit of the metric is.
_FIGURES: Mapping[str, tuple[str, float]] = {
    "jct/mean_h": ("mean_jct_s", _HOUR_S),
    "queuing/mean_h": ("mean_queuing_delay_s", _HOUR_S),
    "queuing/p99_h": ("p99_queuing_delay_s", _HOUR_S),
    "queuing/p999_h": ("p999_queuing_delay_s", _HOUR_S),
    "queuing/longest_h": ("longest_wait_s", _HOUR_S),
    "queuing/starved_jobs": ("starved_jobs", 1.0),
    "slowdown/mean": ("mean_slowdown", 1.0),
    "utilisation/work_done_pct": ("utilisation_pct", 1.0),
    "predictions/mean_error_pct": ("mean_pred_err_pct", 1.0),
    "predictions/p99_error_pct": ("p99_pred_err_pct", 1.0),
}
_IN_WORDS = {
    "mean_jct_s": "mean job completion time",
    "mean_queuing_delay_s": "mean queuing",
    "p999_queuing_delay_s": "queuing of the 99.9th percentile",
}
# What a constraint's unit adds to its name, and what one unit of the metric is; others add nothing.
_UNITS: Mapping[str, tuple[str, float]] = {
    "s": ("_h", _HOUR_S),
    "%": ("_pct", 1.0),
    "% of steps": ("_pct", 1.0),
    "% of submissions": ("_pct", 1.0),
}
_CHANGES = ("change_pct", "change_low_pct", "change_high_pct")


def release_metrics(verdict: Mapping[str, Any]) -> dict[str, float]:
    """The figures of a verdict by which people compare releases, those that it has, under sorted names."""
    return dict(sorted(_metrics(verdict)))


def _metrics(verdict: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    yield "approved", float(bool(verdict.get("approved")))
    own, site = _policy(verdict, verdict.get("challenger")), _policy(verdict, "site_order")
    for name, (column, unit) in _FIGURES.items():
        if own.get(column) is not None:
            yield name, float(own[column]) / unit
    for name, column in (("jct", "mean_jct_s"), ("queuing", "mean_queuing_delay_s")):
        change_pct = _change_pct(own.get(column), site.get(column))
        if change_pct is not None:
            yield f"{name}/mean_change_against_site_order_pct", change_pct
    objective = verdict.get("objective") or {}
    yield from (
        (f"objective/{key}", float(objective[key])) for key in _CHANGES if objective.get(key) is not None
    )
    for constraint in verdict.get("constraints") or ():
        if constraint["challenger"] is not None:
            suffix, unit = _UNITS.get(constraint["unit"], ("", 1.0))
            yield f"constraint/{constraint['name']}{suffix}", float(constraint["challenger"]) / unit
    yield "constraints_that_block", float(len(_blocking(verdict)))


def judged_window(verdict: Mapping[str, Any]) -> str | None:
    """The held-out days that a verdict is about, as `2017-12-06 to 2017-12-13`; None where it names none."""
    subject = verdict.get("subject") or {}
    days = [_day(subject[key]) for key in ("window_start", "window_end") if subject.get(key)]
    return " to ".join(days) if len(days) == 2 else None


def release_description(
    manifest: ReleaseManifest | None,
    identity: tuple[str, int],
    verdict: Mapping[str, Any] | None = None,
    verdict_page: str = "",
) -> str:
    """The description of a release (cluster, version) in Markdown: the verdict, its figures beside the
    site's order, links, and what it holds. `manifest` None: it cannot be read. `verdict_page`: the page of
    the verdict's run, below MLflow's address.
    """
    parts = [_verdict_in_words(verdict), _links(identity, verdict_page)]
    if verdict is not None:
        parts += [_figures(verdict), _listed("What blocks it", [c["sentence"] for c in _blocking(verdict)])]
    if manifest is not None:
        parts.append(_contents(manifest))
    text = "\n\n".join(part for part in parts if part)
    return text if len(text) <= LONGEST else text[:LONGEST].rpartition("\n")[0]


def tell_on_its_page(
    registry: Registry, release: RegisteredVersion, verdict: Mapping[str, Any], verdict_page: str
) -> None:
    """Say what a verdict is where MLflow shows the release, and give the release its metrics."""
    manifest = None
    with suppress(LucidError):  # a damaged release is refused, and says so all the same
        manifest = read_manifest(registry, release)
    judged = identity_of(release)
    description = release_description(manifest, (judged.cluster, judged.version), verdict, verdict_page)
    registry.describe_version(release.name, release.version, description)
    with suppress(LucidError):  # the run was deleted: there is nothing to compare by
        run = OpenRun(registry, release.run_id)
        _log_window(run, judged_window(verdict))
        run.log_metrics(release_metrics(verdict))
        run.set_tag(RUN_NOTE, description)


def _log_window(run: OpenRun, window: str | None) -> None:
    """Add the window as `held_out_window`; where the release was judged on another one before, as
    `held_out_window_2` and so on, since a parameter is written once. The metrics are of the last.
    """
    if window is None:
        return
    before = {name: value for name, value in run.params().items() if name.startswith(WINDOW)}
    names = [WINDOW, *(f"{WINDOW}_{number}" for number in range(2, len(before) + 2))]
    if not before or before.get(names[len(before) - 1]) != window:
        run.log_params({names[len(before)]: window})


def _verdict_in_words(verdict: Mapping[str, Any] | None) -> str:
    if verdict is None:
        return "**Not judged yet**: no scheduler may follow it."
    word = "Approved" if verdict.get("approved") else "Refused"
    sentence = str(verdict.get("sentence", "")).removeprefix(f"{word}: ").removeprefix(word)
    text = markdown_text(sentence).lstrip()
    return f"**{word}**: {text}" if text else f"**{word}**"


def _links(identity: tuple[str, int], verdict_page: str) -> str:
    page = release_page_url(*identity)
    links = [f"[Its page in Airflow]({page}): what blocks it, who decided, queuing by team"] if page else []
    if verdict_page:
        links.append(f"[tables and plots of the verdict](#/{verdict_page})")
    return " - ".join(links)


def _figures(verdict: Mapping[str, Any]) -> str:
    own, site = _policy(verdict, verdict.get("challenger")), _policy(verdict, "site_order")
    rows = []
    for column, what in _IN_WORDS.items():
        if own.get(column) is None:
            continue
        row = f"- {what}: **{human_duration(float(own[column]))}**"
        if site.get(column) is not None:
            row += f"; under the site's order {human_duration(float(site[column]))}"
            change_pct = _change_pct(own[column], site[column])
            row += f" ({change_pct:+.1f} %)" if change_pct is not None else ""
        rows.append(row)
    if not rows:
        return ""
    if grade := verdict.get("grade"):
        rows.append(f"- {markdown_text(str(grade['sentence']))}")
    window = judged_window(verdict)
    return (
        f"**On the held-out days{f' from {window}' if window else ''}, {own.get('jobs', 0):,} jobs**\n\n"
        + "\n".join(rows)
    )


def _contents(manifest: ReleaseManifest) -> str:
    rows = [f"policy {markdown_text(manifest.policy)}"]
    if manifest.training.until:
        rows.append(f"models that learned until {_day(manifest.training.until)}")
    rows += [
        f"[{markdown_text(pin.name)} version {pin.version}](#/models/{pin.name}/versions/{pin.version})"
        for pin in manifest.models.values()
    ]
    if manifest.orders_only:
        rows.append("**It orders jobs and lets none share GPUs: its packing model decides nothing.**")
    elif manifest.provenance.simulated_profiles:
        rows.append("**The packing model was trained on simulated profiles.**")
    if manifest.provenance.synthetic_logs:
        rows.append("**The logs are synthetic.**")
    return "**What it holds**\n\n" + "\n".join(f"- {row}" for row in rows)


def _listed(title: str, sentences: list[str]) -> str:
    rows = "\n".join(f"- {markdown_text(sentence)}" for sentence in sentences)
    return f"**{title}**\n\n{rows}" if sentences else ""


def _policy(verdict: Mapping[str, Any], name: Any) -> Mapping[str, Any]:
    """A policy's row of figures; empty where it was not replayed."""
    return next((row for row in verdict.get("policies") or () if row["policy"] == name), {})


def _blocking(verdict: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [one for one in verdict.get("constraints") or () if one["passed"] is False]


def _change_pct(now: Any, then: Any) -> float | None:
    return 100.0 * (float(now) / float(then) - 1.0) if now is not None and then else None


def _day(moment: str) -> str:
    """A day, with the time where it is not midnight."""
    when = datetime.fromisoformat(moment)
    return f"{when:%Y-%m-%d}" if (when.hour, when.minute) == (0, 0) else f"{when:%Y-%m-%d %H:%M}"
