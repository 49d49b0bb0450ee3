#!/bin/sh
# Guess: the two Python clients of Kubernetes that bring a parser of quantities read the same ones, all that the API server writes.
# Version: lightkube 1.0.1, kubernetes 37.0.2.
# Seen: kubernetes reads all below. lightkube refuses the suffixes n and u and an exponent written with E (ValueError,
#   "Invalid unit suffix"), though it reads one written with e.
# Means: the resource metrics API gives a container's CPU use in nanocores (12345n), and custom metrics in micro-units: a reader
#   on lightkube fails on the first busy pod, and one tried on requests alone (500m, 16Gi) does not show it.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/pip" install --quiet --disable-pip-version-check lightkube==1.0.1 kubernetes==37.0.2

cat >"$folder/stated" <<'STATED'
500m: kubernetes 0.500000, lightkube 0.500000
16Gi: kubernetes 17179869184, lightkube 17179869184
12345n: kubernetes 0.000012, lightkube ValueError
100u: kubernetes 0.000100, lightkube ValueError
12e6: kubernetes 12000000, lightkube 12000000
12E6: kubernetes 12000000, lightkube ValueError
STATED
"$folder/env/bin/python" - >"$folder/seen" <<'PYTHON'
from kubernetes.utils.quantity import parse_quantity as official
from lightkube.utils.quantity import parse_quantity as light


def read(parse, quantity):
    try:
        value = parse(quantity)
    except ValueError:
        return "ValueError"
    return f"{value:.0f}" if value >= 1 else f"{value:.6f}"


for quantity in ("500m", "16Gi", "12345n", "100u", "12e6", "12E6"):
    print(f"{quantity}: kubernetes {read(official, quantity)}, lightkube {read(light, quantity)}")
PYTHON
cat "$folder/seen"
diff "$folder/stated" "$folder/seen"
