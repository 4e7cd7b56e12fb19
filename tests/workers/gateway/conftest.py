"""One server for the tests of a module."""

from collections.abc import Iterator

import pytest

from tests.workers.gateway.playing import make_engine, make_gateway
from training_core.llm.generation.torch_engine import TorchEngine
from workers.gateway.gateway import Gateway


@pytest.fixture(scope="module")
def gateway() -> Iterator[Gateway]:
    made = make_gateway()
    yield made
    made.close()


@pytest.fixture(scope="module")
def engine() -> TorchEngine:
    return make_engine()
