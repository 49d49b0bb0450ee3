"""Slurm's two schedulers, as the policy `site` replays them.

room.py       where a job goes on nodes, and what is free there
ranking.py    who is first: multifactor priority, QOS and partitions
fair_tree.py  who has used less of its share
limits.py     who may not start, whatever is free
preempting.py who has to go for whom
backfill.py   one cycle of the backfill scheduler
cycles.py     when either scheduler runs
"""
