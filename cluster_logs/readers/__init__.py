"""One file per log format; `registry.py` is their catalogue."""
