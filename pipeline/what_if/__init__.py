"""What-ifs that people ask on a page: what is kept of one, its figures and its curves."""
