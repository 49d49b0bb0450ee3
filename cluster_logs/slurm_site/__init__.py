"""What a site has declared to Slurm: slurm.conf, associations, QOS and reservations, from files or live."""
