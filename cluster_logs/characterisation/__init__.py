"""What a log says of its cluster in numbers: Helios' figures, tables and implications (section 3), and more."""
