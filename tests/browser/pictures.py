"""`make pictures`: the main pages as docs/images/pages/*.png, of a filled installation in light mode.

With LUCID_PAGES_PORT they are taken of one that runs already (`tests/browser/installation.py`).
"""

import io
import os
import tempfile
from pathlib import Path
from typing import Any
from urllib.parse import quote

from PIL import Image

from tests.browser.conftest import PATIENCE_MS, PROGRAM, Visits
from tests.browser.driver import expect, sync_playwright
from tests.browser.filling import CLUSTER, LIVE, REFUSED
from tests.browser.installation import Installation
from tests.pipeline.what_if.what_if_results import RUN_ID

FOLDER = Path(__file__).parents[2] / "docs" / "images" / "pages"
COLOURS = 96
# Name of the picture -> address, and what is there once the page has read its data.
PICTURES = {
    "clusters": ("/plugin/lucid", "Roll back to release"),
    "cluster": (f"/plugin/lucid/clusters/{CLUSTER}", "Ready to publish?"),
    "release": (f"/plugin/lucid/releases/{CLUSTER}/{LIVE}", "Mean queuing by virtual cluster"),
    "refused": (f"/plugin/lucid/releases/{CLUSTER}/{REFUSED}", "Refused: mean JCT"),
    "what_if": (f"/plugin/lucid/what-if/{quote(RUN_ID, safe='')}", "How long jobs wait"),
    "result": ("/dags/validate_release/runs/{run}/plugin/result", "All about release"),
}


def take(page: Any, file: Path) -> None:
    """Write what a page shows as a small PNG."""
    picture = Image.open(io.BytesIO(page.screenshot())).convert("RGB")
    picture.quantize(COLOURS, method=Image.Quantize.MEDIANCUT).save(file, optimize=True)


def take_all(visits: Visits, installation: Installation) -> None:
    """Take every picture."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    page = visits(installation, "/dags")
    runs = page.request.get(f"{installation.url}/api/v2/dags/validate_release/dagRuns").json()["dag_runs"]
    for name, (path, there) in PICTURES.items():
        page = visits(installation, path.format(run=runs[-1]["dag_run_id"]))
        expect(page.get_by_text(there).first).to_be_visible(timeout=PATIENCE_MS)
        page.wait_for_load_state("networkidle")
        take(page, FOLDER / f"{name}.png")


def main() -> None:
    """Take the pictures of a running installation, or of one that is started for them."""
    with sync_playwright() as playwright, tempfile.TemporaryDirectory(prefix="lucid-pages-") as folder:
        browser = playwright.chromium.launch(executable_path=PROGRAM, args=["--no-sandbox", "--disable-gpu"])
        port = os.environ.get("LUCID_PAGES_PORT")
        installation = Installation(Path(folder), port=int(port)) if port else Installation(Path(folder))
        try:
            if not port:
                installation.start()
                installation.fill()
            take_all(Visits(browser), installation)
        finally:
            installation.stop()


if __name__ == "__main__":
    main()
