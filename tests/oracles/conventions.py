"""The table of conventions: what each library answers, beside what is stored.

    python -m tests.oracles.conventions     writes results/conventions.json anew

The appendix on conventions shows the stored table; test_conventions.py asks again.
"""

import json
import warnings
from importlib.metadata import version
from pathlib import Path

from .asked_libraries import (
    flex,
    local_attention,
    reformer_pytorch,
    routing_transformer,
    tinyattn,
    torch_calls,
)
from .asked_models import transformers

FILE = Path(__file__).parents[2] / "results" / "conventions.json"
COLUMNS = ("mask", "window", "causal", "scale", "empty")
ASKED = {
    "tinyattn": tinyattn,
    "torch": torch_calls,
    "FlexAttention": flex,
    "transformers": transformers,
    "local-attention": local_attention,
    "reformer-pytorch": reformer_pytorch,
    "routing-transformer": routing_transformer,
}


def rows(library: str) -> list[dict[str, str]]:
    """A row for each way to call a library; what was not asked of it is an empty string."""
    return [
        {"library": library, "call": call} | {column: answers.get(column, "") for column in COLUMNS}
        for call, answers in ASKED[library]().items()
    ]


def main() -> None:
    warnings.filterwarnings("ignore", message="flex_attention called without torch.compile")
    packages = (
        "torch",
        "transformers",
        "local-attention",
        "reformer-pytorch",
        "routing-transformer",
    )
    content = {
        "versions": {package: version(package).split("+")[0] for package in packages},
        "rows": [row for library in ASKED for row in rows(library)],
    }
    FILE.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
