"""What `lucid` can be asked, known without importing any of it."""

from typing import NamedTuple


class Listed(NamedTuple):
    """A command, or a group of commands, of the program.

    `help` is the first paragraph of its own help, as the list of commands shows it. `module` registers it
    (`register(app)`), or holds its group (`app`); None: it is one of the experiments, which are found by
    entry point and may not be installed.
    """

    name: str
    module: str | None
    help: str


LISTED = (
    Listed("ingest", "lucid_cli.logs", "Read a cluster's log into the lake."),
    Listed(
        "synthesize",
        "lucid_cli.logs",
        "Make a cluster's log that looks like a published one, so that nothing needs to be downloaded.",
    ),
    Listed("validate", "lucid_cli.logs", "Check a cluster's tables against their expectations."),
    Listed(
        "remove-cluster",
        "lucid_cli.logs",
        "Remove a cluster from the lake: its rows, profiles and studies. Other clusters are left alone.",
    ),
    Listed(
        "characterise",
        "lucid_cli.characterise",
        "Characterise a cluster by its log: the figures, tables and implications of Helios, and more.",
    ),
    Listed(
        "explain",
        "lucid_cli.explain",
        "Say why a model answers as it does: the whole model, or single predictions of it.",
    ),
    Listed(
        "predict-profile",
        "lucid_cli.predict_profile",
        "Predict GPU utilisation, memory utilisation, memory and Sharing Score of a job that was never\n"
        "profiled.",
    ),
    Listed("simulate", "lucid_cli.simulate", "Replay a log under one or more policies and compare them."),
    Listed(
        "sweep",
        "lucid_cli.sweep",
        "Run policies x settings x seeds on one log, in parallel, into one tidy table.",
    ),
    Listed(
        "plan",
        "lucid_cli.plan",
        "Plan capacity by replays: nodes that keep waits under a limit, and what loans and sleep change.",
    ),
    Listed(
        "tune",
        "lucid_cli.tune",
        "Search a policy's settings, and those of its loans, by simulation of the days before the held-out.",
    ),
    Listed(
        "monitor",
        "lucid_cli.monitor",
        "Watch a release on the log since it learned: drift, live errors, missing data; ok, watch or "
        "retrain.",
    ),
    Listed(
        "status",
        "lucid_cli.status",
        "Say of each cluster which release is live, what runs and what waits for approval; and what of the "
        "stack\non this machine is up.",
    ),
    Listed(
        "prune",
        "lucid_cli.prune",
        "Remove what is past its retention (LUCID_RETENTION): releases, model versions and runs in MLflow, "
        "files\nof the lake, pages and logs of tasks below the state folder. The DAG apply_retention does "
        "the same daily.",
    ),
    Listed(
        "backup",
        "lucid_cli.backup",
        "Back up the state below LUCID_STATE_DIR into one file, also while everything runs. The file holds\n"
        "secrets: logins, and the key of what Airflow keeps encrypted.",
    ),
    Listed(
        "restore",
        "lucid_cli.backup",
        "Restore a backup into the folder LUCID_STATE_DIR, which must be empty, once every file of it was\n"
        "verified. `make up` then migrates databases that older versions wrote, and starts.",
    ),
    Listed(
        "replay-updates",
        None,
        "Replay a months-long log with models updated never, monthly, weekly and daily.",
    ),
    Listed("metrics", "lucid_cli.metrics", "What production jobs need, measured while they run."),
    Listed("profile", "lucid_cli.profile", "Measure this machine's GPU: jobs alone and in pairs."),
    Listed("train", "lucid_cli.train", "Fit a model, measure it beside naive rivals, register it in MLflow."),
    Listed(
        "pareto",
        "lucid_cli.pareto",
        "`lucid pareto`: state a preference, search the configurations of PCS, look at the front, pick one.",
    ),
    Listed("nodes", "lucid_cli.nodes", "Nodes in use, and which of them may sleep."),
    Listed("inference", "lucid_cli.inference", "Load of inference servers, whose idle ones may be lent."),
    Listed("site", "lucid_cli.site", "The scheduling policy of a site, declared for replays."),
    Listed(
        "release",
        "lucid_cli.release",
        "A release pins the three models and the settings that were proven together.",
    ),
    Listed(
        "keys",
        "lucid_cli.keys",
        "Keys that sign verdicts and publications, and the trust file that schedulers go by.",
    ),
    Listed("live", "lucid_cli.live", "Use a release beside a live scheduler."),
    Listed("evaluate", None, "Measure a model beside naive and black-box rivals."),
    Listed("reproduce", None, "A paper's evaluation as one command."),
)
