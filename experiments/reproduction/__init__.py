"""The papers' evaluations as commands: a trace in, a report with the published figures beside ours out."""
