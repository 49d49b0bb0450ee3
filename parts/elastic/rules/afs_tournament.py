"""The tournaments of AFS-L: one for each GPU.

Two jobs are compared by their speed, in jobs a second, and by what one GPU more would make of it: the shorter
one wins, unless what it gains, as a share of what it has, is not more than what the longer one gains, as a
share of what it would have. The winner of a tournament of all, in the order of submission, gets the
GPU.
"""

from collections.abc import Sequence
from math import inf

from simulator.workload.speed_up import SpeedUp

EPSILON_S = 1e-7  # keeps the speed of a job finite that has no work left


class Player:
    """A job in the tournaments of one moment."""

    __slots__ = ("at", "demand", "gain", "gpus", "least", "loss", "remaining_s", "speed_up", "time_s")

    def __init__(self, at: int, demand: int, speed_up: SpeedUp, remaining_s: float, least: int = 1) -> None:
        self.at = at  # its place in the order of submission
        self.demand = demand
        self.speed_up = speed_up
        self.remaining_s = remaining_s
        self.least = least  # GPUs that it takes to start it
        self.gpus = 0
        self.time_s = inf  # that it still needs at what it has
        self.gain = inf  # speed that one GPU more would add, as a share of what it has
        self.loss = 1.0  # the same as a share of what it would have

    def take(self) -> int:
        """Take the next GPU, or the first ones; returns how many."""
        taken = 1 if self.gpus else self.least
        self.gpus = gpus = self.gpus + taken
        if gpus < self.demand:
            speed_up = self.speed_up.at
            remaining_s = self.remaining_s
            self.time_s = time_s = remaining_s / speed_up(gpus)
            now = 1 / (time_s + EPSILON_S)
            then = 1 / (remaining_s / speed_up(gpus + 1) + EPSILON_S)
            self.gain = (then - now) / now
            self.loss = (then - now) / then
        return taken

    def keeps(self, other: "Player") -> bool:
        """Tell whether it stays the winner when another, later one comes."""
        if other.time_s < self.time_s:
            return not other.gain > self.loss
        if not self.gpus:
            return self.start_speed() > other.start_speed()
        return self.gain > other.loss

    def start_speed(self) -> float:
        """Return its speed on its first GPUs (jobs a second), of each of them."""
        return start_speed(self.remaining_s, self.speed_up, self.least)


def start_speed(remaining_s: float, speed_up: SpeedUp, gpus: int = 1) -> float:
    """Return a job's speed on its first GPUs (jobs a second), of each of them."""
    return 1 / (remaining_s / speed_up.at(gpus) + EPSILON_S) / gpus


def play(players: Sequence[Player], gpus: int) -> None:
    """Hand out GPUs one after the other: the same as `play_plainly`, sooner.

    A job without GPUs wins against one with some, unless one GPU more would more than double the
    speed of the latter; of those without GPUs the fastest wins, the last one of equals. So the first GPUs
    need no tournament.
    """
    if any(player.speed_up.steep for player in players):
        play_plainly(players, gpus)
        return
    served = []
    for player in sorted(players, key=lambda player: (-player.start_speed(), -player.at)):
        if player.least <= gpus:
            gpus -= player.take()
            served.append(player)
            if not gpus:
                return
    contest(sorted((p for p in served if p.gpus < p.demand), key=lambda player: player.at), gpus)


def contest(players: list[Player], gpus: int) -> None:
    """Hold the tournaments of players that have GPUs and can use more; of each only what is new.

    Takes players out of the list once they have what they can use.
    """
    leaders: list[Player] = []  # the leader once a player has had its turn
    since = 0
    while gpus and players:
        leader = leaders[since - 1] if since else players[0]
        del leaders[since:]
        time_s, gain, loss = leader.time_s, leader.gain, leader.loss
        for player in players[since:]:
            if player is not leader and (
                player.gain > loss if player.time_s < time_s else not gain > player.loss
            ):
                leader = player
                time_s, gain, loss = leader.time_s, leader.gain, leader.loss
            leaders.append(leader)
        leader.take()
        gpus -= 1
        since = leaders.index(leader)
        if leader.gpus == leader.demand:
            del players[since]


def play_plainly(players: Sequence[Player], gpus: int) -> None:
    """Hand out GPUs by a whole tournament for each."""
    playing = list(players)
    while True:
        playing = [p for p in playing if p.gpus < p.demand and (p.gpus or p.least <= gpus)]
        if not gpus or not playing:
            return
        leader = playing[0]
        for player in playing[1:]:
            if not leader.keeps(player):
                leader = player
        gpus -= leader.take()
