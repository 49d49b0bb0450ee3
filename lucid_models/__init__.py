"""The three Lucid models: features, fitting, explanation, data-only saving, releases."""
