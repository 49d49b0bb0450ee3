#!/bin/sh
# Guess: time limits with infinity for "no limit", or waits with infinity for "not yet": the largest of a rolling window
#   with an infinity in it is infinity, as it is of the whole column and of a group.
# Version: pandas 3.1.1, numpy 2.4.6.
# Seen: rolling, expanding and their groupby forms take infinity for a missing value, of either sign. A window of full
#   length is NaN; with min_periods=1, or for expanding, which has that by default, the infinite value is passed over
#   without a word: the largest of 1, inf, 3 is 3 and their mean 2, while their count is 3. Series.max, groupby.max,
#   cummax and resample.max keep it.
# Means: a running P90 or maximum over jobs without a limit leaves exactly these out. Count them in a column of their own,
#   or use cummax and NumPy's sliding_window_view.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check pandas==3.1.1 numpy==2.4.6

cat > "$folder/stated" <<'STATED'
max of all inf
cummax [1.0, inf, inf]
groupby max inf
resample max inf
rolling max [nan, nan, nan]
rolling max, min_periods=1 [1.0, 1.0, 3.0]
rolling count [1.0, 2.0, 3.0]
expanding max [1.0, 1.0, 3.0]
expanding mean [1.0, 1.0, 2.0]
grouped expanding max [1.0, 1.0, 3.0]
expanding min of -inf [1.0, 1.0, 1.0]
STATED

"$folder/venv/bin/python" - > "$folder/seen" <<'PYTHON'
import numpy as np
import pandas as pd

limits = pd.Series([1.0, np.inf, 3.0], index=pd.to_datetime([0, 1, 2], unit="s"))
group = limits.groupby(np.zeros(3))
print("max of all", limits.max())
print("cummax", limits.cummax().tolist())
print("groupby max", group.max().item())
print("resample max", limits.resample("1h").max().item())
print("rolling max", limits.rolling(3).max().tolist())
print("rolling max, min_periods=1", limits.rolling(3, min_periods=1).max().tolist())
print("rolling count", limits.rolling(3, min_periods=1).count().tolist())
print("expanding max", limits.expanding().max().tolist())
print("expanding mean", limits.expanding().mean().tolist())
print("grouped expanding max", group.expanding().max().tolist())
print("expanding min of -inf", limits.replace(np.inf, -np.inf).expanding().min().tolist())
PYTHON

cat "$folder/seen"
diff "$folder/stated" "$folder/seen"
