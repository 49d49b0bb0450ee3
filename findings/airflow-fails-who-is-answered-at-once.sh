#!/bin/sh
# Guess: a task that waits for a person (HITLOperator) goes on once it is answered, however quickly the answer comes.
# Version: apache-airflow 3.3.2, apache-airflow-providers-standard 1.21.0; LocalExecutor on SQLite.
# Seen: some tasks that are answered as soon as they wait (state awaiting_input, no answer yet) fail although the answer was
#   taken with status 200: the scheduler queues the task again before it has heard that the process which asked has ended, takes
#   that end for the end of the queued one, and says that its state was changed from outside. With `retries`, it is asked
#   again, and the answer is lost. None fails that is answered ten seconds later.
# Means: whoever answers by a program (a chat's button, a policy) waits some seconds, or looks whether the task has gone on;
#   a task that asks needs `retries` of its own, and what acts on the answer must not be done by who gave it.
set -eu
folder=$(mktemp -d)
trap 'kill $(cat "$folder"/*.pid 2>/dev/null) 2>/dev/null || true; sleep 3; rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/pip" install --quiet --disable-pip-version-check apache-airflow==3.3.2 apache-airflow-providers-standard==1.21.0
port=$("$folder/env/bin/python" -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
url=$(printf '%s://127.0.0.1:%s' http "$port")
mkdir "$folder/dags"
cat >"$folder/dags/asking.py" <<'PYTHON'
from airflow.providers.standard.operators.hitl import HITLOperator
from airflow.sdk import DAG

with DAG("asking", schedule=None, is_paused_upon_creation=False, max_active_runs=1):
    HITLOperator(task_id="ask", subject="Go on?", options=["Yes", "No"])
PYTHON
cat >"$folder/answer.py" <<'PYTHON'
import json
import sys
import time
import urllib.error
import urllib.request

URL = sys.argv[1]


def call(method, path, body=None, token=None):
    request = urllib.request.Request(URL + path, json.dumps(body).encode() if body else None, method=method)
    request.add_header("Content-Type", "application/json")
    if token:
        request.add_header("Authorization", f"Bearer {token}")
    with urllib.request.urlopen(request, timeout=30) as answer:
        return json.load(answer)


def until(look):
    end = time.monotonic() + 300
    while time.monotonic() < end:
        try:
            if found := look():
                return found
        except OSError:
            pass
        time.sleep(0.1)
    raise SystemExit("nothing happened for five minutes")


token = until(lambda: call("GET", "/auth/token"))["access_token"]
until(lambda: call("GET", "/api/v2/dags/asking", token=token))
state_of = lambda run: call("GET", f"/api/v2/dags/asking/dagRuns/{run}/taskInstances/ask", token=token)["state"]


def outcome(pause_s):
    run = call("POST", "/api/v2/dags/asking/dagRuns", {"logical_date": None}, token)["dag_run_id"]
    until(lambda: state_of(run) == "awaiting_input")
    time.sleep(pause_s)
    answer = {"chosen_options": ["Yes"], "params_input": {}}
    call("PATCH", f"/api/v2/dags/asking/dagRuns/{run}/taskInstances/ask/-1/hitlDetails", answer, token)
    return until(lambda: state_of(run) if state_of(run) in ("success", "failed") else None)


late = [outcome(10) for _ in range(5)]
early = []
while len(early) < 60 and "failed" not in early:
    early.append(outcome(0))
print("answered after ten seconds:", *sorted(set(late)))
print("answered at once:", "some failed" if "failed" in early else "all went on")
PYTHON
export AIRFLOW_HOME="$folder" AIRFLOW__CORE__DAGS_FOLDER="$folder/dags" AIRFLOW__CORE__LOAD_EXAMPLES=False AIRFLOW__CORE__EXECUTOR=LocalExecutor
export AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_ALL_ADMINS=True AIRFLOW__API__PORT="$port" AIRFLOW__API__HOST=127.0.0.1 AIRFLOW__API__WORKERS=1
export AIRFLOW__API__BASE_URL="$url" AIRFLOW__CORE__EXECUTION_API_SERVER_URL="$url/execution/"
export AIRFLOW__API_AUTH__JWT_SECRET=only-for-this-test-only-for-this-test-only-for-this-test AIRFLOW__USAGE_DATA_COLLECTION__ENABLED=False PATH="$folder/env/bin:$PATH"
airflow db migrate >"$folder/migrate.log" 2>&1
for part in api-server dag-processor "scheduler --skip-serve-logs"; do
    airflow $part >"$folder/${part%% *}.log" 2>&1 &
    echo $! >"$folder/${part%% *}.pid"
done
cat >"$folder/stated" <<'STATED'
answered after ten seconds: success
answered at once: some failed
STATED
"$folder/env/bin/python" "$folder/answer.py" "$url" | tee "$folder/seen"
diff "$folder/stated" "$folder/seen"
