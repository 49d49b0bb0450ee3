"""What the programs say by their exit codes (0: done), each meaning one thing in all of them."""

ERROR = 1  # it could not be done, and why not; also a command line that cannot be read
REFUSED = 2  # the gate, or the check of a release, says no
NOT_REACHED = 3  # it was looked at, and is not so: measurements differ, an order is not back, no stack runs
INTERRUPTED = 130
