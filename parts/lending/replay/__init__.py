"""Capacity loaning: idle inference servers lent to training jobs, and taken back from them.

Li et al., "Lyra: Elastic Scheduling for Deep Learning Clusters" (EuroSys '23), sections 3 and 4. The rules
work on plain values and know no engine: a replay and the live scheduler ask the same functions.
"""
