"""Where the lake, MLflow and the state folder are: the environment first, then an Airflow Variable.

| what | environment | Airflow Variable |
| --- | --- | --- |
| lake's root URI | LUCID_LAKE_URI | lucid_lake_uri |
| MLflow's address for tasks | LUCID_TRACKING_URI | lucid_tracking_uri |
| MLflow's address for browsers | LUCID_MLFLOW_UI_URL (default: the tracking URI) | |
| Airflow's address for browsers | LUCID_AIRFLOW_URL (default: Airflow's `base_url` of `[api]`) | |
| state folder (Data Docs, monitoring pages, clusters' pages, plans, pages of parts) | LUCID_STATE_DIR | |
| clock of the clusters' people, for hours and days | LUCID_TIME_ZONE (default: UTC) | |
| when `monitor_live` runs by itself | LUCID_MONITOR_SCHEDULE (default: @daily; `none`: by hand only) | |
| thresholds of `monitor_live` | LUCID_MONITOR_SETTINGS (a JSON object) | |
| where the log ends for `monitor_live` | LUCID_MONITOR_AS_OF (default: last job; `now`: also silence) | |
| live scheduler that is monitored | LUCID_LIVE (state folder or URL; default: in the state folder) | |
| token of that live scheduler, for a URL | LUCID_LIVE_TOKEN_FILE | |
| when `renew_publications` runs | LUCID_RENEW_SCHEDULE (default: every eight hours; `none`) | |
| how long a publication holds | LUCID_PUBLICATION_HOURS (default: 24) | |
| trust file, of keys believed | LUCID_TRUST (default: trust.json in the state folder; `unsigned`: all) | |
| keys that sign | LUCID_JUDGE_KEY, LUCID_PUBLISHER_KEY (default: `keys/` in the state folder) | |
| when `retrain_models` runs besides | LUCID_RETRAIN_SCHEDULE (default: none; @weekly, @daily, cron) | |
| when `apply_retention` runs | LUCID_RETENTION_SCHEDULE (default: @daily; `none`) | |
| how long each kind is kept | LUCID_RETENTION (a JSON object, read by `foundation.retention_settings`) | |
| must a person approve every publication? | LUCID_REQUIRE_APPROVAL (default: true) | |
| may a person who started a release approve it? | LUCID_FOUR_EYES (default: true, they may not) | |
| who may do what to which cluster | LUCID_RIGHTS (a TOML file, `access/site_rights.py`; default: all) | |
| how `publish_release` ends on a refused release | LUCID_REFUSED_RUNS (default: skipped; failed) | |
| rules of the gate | LUCID_GATE_RULES (a JSON object, read by `simulator.gate.installed_rules`) | |
| Prometheus with the GPUs' metrics | LUCID_PROMETHEUS_URL (default: none), ..._TOKEN, ..._USER | |
| PromQL of nodes by state | LUCID_NODE_QUERIES (a JSON object: state -> PromQL) | |
| devices that `profile_workloads` offers | LUCID_GPU_DEVICES (default: simulated:0; `0,1`) | |
| do tasks' logs show the frames of known errors? | LUCID_LOG_FRAMES (default: false) | |
| who may read a lake on a local disk | LUCID_LAKE_MODE (octal; default: 0640 less the umask) | |
| most that a gzip log may hold | LUCID_MOST_LOG_BYTES (default: 68719476736, 64 GiB) | |
| where forms may read from | LUCID_INPUT_ROOTS (folders, URI prefixes; besides the inbox, the lake) | |

Where Slurm's jobs go to: `slurm_settings.py`. What a part reads besides is in its README.

Variables are read inside tasks only: a DAG file may not ask the database while it is parsed.
"""

import os
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from foundation.environment import read_json_object, read_switch
from foundation.errors import BadInputError
from foundation.outside_names import InputRoots
from foundation.site import Site


