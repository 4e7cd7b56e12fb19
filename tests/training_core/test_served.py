"""A process of a server reaches private networks only as the owner has named them, whatever a name resolves to."""

import socket

import pytest

from training_core.config.rollout import RolloutBuffer
from training_core.errors import BufferFailure
from training_core.llm.external.source import connect
from training_core.served import ADDRESSES, NETWORKS, VARIABLE, address_refused


@pytest.fixture(autouse=True)
def resolved(monkeypatch: pytest.MonkeyPatch) -> None:
    """lab.example has a public and a private address."""

    def resolve(host: str, port: int, **_: object) -> list[tuple[object, ...]]:
        if host != "lab.example":
            raise OSError
        return [(0, 0, 0, "", (address, port)) for address in ("8.8.8.8", "10.1.0.5")]

    monkeypatch.setattr(socket, "getaddrinfo", resolve)


@pytest.mark.parametrize(
    ("variables", "refused"),
    [
        ({}, True),
        ({ADDRESSES: "http://lab.example:1"}, True),
        ({ADDRESSES: "http://other:1, http://lab.example:8000"}, False),
        ({NETWORKS: "10.0.0.0/8"}, False),
        ({VARIABLE: ""}, False),
    ],
)
def test_a_name_of_a_private_address_is_refused(
    variables: dict[str, str], refused: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in ({VARIABLE: "1", ADDRESSES: "", NETWORKS: ""} | variables).items():
        monkeypatch.setenv(name, value)
    assert ("10.1.0.5" in address_refused("http://lab.example:8000")) == refused
    assert not address_refused("http://127.0.0.1:8000")
    assert not address_refused("http://unknown.example"), "the connection reports it"
    if refused:
        with pytest.raises(BufferFailure, match="is not asked"):
            connect(RolloutBuffer(url="http://lab.example:8000"), "")
