"""What all tests share."""

from collections import Counter
from collections.abc import Iterator

import jaxtyping
import pytest
import torch
from hypothesis import settings
from playwright.sync_api import Browser

from .browser import open_browser

# The same examples on every run and machine, and no clock in the verdict.
settings.register_profile("tinyattn", derandomize=True, deadline=None, database=None)
settings.load_profile("tinyattn")


@pytest.fixture(autouse=True)
def printed_as_ever() -> Iterator[None]:
    """Cells of the book choose how tensors are printed; doctests after them expect no choice."""
    yield
    torch.set_printoptions(profile="default")


@pytest.fixture
def refusals() -> Iterator[None]:
    """Errors as a reader meets them: without the shape checks that run with the tests."""
    before = jaxtyping.config.jaxtyping_disable
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", before)


@pytest.fixture(scope="module")  # closed after each file: tests of notebooks need the event loop
def browser() -> Iterator[Browser]:
    with open_browser() as browser:
        yield browser


def pytest_configure(config) -> None:
    config.addinivalue_line(
        "markers", "records: what is stored in results/ speaks of the code that is here"
    )


def pytest_collection_modifyitems(config, items) -> None:
    """Records may be older than the code, which takes hours to mend: `make fresh` asks for them."""
    if not config.option.markexpr:
        asked = [item for item in items if "records" in item.keywords]
        config.hook.pytest_deselected(items=asked)
        items[:] = [item for item in items if item not in asked]


def pytest_terminal_summary(terminalreporter) -> None:
    """One line for each reason to skip, however many tests have it."""
    skipped = terminalreporter.stats.get("skipped", [])
    for reason, n_tests in Counter(report.longrepr[2] for report in skipped).items():
        terminalreporter.line(f"{n_tests} skipped, {reason.removeprefix('Skipped: ')}")
