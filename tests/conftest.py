"""What all tests share."""

from collections.abc import Iterator

import jaxtyping
import pytest
from hypothesis import settings

# The same examples on every run and machine, and no clock in the verdict.
settings.register_profile("tinyattn", derandomize=True, deadline=None, database=None)
settings.load_profile("tinyattn")


@pytest.fixture
def refusals() -> Iterator[None]:
    """Errors as a reader meets them: without the shape checks that run with the tests."""
    before = jaxtyping.config.jaxtyping_disable
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", before)
