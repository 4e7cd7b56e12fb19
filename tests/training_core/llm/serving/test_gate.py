"""One generation at a time passes; closing has priority."""

import threading

import pytest

from training_core.errors import EngineFailure
from training_core.llm.serving.batching import Gate


def test_closing_has_priority_over_waiting_generations() -> None:
    gate, order = Gate(), []
    inside, leave = threading.Event(), threading.Event()

    def generate(name: str, *, wait: bool) -> None:
        with gate.passing():
            inside.set()
            if wait:
                leave.wait()
            order.append(name)

    def publish() -> None:
        with gate.closed():
            order.append("weights")

    first = threading.Thread(target=generate, args=("first",), kwargs={"wait": True})
    first.start()
    inside.wait()
    second = threading.Thread(target=generate, args=("second",), kwargs={"wait": False})
    second.start()
    publisher = threading.Thread(target=publish)
    publisher.start()
    while not gate.closing:
        pass
    assert order == []
    leave.set()
    for thread in (first, publisher, second):
        thread.join()
    assert order == ["first", "weights", "second"]
    assert not gate.closing


def test_the_gate_opens_after_as_many_opens_as_closes() -> None:
    gate = Gate()
    gate.close()
    gate.close()
    gate.open()
    assert gate.closing
    gate.open()
    gate.open()
    assert not gate.closing
    with gate.passing():
        pass


def test_a_gate_without_slots_admits_any_number_and_closes_after_all() -> None:
    gate, left = Gate(slots=None), []
    with gate.passing(), gate.passing():
        closing = threading.Thread(target=lambda: (gate.close(), left.append("closed")))
        closing.start()
        while not gate.closing:
            pass
        assert left == []
    closing.join()
    assert left == ["closed"]


def test_the_end_refuses_waiting_and_later_generations() -> None:
    gate, refused = Gate(), []

    def generate() -> None:
        with pytest.raises(EngineFailure, match="the run has ended"), gate.passing():
            pass
        refused.append(True)

    gate.close()
    waiting = threading.Thread(target=generate)
    waiting.start()
    gate.end("the run has ended")
    waiting.join()
    generate()
    assert refused == [True, True] and gate.closing
