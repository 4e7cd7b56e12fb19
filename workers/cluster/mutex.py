"""A lock that can be pickled; it is unlocked after unpickling."""

import threading
from types import TracebackType


class Mutex:
    """`threading.Lock` as a context manager, which may be pickled."""

    def __init__(self) -> None:
        self._lock = threading.Lock()

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._lock.release()

    def __reduce__(self) -> tuple[type["Mutex"], tuple[()]]:
        return Mutex, ()
