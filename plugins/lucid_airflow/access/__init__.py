"""Who may do what, per cluster and per act: by Airflow's roles, by a site's table, and by four eyes."""
