"""MLflow's app behind our accounts: what `mlflow server --app-name lucid` starts.

MLflow answers by two frameworks: routes of FastAPI first, all others by Flask below it. Both ask here, with
the rule by which they took the request: FastAPI's before the app, Flask's where Flask has found its rule.
"""

import logging
import os
from collections.abc import Mapping, MutableMapping
from typing import Any

from mlflow.exceptions import MlflowException
from mlflow.server import handlers
from starlette.concurrency import run_in_threadpool
from starlette.responses import JSONResponse
from starlette.routing import BaseRoute, Match, Mount

from mlflow_access import checks
from mlflow_access.accounts import Accounts, MlflowAccount
from mlflow_access.roles import ADMIN, ROLES, SCHEDULE
from mlflow_access.routes import FOR_ALL, OF_CLUSTER, OPEN, READS, SEARCH_OF_CLUSTER, WRITES, Route, route_of

logger = logging.getLogger("mlflow_access")
UNAUTHENTICATED, DENIED = 401, 403
_ASK_FOR_LOGIN = {"WWW-Authenticate": 'Basic realm="MLflow"'}
_LOGIN_WANTED = {
    "error_code": "UNAUTHENTICATED",
    "message": "Log in: a name and a password of an account (MLFLOW_TRACKING_USERNAME and _PASSWORD).",
}


def create_app() -> Any:
    """The server; raises BadInputError for accounts that cannot be used."""
    from mlflow.server import app as flask_app
    from mlflow.server.fastapi_app import create_fastapi_app

    accounts = Accounts(os.environ)
    flask_app.before_request(lambda: _before_flask(accounts))
    app = create_fastapi_app(flask_app)
    own_routes = [route for route in app.routes if not isinstance(route, Mount)]
    app.add_middleware(Gate, accounts=accounts, routes=own_routes)
    return app


def why_refused(account: MlflowAccount, route: Route, path: Mapping[str, str]) -> str | None:
    """Why an account may not make a request, or None when it may."""
    if ADMIN in account.roles or route in FOR_ALL:
        return None
    if SCHEDULE in account.roles:
        check = OF_CLUSTER.get(route)
        return check(account, path) if check else "it reads the releases of its cluster, and nothing else"
    if route in READS and any(ROLES[role].reads_all for role in account.roles):
        return None
    if route in WRITES:
        return WRITES[route](account, path)
    return "none of its roles uses that"


class Gate:
    """Asks for a login at every request, and for a right at those that FastAPI answers by itself."""

    def __init__(self, app: Any, accounts: Accounts, routes: list[BaseRoute]) -> None:
        self.app, self.accounts = app, accounts
        # Each with what its paths begin with: to match all would cost as much as Flask's whole routing.
        self.routes = [(getattr(route, "path", "").partition("{")[0], route) for route in routes]

    async def __call__(self, scope: MutableMapping[str, Any], receive: Any, send: Any) -> None:
        """Let a request through, or answer it."""
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        if scope["type"] != "http":  # nothing of MLflow's that we use is asked by WebSocket
            await send({"type": "websocket.close", "code": 1008})
            return
        refusal = await self._refusal(scope)
        await (self.app if refusal is None else refusal)(scope, receive, send)

    async def _refusal(self, scope: MutableMapping[str, Any]) -> JSONResponse | None:
        headers = {
            name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]
        }
        route, path = self._native(scope)
        if route in OPEN:
            return None
        account = self.accounts.authenticate(headers.get("authorization"))
        if account is None:
            return JSONResponse(_LOGIN_WANTED, UNAUTHENTICATED, _ASK_FOR_LOGIN)
        # A browser that has logged in sends the password with what other sites make it ask for, too.
        if scope["method"] not in ("GET", "HEAD") and headers.get("sec-fetch-site") == "cross-site":
            return JSONResponse(
                *_denied(account, (scope["method"], scope["path"]), "another site asks for it")
            )
        if route is None:
            return None  # Flask has its own look
        try:
            why = await run_in_threadpool(why_refused, account, route, path)
        except MlflowException as error:
            return JSONResponse(*_not_there(error))
        return None if why is None else JSONResponse(*_denied(account, route, why))

    def _native(self, scope: MutableMapping[str, Any]) -> tuple[Route | None, Mapping[str, str]]:
        for begin, route in self.routes:
            if not (scope["path"].startswith(begin) or scope.get("root_path")):
                continue
            match, found = route.matches(scope)
            if match is Match.FULL:
                key = route_of(scope["method"], getattr(route, "path", ""))
                return key, {name: str(value) for name, value in found.get("path_params", {}).items()}
        return None, {}


def _before_flask(accounts: Accounts) -> Any:
    """Answer a request that is refused; None lets it through to MLflow's handler."""
    request = handlers.request
    if request.url_rule is None:
        return None  # there is no such page, and MLflow says so
    route = route_of(request.method, request.url_rule.rule)
    if route in OPEN:
        return None
    account = accounts.authenticate(request.headers.get("Authorization"))
    if account is None:
        return _LOGIN_WANTED, UNAUTHENTICATED, _ASK_FOR_LOGIN
    try:
        if SCHEDULE in account.roles and route == SEARCH_OF_CLUSTER:
            return checks.own_releases(account)
        why = why_refused(account, route, request.view_args or {})
    except MlflowException as error:
        return _not_there(error)
    return None if why is None else _denied(account, route, why)


def _not_there(error: MlflowException) -> tuple[dict[str, str], int]:
    """Of a run, a model or an experiment that MLflow does not have, or a request that it cannot read."""
    return {"error_code": error.error_code, "message": error.message}, error.get_http_status_code()


def _denied(account: MlflowAccount, route: Route, why: str) -> tuple[dict[str, str], int]:
    logger.warning("refused to account %s: %s %s: %s", account.name, *route, why)
    message = f"The account {account.name!r} may not do that ({' '.join(route)}): {why}."
    return {"error_code": "PERMISSION_DENIED", "message": message}, DENIED
