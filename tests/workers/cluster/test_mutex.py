"""A lock that travels."""

import pickle
import threading

from workers.cluster.actors import Mutex


def test_a_mutex_is_unlocked_after_unpickling_and_excludes_others() -> None:
    mutex = Mutex()
    with mutex:
        copy = pickle.loads(pickle.dumps(mutex))
    order = []
    with copy:
        thread = threading.Thread(target=lambda: (copy.__enter__(), order.append("other")))  # type: ignore[func-returns-value]
        thread.start()
        order.append("holder")
    thread.join()
    assert order == ["holder", "other"]
