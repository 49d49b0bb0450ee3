"""The routes of the installed MLflow, as its own routers list them."""

import json
import subprocess
import sys
from functools import cache

from mlflow_access.routes import Route, route_of

# In a process of its own: MLflow reads its settings, and makes its app, where it is imported first.
_LIST = """
import json
from mlflow.server import app
from mlflow.server.fastapi_app import app as fastapi_app
from starlette.routing import Mount
routes = [
    (method, rule.rule) for rule in app.url_map.iter_rules() for method in rule.methods - {"OPTIONS", "HEAD"}
]
routes += [
    (method, route.path)
    for route in fastapi_app.routes
    if not isinstance(route, Mount)
    for method in route.methods
]
print(json.dumps(sorted(set(routes))))
"""


@cache
def raw_routes() -> tuple[Route, ...]:
    """(method, rule) of each, with both prefixes of the API."""
    told = subprocess.run([sys.executable, "-c", _LIST], capture_output=True, text=True, check=True)
    return tuple((method, rule) for method, rule in json.loads(told.stdout.splitlines()[-1]))


def routes() -> set[Route]:
    """The keys of the table that all of them have."""
    return {route_of(method, rule) for method, rule in raw_routes()}
