"""Three models and the settings that were proven together, as one version."""
