"""The evaluation of PCS (OSDI '24) as one command: `lucid reproduce pcs`."""
