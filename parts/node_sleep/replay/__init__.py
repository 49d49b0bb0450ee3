"""Which nodes of a cluster may sleep, and when they are woken: the Cluster Energy Saving service of Helios.

Hu et al., "Characterization and Prediction of Deep Learning Workloads in Large-Scale GPU Datacenters"
(SC '21), section 4.3. A control is asked by what runs a cluster: a replay of a node series (here), the
engine that replays jobs, and the live scheduler. Forecasts reach it as values: no model is known here.
"""
