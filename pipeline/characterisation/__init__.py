"""A cluster characterised: read from the lake or a file, measured, shown on a page, kept in MLflow."""
