"""Print pip's option for an index of CPU builds of PyTorch, if it answers within three seconds.

    python tools/cpu_wheels.py https://...

Only Linux needs it: elsewhere PyPI has the CPU build. Where the index cannot be reached, PyPI's
build works too; on Linux it just takes gigabytes more.
"""

import signal
import sys
from urllib.error import URLError
from urllib.request import urlopen

SECONDS = 3


def main(index: str) -> None:
    if not sys.platform.startswith("linux"):
        return
    signal.alarm(SECONDS)  # ends this process even while it waits for a name server
    try:
        urlopen(f"{index}/torch/", timeout=SECONDS).close()
    except (URLError, TimeoutError):
        return
    print(f"--extra-index-url {index}")


if __name__ == "__main__":
    main(sys.argv[1])
