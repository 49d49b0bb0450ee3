"""The Node Demand Model: how many nodes will be busy (Helios section 4.3, CES)."""
