"""What people see at a glance: clusters, their releases and their data, read from where the steps left it."""
