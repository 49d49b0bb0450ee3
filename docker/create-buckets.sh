#!/bin/sh
# Buckets, and for each a user who may read and write it and nothing else. Run again, it changes nothing but passwords.
set -eu
add_user() { # NAME PASSWORD BUCKET
    mc mb --ignore-existing "store/$3"
    printf '%s\n%s\n' "$1" "$2" | mc --quiet admin user add store # on standard input: no process list shows it
    mc admin policy create store "$3" "/bucket-policies/$3.json"
    # What is attached already cannot be attached again.
    mc admin policy attach store "$3" --user "$1" || mc admin user info store "$1" | grep --quiet "$3"
}
add_user lake "$LAKE_PASSWORD" lucid-lake
add_user mlflow "$MLFLOW_PASSWORD" mlflow-artifacts
