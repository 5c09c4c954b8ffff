"""Put what a release consists of into dist/, with checksums.

    python tools/release.py [--tag v0.1.0]     after `make book`

The wheel and the sdist, the built pages as one archive that opens from disk and as one PDF, the
notebooks as an archive that runs where the wheel is installed, and SHA256SUMS over all of them. With
a tag, only if that is the version and the changelog does not call it unreleased.
"""

from __future__ import annotations

import argparse
import hashlib
import re
import shutil
import subprocess
import sys
from pathlib import Path
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

ROOT = Path(__file__).resolve().parents[1]
EARLIEST = (1980, 1, 1, 0, 0, 0)  # the first date that a zip can hold
NOTEBOOKS = ["book/**/*.ipynb", "results/*", "_toc.yml", "requirements.txt", "LICENSE*"]
HOW_TO = """Chapters of the book, version {version}. With Python 3.11, 3.12 or 3.13, in this folder:

    pip install -r requirements.txt ../tinyattn-{version}-py3-none-any.whl jupyterlab
    jupyter lab book/intro.ipynb

The wheel is a file of the same release: put it beside this folder.
"""


def version() -> str:
    """The version, read from the package, which is not run for it."""
    text = (ROOT / "src" / "tinyattn" / "__init__.py").read_text(encoding="utf-8")
    return re.search(r'^__version__ = "(.+)"$', text, re.MULTILINE)[1]


def problem_with(tag: str) -> str | None:
    """Why this tag cannot be released, or None."""
    if tag != f"v{version()}":
        return f"the tag is {tag}, and the version {version()}: they must agree"
    heading = re.search(r"^## (.*)$", (ROOT / "CHANGELOG.md").read_text("utf-8"), re.MULTILINE)[1]
    if not re.fullmatch(rf"{re.escape(version())}, \d{{4}}-\d\d-\d\d", heading):
        return f"CHANGELOG.md must start with the version and its date, not with {heading!r}"
    return None


def pack_notebooks(folder: Path) -> Path:
    """One archive with the chapters and the results that they load, the same bytes every time."""
    name = f"tinyattn-notebooks-{version()}"
    files = {file for pattern in NOTEBOOKS for file in ROOT.glob(pattern) if file.is_file()}
    files = {file for file in files if ".ipynb_checkpoints" not in file.parts}
    content = {file.relative_to(ROOT).as_posix(): file.read_bytes() for file in files}
    content["README.txt"] = HOW_TO.format(version=version()).encode()
    archive = folder / f"{name}.zip"
    with ZipFile(archive, "w") as packed:
        for path, data in sorted(content.items()):
            entry = ZipInfo(f"{name}/{path}", EARLIEST)
            entry.compress_type = ZIP_DEFLATED
            entry.external_attr = 0o644 << 16
            packed.writestr(entry, data)
    return archive


def write_checksums(folder: Path) -> None:
    """SHA256SUMS, in the form that `sha256sum --check` reads."""
    files = sorted(path for path in folder.iterdir() if path.name != "SHA256SUMS")
    lines = [f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in files]
    (folder / "SHA256SUMS").write_bytes("".join(lines).encode())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tag", default="", help="refuse if this is not the tag of the version")
    tag = parser.parse_args().tag
    if tag and (problem := problem_with(tag)):
        sys.exit(problem)
    import offline
    import pdf

    if reason := pdf.problem():
        sys.exit(reason)
    folder, site = ROOT / "dist", ROOT / "_build" / "html"
    shutil.rmtree(folder, ignore_errors=True)
    subprocess.run([sys.executable, "-m", "build", "--outdir", folder, ROOT], check=True)
    pack_notebooks(folder)
    offline.pack(site, folder)
    pdf.make(site, folder)
    write_checksums(folder)
    for path in sorted(folder.iterdir()):
        print(f"{path.stat().st_size / 1e6:6.1f} MB  {path.name}")


if __name__ == "__main__":
    main()
