"""What the tables must fulfil, as code: one suite a table, in plain data that Great Expectations runs."""
