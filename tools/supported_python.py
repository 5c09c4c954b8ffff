"""Exit silently on a Python that the book runs on, and with a sentence on any other."""

import sys

if not (3, 11) <= sys.version_info[:2] <= (3, 13):
    sys.exit(
        "tinyattn needs Python 3.11, 3.12 or 3.13, and this is Python "
        f"{sys.version_info[0]}.{sys.version_info[1]}. "
        "If another one is installed, name it: make book PYTHON=python3.12"
    )
