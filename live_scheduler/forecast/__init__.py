"""When jobs will start and end: the present state played forward."""
