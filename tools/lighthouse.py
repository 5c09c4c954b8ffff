"""Ask Lighthouse about some pages of the built book, as a phone and as a desk see them.

    python tools/lighthouse.py      writes results/lighthouse.json, which an appendix shows

For developers: it needs node, and `npx` fetches Lighthouse the first time. The book is served
from this machine, compressed, as a web host would.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import stamps

ROOT = Path(__file__).parents[1]
SITE = ROOT / "_build" / "html"
RESULT = ROOT / "results" / "lighthouse.json"
LIGHTHOUSE = "lighthouse@12.8.2"  # the last that runs on node 20; 13 asks for node 22.19
PAGES = (
    "book/intro",
    "book/01_attention",
    "book/08_compound",
    "book/appendices/glossary",
    "book/appendices/api/patterns",
)
SCREENS = ("mobile", "desktop")
CHROMIUM = ("chromium", "chromium-browser", "google-chrome", "chrome")
FLAGS = "--headless=new --no-sandbox --disable-gpu"


def ask(address: str, screen: str) -> dict:
    """Lighthouse's report about one page."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        command = [
            *os.environ.get("LIGHTHOUSE", f"npx --yes {LIGHTHOUSE}").split(),
            address,
            "--quiet",
            "--output=json",
            f"--output-path={report}",
            f"--chrome-flags={FLAGS}",
            *(["--preset=desktop"] if screen == "desktop" else []),
        ]
        browser = next(filter(None, map(shutil.which, CHROMIUM)), "")
        subprocess.run(command, check=True, env=os.environ | {"CHROME_PATH": browser})
        return json.loads(report.read_text(encoding="utf-8"))


def scores(report: dict) -> dict[str, int]:
    """The four scores out of 100, and the kilobytes that were sent."""
    found = {name: round(100 * one["score"]) for name, one in report["categories"].items()}
    return found | {"kB": round(report["audits"]["total-byte-weight"]["numericValue"] / 1000)}


def main() -> None:
    sys.path.append(str(ROOT))
    from tests.site.server import Server

    if not (SITE / "index.html").is_file():
        sys.exit(f"no pages in {SITE}: run `make book` first")
    if not os.environ.get("LIGHTHOUSE") and not shutil.which("npx"):
        sys.exit("Lighthouse needs node: there is no npx here")
    now, rows = stamps.stamp(stamps.of_pages()), []
    with Server(SITE) as server:
        for page in PAGES:
            for screen in SCREENS:
                report = ask(f"{server.address}{page}.html", screen)
                rows.append({"page": page, "screen": screen} | scores(report))
                print(*rows[-1].values())
    content = {
        "lighthouse": report["lighthouseVersion"],
        "rows": rows,
        "stamp": now,
    }
    RESULT.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
