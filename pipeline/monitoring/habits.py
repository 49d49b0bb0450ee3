"""Whether run times of a log have come to be told by other facts of jobs than those that a release reads."""

from collections.abc import Iterator

from lucid_models.duration.level_search import LevelSearchSettings, further_levels
from lucid_models.duration.levels import level_words
from lucid_models.duration.scorer import DurationScorer
from lucid_models.duration.tables import by_submission
from pipeline.monitoring.data import MonitoredTables
from pipeline.monitoring.rules import Finding, Urgency

# A level that lowers the error by less than this share of it may as well be chance, or a near-equal one.
LEAST_GAIN = 0.05
# The best of many candidates looks good by chance where few jobs judge it.
LEAST_JUDGED_JOBS = 500


def habit_findings(scorer: DurationScorer, tables: MonitoredTables) -> Iterator[Finding]:
    """Name what jobs that run alike now have in common and did not when the release learned, if anything.

    Of a model that was saved when levels were a fixed list nothing is said.
    """
    if "levels" not in scorer.training:
        return
    search = LevelSearchSettings(least_gain=LEAST_GAIN, most_levels=1)
    record = further_levels(by_submission(tables.later), scorer.state, search)
    if record.get("judged_jobs", 0) < LEAST_JUDGED_JOBS:
        return
    for level in record["chosen"]:
        share = level["gain"] / record["error_of_all_jobs"]
        sentence = (
            f"Jobs of one {level_words(level['level'])} have come to run alike, which they did not when the "
            f"release learned: looking at it would lower the error of run times by {share:.0%}."
        )
        yield Finding(Urgency.RETRAIN, "drift", "what tells run times", sentence, share, LEAST_GAIN)
