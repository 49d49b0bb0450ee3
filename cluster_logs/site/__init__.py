"""A site's own scheduling policy, declared: what a slurm.conf, associations and QOS say, in one `site.toml`.

The declaration stands here, below the simulator, because both sides use it: readers of Slurm's files fill it
in, and the policy `site` of the simulator replays it.
"""
