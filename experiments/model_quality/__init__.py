"""Every model beside its rivals: one command, one page (docs/model_quality.md)."""
