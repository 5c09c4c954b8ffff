"""The built book as one file that opens from disk: unpack it and open index.html.

    python tools/offline.py     packs _build/html as _build/tinyattn-book-VERSION.zip

The same pages give the same bytes, on every machine and at every time.
"""

import sys
from pathlib import Path
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

from release import version

ROOT = Path(__file__).parents[1]
SITE = ROOT / "_build" / "html"
EARLIEST = (1980, 1, 1, 0, 0, 0)  # the first date that a zip can hold
LEFT_OUT = {
    ".buildinfo",
    ".nojekyll",
    "objects.inv",
    "webpack-macros.html",  # the theme's templates
    "sbt-webpack-macros.html",
}


def pack(site: Path, folder: Path) -> Path:
    """Writes the archive into a folder; all files in it lie below one folder of its name.

    Raises:
        FileNotFoundError: if the book has not been built.
    """
    if not (site / "index.html").is_file():
        raise FileNotFoundError(f"no index.html in {site}: run `make book` first")
    name = f"tinyattn-book-{version()}"
    archive = folder / f"{name}.zip"
    with ZipFile(archive, "w", ZIP_DEFLATED, compresslevel=9) as packed:
        pages = {file.relative_to(site).as_posix(): file for file in site.rglob("*")}
        licences = {file.name: file for file in ROOT.glob("LICENSE*")}
        for path, file in sorted((pages | licences).items()):
            if file.is_file() and file.name not in LEFT_OUT:
                entry = ZipInfo(f"{name}/{path}", EARLIEST)
                entry.compress_type = ZIP_DEFLATED
                entry.external_attr = 0o644 << 16
                packed.writestr(entry, file.read_bytes())
    return archive


def main() -> None:
    try:
        archive = pack(SITE, SITE.parent)
    except FileNotFoundError as error:
        sys.exit(str(error))
    print(f"{archive}: {archive.stat().st_size / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
