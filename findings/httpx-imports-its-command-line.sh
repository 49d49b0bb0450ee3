#!/bin/sh
# Guess: `import httpx` costs the same whatever else is installed; its command line (the extra `cli`) is imported by
#   who runs it.
# Version: httpx 0.28.1, typer 0.29.2 (brings rich and pygments, and no click), uvicorn 0.54.0 (brings click).
# Seen: alone, and beside typer, httpx imports nothing of its command line. Beside typer and uvicorn, which between
#   them happen to bring click, rich and pygments, `import httpx` imports httpx._main, and with it all three.
# Means: adding a web server to a program that has a command line makes its HTTP client slower to import (0.22 of
#   0.33 CPU s were seen), in each of its processes; an import-time budget that was measured in a bare
#   environment does not hold in a full one.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/pip" install --quiet --disable-pip-version-check httpx==0.28.1
cat >"$folder/stated" <<'STATED'
alone: httpx._main False, click False, rich False, pygments False
beside typer: httpx._main False, click False, rich False, pygments False
beside typer and uvicorn: httpx._main True, click True, rich True, pygments True
STATED
cat >"$folder/look.py" <<'PYTHON'
import sys

import httpx

names = ("httpx._main", "click", "rich", "pygments")
print(f"{sys.argv[1]}:", ", ".join(f"{name} {name in sys.modules}" for name in names))
PYTHON
"$folder/env/bin/python" "$folder/look.py" alone >"$folder/seen"
"$folder/env/bin/pip" install --quiet --disable-pip-version-check typer==0.29.2
"$folder/env/bin/python" "$folder/look.py" "beside typer" >>"$folder/seen"
"$folder/env/bin/pip" install --quiet --disable-pip-version-check uvicorn==0.54.0
"$folder/env/bin/python" "$folder/look.py" "beside typer and uvicorn" >>"$folder/seen"
cat "$folder/seen"
diff "$folder/stated" "$folder/seen"
