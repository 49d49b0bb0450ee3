"""Statistics of a cluster's log: of a made one for its generator, of any for the report of a cluster."""
