"""What a log says of its cluster in numbers: Helios' figures, tables and implications, and more."""
