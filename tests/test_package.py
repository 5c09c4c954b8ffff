"""The wheel and the sdist: what is in them, and that the wheel works where nothing else is.

`python -m build` makes both from a copy of the files under version control. The wheel is then
installed in an environment that sees the packages it asks for, and no others: a forgotten
requirement, or a file that was not packed, fails here and not at a reader's.
"""

import os
import re
import shutil
import subprocess
import sys
import tarfile
import venv
import zipfile
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

import pytest
from packaging.metadata import Metadata
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import tinyattn

ROOT = Path(__file__).parents[1]

# Imports every module, then runs the examples of each: what a reader could try first.
TRY_ALL = """
import doctest, importlib, pkgutil, sys
import tinyattn
names = ["tinyattn", *(m.name for m in pkgutil.walk_packages(tinyattn.__path__, "tinyattn."))]
names = [name for name in names if not name.endswith("__main__")]
found = [doctest.testmod(importlib.import_module(name)) for name in names]
print(tinyattn.__file__)
print(len(names), sum(one.attempted for one in found), sum(one.failed for one in found))
"""


def tracked(folder: str) -> list[str]:
    listed = subprocess.run(
        ["git", "ls-files", "-z", folder], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if listed.returncode:
        pytest.skip("not a git checkout")
    return [name for name in listed.stdout.split("\0") if (ROOT / name).is_file()]


def run(*command: object, **more) -> str:
    found = subprocess.run(
        [*map(str, command)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=300,
        check=False,
        env={name: value for name, value in os.environ.items() if not name.startswith("PYTHON")},
        **more,
    )
    assert found.returncode == 0, found.stdout[-3000:]
    return found.stdout


@pytest.fixture(scope="module")
def built(tmp_path_factory) -> dict[str, Path]:
    """Both archives, by ending."""
    copy = tmp_path_factory.mktemp("copy")
    files = ["pyproject.toml", "MANIFEST.in", "README.md", "LICENSE"]
    for name in [*files, *tracked("src"), *tracked("tests")]:
        (copy / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, copy / name)
    run(sys.executable, "-m", "build", "--no-isolation", cwd=copy)
    found = {path.suffix: path for path in (copy / "dist").iterdir()}
    assert set(found) == {".whl", ".gz"}
    return found


@pytest.fixture(scope="module")
def metadata(built) -> Metadata:
    with zipfile.ZipFile(built[".whl"]) as wheel:
        name = next(name for name in wheel.namelist() if name.endswith(".dist-info/METADATA"))
        return Metadata.from_email(wheel.read(name), validate=True)


def test_the_wheel_holds_the_package_and_nothing_else(built):
    with zipfile.ZipFile(built[".whl"]) as wheel:
        names = {name for name in wheel.namelist() if ".dist-info/" not in name}
    assert names == {name.removeprefix("src/") for name in tracked("src")}
    assert "tinyattn/py.typed" in names
    assert "tinyattn/show/static/studio.js" in names


def test_the_sdist_holds_what_builds_the_wheel(built):
    with tarfile.open(built[".gz"]) as sdist:
        names = {name.split("/", 1)[1] for name in sdist.getnames() if "/" in name}
    assert {*tracked("src"), "pyproject.toml", "README.md", "LICENSE"} <= names
    assert not any(name.startswith("tests/") for name in names)


def test_metadata_are_valid_and_say_what_the_project_says(metadata):
    assert str(metadata.version) == tinyattn.__version__
    assert metadata.license_expression == "MIT"
    assert metadata.license_files == ["LICENSE"]
    assert metadata.description == (ROOT / "README.md").read_text(encoding="utf-8")
    assert metadata.description_content_type == "text/markdown"
    assert str(metadata.requires_python) == ">=3.11"
    assert "Typing :: Typed" in metadata.classifiers


def test_pythons_in_the_metadata_are_those_that_make_accepts(metadata):
    stated = [re.search(r":: 3\.(\d+)$", one) for one in metadata.classifiers]
    text = (ROOT / "tools" / "supported_python.py").read_text(encoding="utf-8")
    first, last = re.search(r"\(3, (\d+)\) <= .* <= \(3, (\d+)\)", text).groups()
    accepted = [str(minor) for minor in range(int(first), int(last) + 1)]
    assert [match[1] for match in stated if match] == accepted


# ------------------------------------------------------------------------- the wheel alone


def needed(requirements: list[Requirement]) -> dict[str, Distribution]:
    """The installed distributions that these requirements lead to."""
    found: dict[str, Distribution] = {}
    waiting = [(requirement, "") for requirement in requirements]
    while waiting:
        requirement, extra = waiting.pop()
        name = canonicalize_name(requirement.name)
        if requirement.marker and not requirement.marker.evaluate({"extra": extra}):
            continue
        try:
            one = distribution(name)
        except PackageNotFoundError:  # pip knows better: `pip check` runs before the tests
            continue
        assert one.version in requirement.specifier, f"{requirement}, but {one.version} is here"
        if name not in found or requirement.extras:
            found[name] = one
            for extra in requirement.extras or {""}:
                waiting += [(Requirement(text), extra) for text in one.requires or []]
    return found


def show_only(distributions: dict[str, Distribution], folder: Path) -> None:
    """Link what these distributions installed into a folder."""
    for one in distributions.values():
        for top in {file.parts[0] for file in one.files or [] if file.parts[0] != ".."}:
            link, target = folder / top, Path(one.locate_file(top)).resolve()
            if top != "__pycache__" and target.exists() and not link.exists():
                link.symlink_to(target)


@pytest.mark.skipif(sys.platform == "win32", reason="links need rights there")
def test_the_wheel_works_with_what_it_asks_for_and_nothing_else(built, metadata, tmp_path):
    home = tmp_path / "fresh"
    venv.create(home, with_pip=False, symlinks=True)
    python = home / "bin" / "python"
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", python]
    run(*pip, "install", "--quiet", "--no-index", "--no-deps", built[".whl"])
    site = Path(run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip())
    show_only(needed(metadata.requires_dist), site)
    where, counts = run(python, "-c", TRY_ALL, cwd=tmp_path).splitlines()[-2:]
    assert Path(where) == site / "tinyattn" / "__init__.py"
    n_modules, n_examples, n_failed = map(int, counts.split())
    assert n_modules == len([name for name in tracked("src") if name.endswith(".py")]) - 1
    assert n_examples > 200
    assert n_failed == 0
    absent = "import importlib.util as u; print(*map(u.find_spec, ['pytest', 'sphinx', 'nbval']))"
    assert run(python, "-c", absent).split() == ["None"] * 3
