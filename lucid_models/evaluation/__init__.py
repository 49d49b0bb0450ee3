"""Each model beside its rivals, by stated protocols."""
