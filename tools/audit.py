"""Ask a public list of known weaknesses about every package that is installed here.

    python tools/audit.py

pip-audit asks it, about the version without its local part: nobody lists 2.13.0+cpu. What could
not be asked about is a failure too, so that a machine without a network does not report success.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from importlib.metadata import distributions
from pathlib import Path


def installed() -> list[str]:
    """name==version of all that is installed, but for this project itself."""
    found = {one.metadata["Name"]: one.version.split("+")[0] for one in distributions()}
    return sorted(f"{name}=={version}" for name, version in found.items() if name != "tinyattn")


def verdicts(report: dict) -> list[str]:
    """A sentence for each weakness that is known, and for each package that was not asked about."""
    found = []
    for package in report["dependencies"]:
        if "skip_reason" in package:
            found.append(f"{package['name']}: nothing is known, {package['skip_reason']}")
        for weakness in package.get("vulns", []):
            better = " or ".join(weakness["fix_versions"])
            way_out = f"take {better}" if better else "no version is without it"
            found.append(f"{package['name']} {package['version']}: {weakness['id']}, {way_out}")
    return found


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        listed, report = Path(folder, "requirements.txt"), Path(folder, "report.json")
        listed.write_text("\n".join(installed()) + "\n", encoding="utf-8")
        options = ["--no-deps", "--disable-pip", "--progress-spinner", "off"]
        options += ["--format", "json", "--output", str(report)]
        command = [sys.executable, "-m", "pip_audit", "-r", str(listed), *options]
        ran = subprocess.run(command, capture_output=True, text=True, check=False)
        if not report.is_file():
            sys.exit(f"pip-audit gave no report: {ran.stderr.strip()[-500:]}")
        found = verdicts(json.loads(report.read_text(encoding="utf-8")))
        print(*found, sep="\n")
        print(f"{len(installed())} packages, {len(found)} things to look at")
        return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
