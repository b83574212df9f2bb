"""What tests of crashes share."""

from collections.abc import Iterator

import pytest

from tests.crash.scenario import Zygote


@pytest.fixture(scope="session")
def zygote() -> Iterator[Zygote]:
    started = Zygote()
    yield started
    started.end()