def lake_uri() -> str:
    """Return the lake's root URI. Raises BadInputError when it is not set."""
    return _setting("LUCID_LAKE_URI", "lucid_lake_uri")


def tracking_uri() -> str:
    """Return MLflow's address for tasks. Raises BadInputError when it is not set."""
    return _setting("LUCID_TRACKING_URI", "lucid_tracking_uri")


def site(cluster: str = "") -> Site:
    """Return the installation's lake and MLflow, with a cluster. Raises BadInputError when one is not set."""
    return Site(lake_uri(), tracking_uri(), cluster)


def prometheus_url() -> str | None:
    """Return the address of the Prometheus that knows the GPUs' metrics, or None."""
    return os.environ.get("LUCID_PROMETHEUS_URL") or None


def node_queries() -> list[str]:
    """Return `STATE=PROMQL` of each query that counts nodes; none: Prometheus is not asked."""
    document = read_json_object("LUCID_NODE_QUERIES", example='{"busy": "PROMQL", "total": "PROMQL"}')
    return [f"{state}={asked}" for state, asked in document.items()]


def mlflow_ui_url() -> str | None:
    """Return MLflow's address for a browser, or None when it is not known or not a web address."""
    url = os.environ.get("LUCID_MLFLOW_UI_URL") or os.environ.get("LUCID_TRACKING_URI") or ""
    return url.rstrip("/") if url.startswith(("http://", "https://")) else None


def airflow_url() -> str:
    """Return the address at which people open Airflow, without a slash at its end; empty: not known."""
    url = os.environ.get("LUCID_AIRFLOW_URL", "").strip()
    if not url:
        from airflow.sdk.configuration import conf

        url = str(conf.get("api", "base_url", fallback=""))
    return url.rstrip("/")


def airflow_path(path: str) -> str:
    """Return where a page of Airflow's is on its site: behind the prefix of `airflow_url`, if it has one."""
    return f"{urlsplit(airflow_url()).path}/{path}"


def state_dir() -> Path:
    """Return the state folder. Raises BadInputError when it is not set."""
    folder = os.environ.get("LUCID_STATE_DIR")
    if not folder:
        raise BadInputError(
            "LUCID_STATE_DIR is not set.", remedy="Set it to a folder that Airflow's processes share."
        )
    return Path(folder)


def pages_dir(kind: str) -> Path:
    """Return the folder of a kind of pages that runs leave (`pages/app.py`): a subfolder a cluster."""
    return state_dir() / kind.replace("-", "_")


def what_if_dir() -> Path:
    """Return the folder of the what-ifs that are kept."""
    return state_dir() / "what_if"


def time_zone() -> str | None:
    """Return the clock by which hours, days and months of a cluster count, or None for UTC."""
    return os.environ.get("LUCID_TIME_ZONE", "").strip() or None


def task_log_dir() -> Path:
    """Return the folder of the logs of Airflow's tasks."""
    from airflow.sdk.configuration import conf

    return Path(str(conf.get("logging", "base_log_folder")))


def live_dir() -> Path:
    """Return the folder of the live schedulers' state, one subfolder a cluster."""
    return state_dir() / "live"


def live_scheduler() -> tuple[str | None, Path | None]:
    """Return the state folder or the address of the live scheduler to look at, and its token's file."""
    token = os.environ.get("LUCID_LIVE_TOKEN_FILE", "").strip()
    return os.environ.get("LUCID_LIVE", "").strip() or None, Path(token) if token else None


def inbox_dir() -> Path:
    """Return the folder for files that forms name."""
    return state_dir() / "inbox"


def input_roots() -> InputRoots:
    """Return where files may lie that a form names: LUCID_INPUT_ROOTS, the inbox and the lake.

    The rest of the state folder, which holds secrets, stays closed.
    """
    named = os.environ.get("LUCID_INPUT_ROOTS", "").split(",")
    state = [str(state_dir())] if os.environ.get("LUCID_STATE_DIR") else []
    inbox = [str(inbox_dir())] if state else []
    return InputRoots((*inbox, *(name.strip() for name in named if name.strip()), lake_uri()), tuple(state))


