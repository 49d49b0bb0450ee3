"""Everything that a replay starts from, the policy aside: jobs, cluster, rules, companions, initial state."""
