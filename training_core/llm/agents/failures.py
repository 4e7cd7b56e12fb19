"""Episodes whose agent ends with an error: failed, or with the reward of workflow.failure_reward."""

from collections.abc import Iterator
from contextlib import contextmanager

from training_core.errors import TroupeError
from training_core.llm.agents.session import Outcome, Session
from training_core.llm.environments.host import describe

_OF_REQUESTS = (400, 413, 422)
"""HTTP statuses that state that a request is wrong, which may be due to the policy's answers."""


@contextmanager
def failures_rewarded(session: Session, reward: float | None) -> Iterator[None]:
    """End the episode with `reward` if an agent raises here due to what the policy answered.

    Raises the agent's exception if `reward` is None, if the agent has received no answer, and if the exception is of the
    infrastructure: a time-out, a connection, a server, memory, a missing module.
    """
    try:
        yield
    except Exception as error:
        if reward is None or not _answered(session) or is_infrastructure(error):
            raise
        end_failed(session, describe(error), reward)


def end_failed(session: Session, error: str, reward: float | None) -> None:
    """Close an episode with an error. With a `reward`, one with answers counts as an episode of this reward and no other."""
    if session.done.done():
        return
    if reward is None or not _answered(session):
        session.close(error)
        return
    for _, call in session.calls():
        call.reward = 0.0
    text = session.without_key(error)
    session.outcome = Outcome(reward, rewarded=True, success=False, text=text[:200], failure=text)
    session.close()


def _answered(session: Session) -> bool:
    return any(call.received for _, call in session.calls())


def is_infrastructure(error: BaseException) -> bool:
    """Whether an exception, or one of its causes, is not due to a policy's answers."""
    from httpx import TransportError  # here: only runs with agents need it

    return any(
        isinstance(link, OSError | MemoryError | ImportError | TroupeError | TransportError)
        or _status(link) not in (None, *_OF_REQUESTS)
        for link in _links(error)
    )


def _status(error: BaseException) -> int | None:
    """The HTTP status of an error of a client library, if it has one."""
    status = getattr(error, "status_code", None) or getattr(
        getattr(error, "response", None), "status_code", None
    )
    return status if isinstance(status, int) else None


def _links(error: BaseException) -> Iterator[BaseException]:
    """The error, its causes, and the parts of groups."""
    waiting: list[BaseException | None] = [error]
    seen: set[int] = set()
    while waiting:
        link = waiting.pop()
        if link is None or id(link) in seen:
            continue
        seen.add(id(link))
        yield link
        waiting.append(link.__cause__ if link.__suppress_context__ else link.__context__)
        waiting.extend(link.exceptions if isinstance(link, BaseExceptionGroup) else ())
