#!/bin/sh
# Guess: an experiment that was deleted is not found by its name, and asking for its runs is an error.
# Version: mlflow 3.17.2 (SQLite store).
# Seen: get_experiment_by_name still returns it, with the lifecycle stage "deleted"; search_runs of its id answers an
#   empty list without an error, though its run is there; a new run in it is refused (INVALID_PARAMETER_VALUE), and so
#   is a new experiment of its name (RESOURCE_ALREADY_EXISTS). Restored, it has its run again.
# Means: a dashboard that reads sees "no runs yet" where a pipeline that writes is refused; ask for the lifecycle
#   stage wherever an experiment is looked up by its name.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/pip" install --quiet --disable-pip-version-check mlflow==3.17.2
cat >"$folder/stated" <<'STATED'
by name: deleted
runs: 0
new run: INVALID_PARAMETER_VALUE
new experiment of the name: RESOURCE_ALREADY_EXISTS
runs once restored: 1
STATED
cd "$folder"
MLFLOW_DISABLE_TELEMETRY=true "$folder/env/bin/python" - >"$folder/seen" 2>"$folder/log" <<'PYTHON' || { cat "$folder/log" >&2; exit 1; }
from mlflow import MlflowClient
from mlflow.exceptions import MlflowException


def refused(act):
    try:
        act()
    except MlflowException as error:
        return error.error_code
    return "done"


client = MlflowClient("sqlite:///mlflow.db")
number = client.create_experiment("cluster")
client.create_run(number)
client.delete_experiment(number)
print("by name:", client.get_experiment_by_name("cluster").lifecycle_stage)
print("runs:", len(client.search_runs([number])))
print("new run:", refused(lambda: client.create_run(number)))
print("new experiment of the name:", refused(lambda: client.create_experiment("cluster")))
client.restore_experiment(number)
print("runs once restored:", len(client.search_runs([number])))
PYTHON
cat "$folder/seen"
diff "$folder/stated" "$folder/seen"
