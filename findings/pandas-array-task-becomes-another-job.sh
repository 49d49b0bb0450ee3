#!/bin/sh
# Guess: a column of Slurm's job ids as text, one of them a task of an array (12_3), cannot be made whole numbers:
#   astype("int64") raises, as astype("Int64") and pandas.to_numeric do.
# Version: pandas 3.1.1, pyarrow 25.0.1, numpy 2.4.6.
# Seen: astype("int64") and astype("float64") give 123 for task 3 of array 12: they read by Python's rules, in which `_`
#   may part digits. 123 is another job's id. Int64, int64[pyarrow] and to_numeric raise. A column of dtype object takes
#   Int64 as well.
# Means: keep JobID as text, or ask sacct for JobIDRaw, which is a number for every task. A join on converted ids gives
#   one job's figures to another.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check pandas==3.1.1 pyarrow==25.0.1 numpy==2.4.6

cat > "$folder/stated" <<'STATED'
str to int64: [123, 7]
str to float64: [123.0, 7.0]
str to Int64: raised
str to int64[pyarrow]: raised
object to int64: [123, 7]
object to Int64: [123, 7]
object to int64[pyarrow]: raised
to_numeric: raised
STATED

"$folder/venv/bin/python" - > "$folder/seen" <<'PYTHON'
import pandas as pd

ids = ["12_3", "7"]


def tried(name, convert):
    try:
        print(f"{name}:", convert().tolist())
    except Exception:
        print(f"{name}: raised")


for dtype, kinds in (("str", ("int64", "float64", "Int64", "int64[pyarrow]")), ("object", ("int64", "Int64", "int64[pyarrow]"))):
    for kind in kinds:
        tried(f"{dtype} to {kind}", lambda: pd.Series(ids, dtype=dtype).astype(kind))
tried("to_numeric", lambda: pd.to_numeric(pd.Series(ids)))
PYTHON

cat "$folder/seen"
diff "$folder/stated" "$folder/seen"
