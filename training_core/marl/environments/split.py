"""One VectorEnvironment from several: shares of B environments, whose views and rewards are concatenated.

Environments are numbered consecutively: share k begins where share k - 1 ends, and is reset with the same seed and
its first number. Because every environment's episodes follow from the seed and its own number (episodes.py), the
division has no effect. Only VMAS draws per share: the same seed and shares give the same episodes.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from training_core.marl.environments.base import (
    Actions,
    Flags,
    Spec,
    Transition,
    VectorEnvironment,
    View,
    joined_views,
)
from training_core.marl.environments.episodes import Arrays, select_prefix, with_prefix


class Share(Protocol):
    """Some of the environments, which can run concurrently with others: an operation is started first, and its result read later."""

    spec: Spec
    count: int

    def begin_reset(self, seed: int, first: int) -> None: ...

    def begin_step(self, actions: dict[str, Actions], watched: Sequence[int]) -> None: ...

    def view(self) -> View:
        """The result of the started reset."""
        ...

    def transition(self) -> Transition:
        """The result of the started step. Raises EnvironmentFailure."""
        ...

    def board(self, index: int) -> dict[str, Any] | None: ...

    def episode_state(self) -> Arrays | None: ...

    def restore(self, arrays: Mapping[str, NDArray[Any]]) -> View | None: ...

    def close(self) -> None: ...


class LocalShare:
    """A share in this process."""

    def __init__(self, environments: VectorEnvironment) -> None:
        self._environments = environments
        self.spec, self.count = environments.spec, environments.count
        self._view: View | None = None
        self._transition: Transition | None = None

    def begin_reset(self, seed: int, first: int) -> None:
        self._view = self._environments.reset(seed, first)

    def begin_step(self, actions: dict[str, Actions], watched: Sequence[int]) -> None:
        self._transition = self._environments.step(actions, watched)

    def view(self) -> View:
        assert self._view is not None, "no reset was started"
        return self._view

    def transition(self) -> Transition:
        assert self._transition is not None, "no step was started"
        return self._transition

    def board(self, index: int) -> dict[str, Any] | None:
        return self._environments.board(index)

    def episode_state(self) -> Arrays | None:
        return self._environments.episode_state()

    def restore(self, arrays: Mapping[str, NDArray[Any]]) -> View | None:
        return self._environments.restore(arrays)

    def close(self) -> None:
        self._environments.close()


class SplitEnvironments:
    """A VectorEnvironment over shares, which starts all shares before waiting for any."""

    def __init__(self, shares: Sequence[Share]) -> None:
        self._shares = list(shares)
        self._edges = np.cumsum([0, *(share.count for share in self._shares)])

    @property
    def spec(self) -> Spec:
        return self._shares[0].spec

    @property
    def count(self) -> int:
        return int(self._edges[-1])

    def reset(self, seed: int, first: int = 0) -> View:
        for share, edge in zip(self._shares, self._edges, strict=False):
            share.begin_reset(seed, first + int(edge))
        return merged_views([share.view() for share in self._shares])

    def step(self, actions: Mapping[str, Actions], watched: Sequence[int] = ()) -> Transition:
        for number, share in enumerate(self._shares):
            first, end = self._edges[number : number + 2].tolist()
            own = [index - first for index in watched if first <= index < end]
            share.begin_step({role: chosen[first:end] for role, chosen in actions.items()}, own)
        return merged_transitions([share.transition() for share in self._shares])

    def board(self, index: int) -> dict[str, Any] | None:
        number = int(np.searchsorted(self._edges, index, side="right")) - 1
        return self._shares[number].board(index - int(self._edges[number]))

    def episode_state(self) -> Arrays | None:
        """Episodes by the number of the share."""
        arrays: Arrays = {}
        for number, share in enumerate(self._shares):
            own = share.episode_state()
            if own is None:
                return None
            arrays |= with_prefix(str(number), own)
        return arrays

    def restore(self, arrays: Mapping[str, NDArray[Any]]) -> View | None:
        views = [
            share.restore(select_prefix(arrays, str(number))) for number, share in enumerate(self._shares)
        ]
        known = [view for view in views if view is not None]
        return merged_views(known) if len(known) == len(views) else None

    def close(self) -> None:
        for share in self._shares:
            share.close()


def shares_of(count: int, shares: int) -> list[int]:
    """`count` environments divided as evenly as possible into at most `shares` non-empty shares."""
    shares = min(count, shares)
    return [count // shares + (number < count % shares) for number in range(shares)]


def merged_views(views: Sequence[View]) -> View:
    """Concatenated views of shares."""
    return joined_views(views, np.concatenate)


def merged_transitions(parts: Sequence[Transition]) -> Transition:
    """Concatenated steps of shares. If one share has final states and another has none, the other's current ones are used."""
    finals = [part.view if part.final is None else part.final for part in parts]
    firsts = np.cumsum([0, *(len(part.terminated) for part in parts)]).tolist()
    return Transition(
        merged_views([part.view for part in parts]),
        {role: np.concatenate([part.rewards[role] for part in parts]) for role in parts[0].rewards},
        np.concatenate([part.terminated for part in parts]),
        np.concatenate([part.truncated for part in parts]),
        merged_views(finals) if any(part.final is not None for part in parts) else None,
        _renumbered([part.last_boards for part in parts], firsts),
        _renumbered([part.failures for part in parts], firsts),
        _merged_ends(parts),
        _renumbered([part.successes for part in parts], firsts),
    )


def _merged_ends(parts: Sequence[Transition]) -> dict[str, Flags]:
    """Ends of single agents; a share whose environments all failed has none."""
    roles = {role for part in parts for role in part.agent_terminated}
    return {
        role: np.concatenate(
            [part.agent_terminated.get(role, np.zeros_like(part.rewards[role], dtype=bool)) for part in parts]
        )
        for role in sorted(roles)
    }


def _renumbered(tables: Sequence[Mapping[int, Any]], firsts: Sequence[int]) -> dict[int, Any]:
    """Data of single environments in shares, by the number in the whole."""
    return {
        first + row: item for table, first in zip(tables, firsts, strict=False) for row, item in table.items()
    }
