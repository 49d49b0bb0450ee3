"""Run times that backfilling assumes: what was asked for, or Tsafrir's mean of the user's last two jobs."""

from simulator.compiled.loops.jit import compiled, inlined
from simulator.compiled.loops.world import Beliefs

SHORTEST_BELIEF_S = 1.0
NOTHING_KNOWN_S = 3600.0
ALL_DEMANDS = 0


@inlined
def believed_s(beliefs: Beliefs, job: int) -> float:
    """Return the run time that is assumed of a job which begins to wait now, in seconds."""
    asked_s = beliefs.asked_s[job]
    if beliefs.steps == 0:
        return max(SHORTEST_BELIEF_S, asked_s)
    user, demand = beliefs.user[job], beliefs.demand[job]
    mine_s = NOTHING_KNOWN_S
    if beliefs.count[user] == 0:
        if asked_s == asked_s:  # no NaN: the job has a time limit or an estimate
            return max(SHORTEST_BELIEF_S, asked_s)
        if beliefs.demand_count[demand] == 0:
            demand = ALL_DEMANDS
        if beliefs.demand_count[demand] > 0:
            mine_s = beliefs.demand_s[demand] / beliefs.demand_count[demand]
    elif beliefs.count[user] == 1:
        mine_s = beliefs.last_s[user]
    else:
        mine_s = (beliefs.before_s[user] + beliefs.last_s[user]) / 2
    if beliefs.most_s[job] < mine_s:
        mine_s = beliefs.most_s[job]
    return max(SHORTEST_BELIEF_S, mine_s)


@compiled
def longer_s(beliefs: Beliefs, job: int, belief_s: float, times: int) -> float:
    """Return the next assumption, in seconds, on a job that has run for `belief_s` and goes on; `times`: how
    many assumptions it had outlived before that one.
    """
    if beliefs.steps == 0:
        return 2.0 * belief_s
    step = min(times, beliefs.steps - 2)
    longer = belief_s + beliefs.steps_s[step + 1] - beliefs.steps_s[step]
    most_s = beliefs.most_s[job]
    if most_s > belief_s and most_s < longer:
        return most_s
    return longer


@inlined
def learn(beliefs: Beliefs, job: int, duration_s: float) -> None:
    """Count the run time of a job that has ended."""
    if beliefs.steps == 0:
        return
    user, demand = beliefs.user[job], beliefs.demand[job]
    beliefs.before_s[user] = beliefs.last_s[user]
    beliefs.last_s[user] = duration_s
    if beliefs.count[user] < 2:
        beliefs.count[user] += 1
    beliefs.demand_s[demand] += duration_s
    beliefs.demand_count[demand] += 1
    beliefs.demand_s[ALL_DEMANDS] += duration_s
    beliefs.demand_count[ALL_DEMANDS] += 1
