#!/bin/sh
# Guess: pandas.to_timedelta reads Slurm's run time of days, D-HH:MM:SS (Elapsed, Timelimit of sacct; %M, %l of squeue),
#   as what it is, or raises ValueError, or gives NaT where errors="coerce".
# Version: pandas 3.1.1, numpy 2.4.6.
# Seen: no error. The hyphen is a sign and the digits before it are put in front of the hours: 1-02:03:04 is minus 102 h
#   3 min 4 s, 0-01:00:00 is minus one hour, 10-00:00:00 is minus 1,000 hours. With a blank in place of the hyphen it is
#   plus 102 h. Run times below a day are right, so a table looks sound until its first long job; errors="coerce"
#   changes nothing. "1 days 02:03:04" is read as 26 h 3 min 4 s.
# Means: ask sacct for ElapsedRaw and TimelimitRaw; or rewrite the hyphen to " days " first, and refuse what is negative.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check pandas==3.1.1 numpy==2.4.6

cat > "$folder/stated" <<'STATED'
23:59:59 is 86399 s
0-01:00:00 is -3600 s
1-02:03:04 is -367384 s
10-00:00:00 is -3600000 s
1 02:03:04 is 367384 s
1 days 02:03:04 is 93784 s
STATED

"$folder/venv/bin/python" - > "$folder/seen" <<'PYTHON'
import pandas as pd

words = ["23:59:59", "0-01:00:00", "1-02:03:04", "10-00:00:00", "1 02:03:04", "1 days 02:03:04"]
times = pd.to_timedelta(pd.Series(words), errors="coerce")
for word, seconds in zip(words, times.dt.total_seconds()):
    print(word, "is", int(seconds), "s")
PYTHON

cat "$folder/seen"
diff "$folder/stated" "$folder/seen"
