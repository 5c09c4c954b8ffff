"""Figures are drawn without a window, and every test closes its own."""

from collections.abc import Iterator

import matplotlib
import matplotlib.pyplot as plt
import pytest

matplotlib.use("agg")


@pytest.fixture(autouse=True)
def figures() -> Iterator[None]:
    """Settings are as before when a test ends; figures it made itself are closed."""
    settings = dict(matplotlib.rcParams)
    yield
    plt.close("all")
    assert dict(matplotlib.rcParams) == settings
