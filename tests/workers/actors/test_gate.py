"""One generation at a time passes; closing has priority."""

import threading

from workers.actors.gate import Gate


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
