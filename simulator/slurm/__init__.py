"""Slurm's two schedulers, as the policy `site` replays them.

room.py       where a job goes on nodes, and what is free there
ranking.py    which job is first: multifactor priority, QOS and partitions
fair_tree.py  which account has used less of its share
limits.py     which jobs may not start, whatever is free
preempting.py which job has to go for which
backfill.py   one cycle of the backfill scheduler
cycles.py     when either scheduler runs
"""
