"""Runs a program and writes what it used: `python -I -S watched.py FILE PROGRAM WORD ...`; exits as it does.

A process of its own, because Linux counts what the one that starts a program holds as the program's peak, and
this one holds next to nothing. FILE gets user and system time (s) and the peak (KiB), of its children, too.
"""

import os
import sys

program = os.posix_spawnp(sys.argv[2], sys.argv[2:], os.environ)
_, status, used = os.wait4(program, 0)
said = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT)
os.write(said, f"{used.ru_utime + used.ru_stime} {used.ru_maxrss}".encode())
sys.exit(os.waitstatus_to_exitcode(status) % 256)