def live_roots() -> InputRoots:
    """Return which live schedulers a form may name: the deployment's, those below the state folder, and what
    `input_roots` has.
    """
    roots = input_roots()
    live, _ = live_scheduler()
    return InputRoots((*([live] if live else []), str(live_dir()), *roots.roots), roots.closed)


def monitor_schedule() -> str | None:
    """Return when `monitor_live` runs by itself, None for never. Reads no database."""
    return schedule("LUCID_MONITOR_SCHEDULE", "@daily")


def renew_schedule() -> str | None:
    """Return when `renew_publications` runs by itself, None for never. Reads no database."""
    return schedule("LUCID_RENEW_SCHEDULE", "17 */8 * * *")


def retention_schedule() -> str | None:
    """Return when `apply_retention` runs by itself, None for never. Reads no database."""
    return schedule("LUCID_RETENTION_SCHEDULE", "@daily")


def retrain_schedule(assets: Any) -> Any:
    """Return when `retrain_models` runs: with its assets, and by the clock if that is set. Reads no
    database.
    """
    return with_clock(schedule("LUCID_RETRAIN_SCHEDULE", None), assets)


def with_clock(clock: str | None, assets: Any) -> Any:
    """Return a schedule of a DAG that runs with its assets, and by the clock if one is given."""
    if clock is None:
        return assets
    from airflow.sdk import AssetOrTimeSchedule, CronTriggerTimetable

    return AssetOrTimeSchedule(timetable=CronTriggerTimetable(clock, timezone="UTC"), assets=assets)


def monitor_as_of() -> str | None:
    """Return where the log ends for a monitoring pass whose form does not say."""
    return os.environ.get("LUCID_MONITOR_AS_OF", "").strip() or None


def monitor_settings() -> dict[str, Any]:
    """Return the thresholds that this installation sets; the rest keep their defaults."""
    return read_json_object("LUCID_MONITOR_SETTINGS", example='{"psi_major": 0.3}')


def approval_required() -> bool:
    """Return whether every publication waits for a person's approval. Reads no database."""
    return read_switch("LUCID_REQUIRE_APPROVAL", default=True)


def four_eyes() -> bool:
    """Return whether nobody who started what led to a release may be the one who approves it."""
    return read_switch("LUCID_FOUR_EYES", default=True)


def rights_file() -> Path | None:
    """Return the site's table of rights, None: Airflow's roles alone decide."""
    text = os.environ.get("LUCID_RIGHTS", "").strip()
    return Path(text) if text else None


def refused_runs_fail() -> bool:
    """Return whether `publish_release` fails on a refused release, instead of being skipped."""
    text = os.environ.get("LUCID_REFUSED_RUNS", "").strip().lower() or "skipped"
    if text not in ("skipped", "failed"):
        raise BadInputError(f"LUCID_REFUSED_RUNS is {text!r}.", remedy="Set it to skipped or failed.")
    return text == "failed"


def gpu_devices() -> list[str]:
    """Return the devices that this installation measures by default. Reads no database."""
    text = os.environ.get("LUCID_GPU_DEVICES", "").strip() or "simulated:0"
    return [name.strip() for name in text.split(",") if name.strip()]


def schedule(variable: str, default: str | None) -> str | None:
    """Return when something runs by the clock as a variable says; `none` is never. Reads no database."""
    text = os.environ.get(variable, "").strip()
    return default if not text else (None if text.lower() == "none" else text)


def _setting(variable: str, key: str) -> str:
    value = os.environ.get(variable)
    if not value:
        from airflow.sdk import Variable

        value = Variable.get(key, default=None)
    if not value:
        raise BadInputError(
            f"{variable} is not set.",
            remedy=f"Set it in Airflow's environment, or the Airflow Variable {key!r}.",
        )
    return str(value)
