"""The table of all requests that are let through; what is not in it is for the admin alone.

A key is a method and the rule by which MLflow's own router took the request, with `api` for both of the
prefixes `api` and `ajax-api` that MLflow gives its routes.
"""

import re
from collections.abc import Mapping

from mlflow.protos import model_registry_pb2 as registry
from mlflow.protos import service_pb2 as tracking

from mlflow_access import checks
from mlflow_access.checks import Check

Route = tuple[str, str]
_API = "/api/2.0/mlflow"
_FILES = "/api/2.0/mlflow-artifacts/artifacts"

# Without a login.
OPEN: frozenset[Route] = frozenset({("GET", "/health")})
# For every account: it tells of the server, not of what it holds.
FOR_ALL: frozenset[Route] = frozenset({("GET", "/version"), ("GET", "/api/3.0/mlflow/server-info")})
# For all that read everything; a search is a POST.
READS: frozenset[Route] = frozenset(
    {
        ("GET", "/"),
        ("GET", "/static-files/{path}"),
        ("GET", "/build/{filename}"),
        ("GET", "/api/3.0/mlflow/ui-telemetry"),
        ("POST", "/api/3.0/mlflow/ui-telemetry"),  # its pages ask whether it is on, and it is off
        ("GET", "/graphql"),
        ("POST", "/graphql"),  # its schema holds nothing that writes
        ("GET", "/get-artifact"),
        ("GET", "/model-versions/get-artifact"),
        ("GET", _FILES),
        ("GET", f"{_FILES}/{{artifact_path}}"),
        ("POST", "/api/2.0mlflow/experiments/search-datasets"),
        *(
            ("GET", f"{_API}/{path}")
            for path in (
                "artifacts/list",
                "experiments/get",
                "experiments/get-by-name",
                "experiments/search",
                "logged-models/{model_id}",
                "logged-models/{model_id}/artifacts/directories",
                "logged-models/{model_id}/artifacts/files",
                "metrics/get-history",
                "metrics/get-history-bulk",
                "metrics/get-history-bulk-interval",
                "model-versions/get",
                "model-versions/get-download-uri",
                "model-versions/search",
                "registered-models/alias",
                "registered-models/get",
                "registered-models/get-latest-versions",
                "registered-models/search",
                "runs/get",
            )
        ),
        *(
            ("POST", f"{_API}/{path}")
            for path in (
                "experiments/search",
                "experiments/search-datasets",
                "logged-models/search",
                "registered-models/get-latest-versions",
                "runs/search",
            )
        ),
    }
)
# For those whose role has the right to what the request would change.
WRITES: Mapping[Route, Check] = {
    ("POST", f"{_API}/experiments/create"): checks.create_experiment,
    ("POST", f"{_API}/runs/create"): checks.create_run,
    ("POST", f"{_API}/runs/update"): checks.write_run(tracking.UpdateRun),
    ("POST", f"{_API}/runs/log-batch"): checks.write_run(tracking.LogBatch, annotates=True),
    ("POST", f"{_API}/runs/log-metric"): checks.write_run(tracking.LogMetric, annotates=True),
    ("POST", f"{_API}/runs/log-parameter"): checks.write_run(tracking.LogParam, annotates=True),
    ("POST", f"{_API}/runs/set-tag"): checks.write_run(tracking.SetTag, annotates=True),
    ("POST", f"{_API}/runs/log-inputs"): checks.write_run(tracking.LogInputs),
    ("POST", f"{_API}/runs/outputs"): checks.write_run(tracking.LogOutputs),
    ("PUT", f"{_FILES}/{{artifact_path}}"): checks.write_file,
    ("DELETE", f"{_FILES}/{{artifact_path}}"): checks.remove_files,
    ("POST", f"{_API}/runs/delete"): checks.expire,
    ("DELETE", f"{_API}/logged-models/{{model_id}}"): checks.expire,
    ("DELETE", f"{_API}/model-versions/delete"): checks.delete_version,
    ("POST", f"{_API}/logged-models"): checks.create_logged_model,
    ("PATCH", f"{_API}/logged-models/{{model_id}}"): checks.write_logged_model(tracking.FinalizeLoggedModel),
    ("POST", f"{_API}/logged-models/{{model_id}}/params"): checks.write_logged_model(
        tracking.LogLoggedModelParamsRequest
    ),
    ("PATCH", f"{_API}/logged-models/{{model_id}}/tags"): checks.write_logged_model(
        tracking.SetLoggedModelTags
    ),
    ("POST", f"{_API}/registered-models/create"): checks.create_model,
    ("POST", f"{_API}/registered-models/set-tag"): checks.change_model_tag(registry.SetRegisteredModelTag),
    ("DELETE", f"{_API}/registered-models/delete-tag"): checks.change_model_tag(
        registry.DeleteRegisteredModelTag
    ),
    ("POST", f"{_API}/registered-models/alias"): checks.move_alias,
    ("POST", f"{_API}/model-versions/create"): checks.create_version,
    ("PATCH", f"{_API}/model-versions/update"): checks.describe_version,
    ("POST", f"{_API}/model-versions/set-tag"): checks.change_version_tag(registry.SetModelVersionTag),
    ("DELETE", f"{_API}/model-versions/delete-tag"): checks.change_version_tag(
        registry.DeleteModelVersionTag
    ),
}
# For a scheduler's account, of its own cluster.
OF_CLUSTER: Mapping[Route, Check] = {
    ("GET", f"{_API}/registered-models/alias"): checks.releases_of(registry.GetModelVersionByAlias),
    ("GET", f"{_API}/registered-models/get"): checks.releases_of(registry.GetRegisteredModel),
    ("GET", "/model-versions/get-artifact"): checks.file_of_version,
    ("GET", "/get-artifact"): checks.file_of_run,
}
SEARCH_OF_CLUSTER: Route = ("GET", f"{_API}/registered-models/search")  # answered with its own model alone


def route_of(method: str, rule: str) -> Route:
    """The key of a request that was routed by a rule of Flask's (`<path:p>`) or FastAPI's (`{p:path}`)."""
    rule = re.sub(r"<(?:\w+:)?(\w+)>|\{(\w+)(?::\w+)?\}", r"{\1\2}", rule)
    if rule.startswith("/ajax-api/"):
        rule = f"/api{rule.removeprefix('/ajax-api')}"
    return ("GET" if method == "HEAD" else method, rule)
