"""Who may do what in MLflow: accounts, their roles, and a table of all requests that are let through.

`python -m mlflow_access serve ...` starts `mlflow server` behind it; `add`, `remove` and `list` keep the
accounts besides those of the installation's own services. What is not in the table is refused.
"""
