"""What `lucid` can be asked besides what parts add, known without importing any of it."""

from foundation.parts import Command

LISTED = (
    Command("ingest", "lucid_cli.logs", "Read a cluster's log into the lake."),
    Command(
        "synthesize",
        "lucid_cli.logs",
        "Make a cluster's log that looks like a published one, so that nothing needs to be downloaded.",
    ),
    Command("validate", "lucid_cli.logs", "Check a cluster's tables against their expectations."),
    Command(
        "remove-cluster",
        "lucid_cli.logs",
        "Remove a cluster from the lake: its rows, profiles and studies. Other clusters are left alone.",
    ),
    Command(
        "explain",
        "lucid_cli.explain",
        "Say why a model answers as it does: the whole model, or single predictions of it.",
    ),
    Command("simulate", "lucid_cli.simulate", "Replay a log under one or more policies and compare them."),
    Command(
        "sweep",
        "lucid_cli.sweep",
        "Run policies x settings x seeds on one log, in parallel, into one tidy table.",
    ),
    Command(
        "plan",
        "lucid_cli.plan",
        "Plan capacity by replays: nodes that keep waits under a limit, and what installed parts change.",
    ),
    Command(
        "tune",
        "lucid_cli.tune",
        "Search a policy's settings by simulation of the days before the held-out.",
    ),
    Command(
        "monitor",
        "lucid_cli.monitor",
        "Watch a release on the log since it learned: drift, live errors, missing data; ok, watch or "
        "retrain.",
    ),
    Command(
        "status",
        "lucid_cli.status",
        "Say of each cluster which release is live, what runs and what waits for approval; and what of the "
        "stack\non this machine is up.",
    ),
    Command(
        "prune",
        "lucid_cli.prune",
        "Remove what is past its retention (LUCID_RETENTION): releases, model versions and runs in MLflow, "
        "files\nof the lake, pages and logs of tasks below the state folder. The DAG apply_retention does "
        "the same daily.",
    ),
    Command(
        "backup",
        "lucid_cli.backup",
        "Back up the state below LUCID_STATE_DIR into one file, also while everything runs. The file holds\n"
        "secrets: logins, and the key of what Airflow keeps encrypted.",
    ),
    Command(
        "restore",
        "lucid_cli.backup",
        "Restore a backup into the folder LUCID_STATE_DIR, which must be empty, once every file of it was\n"
        "verified. `make up` then migrates databases that older versions wrote, and starts.",
    ),
    Command("metrics", "lucid_cli.metrics", "What production jobs need, measured while they run."),
    Command("profile", "lucid_cli.profile", "Measure this machine's GPU: jobs alone and in pairs."),
    Command(
        "train", "lucid_cli.train", "Fit a model, measure it beside naive rivals, register it in MLflow."
    ),
    Command("site", "lucid_cli.site", "The scheduling policy of a site, declared for replays."),
    Command(
        "release",
        "lucid_cli.release",
        "A release pins the three models and the settings that were proven together.",
    ),
    Command(
        "keys",
        "lucid_cli.keys",
        "Keys that sign verdicts and publications, and the trust file that schedulers go by.",
    ),
    Command("live", "lucid_cli.live", "Use a release beside a live scheduler."),
)
