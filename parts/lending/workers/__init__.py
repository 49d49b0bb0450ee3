"""How many workers each job runs with, and on which servers: Lyra's two phases and its placement.

Li et al., "Lyra: Elastic Scheduling for Deep Learning Clusters" (EuroSys '23), section 5. The rules work on
plain values and know no engine. A job's base demand is its fewest workers, all or none of which run; its
other workers are flexible.
"""
