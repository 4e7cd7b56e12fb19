"""Branches: one episode of each training task is played to a random step, and K episodes play on from there.

They are compared like whole episodes, by the return of each role, but differ only from that step on. The common opening is shown in
each of them and trained in none. Its state is copied before a step, so that roles that speak at once stay together.
"""

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass
from functools import partial
from itertools import product

from training_core.llm.environments.host import Source
from training_core.llm.workflows.context import RolloutContext
from training_core.llm.workflows.episodes import sampling_settings
from training_core.llm.workflows.lockstep import (
    OPENING,
    Point,
    SamplingPlan,
    begin_episodes,
    end_early,
    fail_silent,
    play_step,
    turn_limit,
)
from training_core.seeding import NoiseStream, keyed_uniform
from training_core.types import Episode, NoiseKey

_POINT, _KEPT = 1_000_003, 1_000_033
"""Separate the draws of steps from the draws of tokens."""


def play_branches(tasks: Sequence[int], context: RolloutContext) -> list[Episode]:
    """Play training tasks, K = rollout.group_size slots each; siblings share the field `siblings`.

    The step is drawn by key among all steps of the longest episode. If the opening ends before, it is drawn among the steps that were
    reached, and all K episodes are sampled from there.
    """
    return _Branches(tasks, context).play()


@dataclass
class _Opening:
    """The common opening of a task's episodes."""

    task: int
    siblings: range
    """Slots of the K episodes."""
    branch: Point
    """Where they part, if the opening reaches it."""
    reached: int = 0
    """Steps that were reached."""
    kept: Point = OPENING
    """One of these steps, drawn among all of them."""
    episode: Episode | None = None
    """The opening before that step; None if it has ended at once."""

    @property
    def slot(self) -> int:
        """The sibling that plays it. It differs by task, so that openings are distributed over the environment workers."""
        return self.siblings[self.task % len(self.siblings)]

    @property
    def reserve(self) -> int:
        """The sibling whose slot has the state before the kept step."""
        return self.siblings[(self.task + 1) % len(self.siblings)]


class _Branches:
    """One call of play_branches."""

    def __init__(self, tasks: Sequence[int], context: RolloutContext) -> None:
        config, self._context = context.config, context
        self._steps, count = len(config.team.steps), config.rollout.group_size
        self._openings: dict[int, _Opening] = {}
        """Those that are being played, by slot."""
        self._episodes: dict[int, Episode] = {}
        for index, task in enumerate(tasks):
            number = int(self._draw(task, _POINT) * turn_limit(context) * self._steps)
            siblings = range(index * count, (index + 1) * count)
            opening = _Opening(task, siblings, Point(*divmod(number, self._steps)))
            self._openings[opening.slot] = opening

        def key(slot: int, turn: int, role_index: int) -> NoiseKey:
            stream, task = NoiseStream.BRANCHES, tasks[slot // count]
            return NoiseKey(config.run.seed, stream, context.iteration, task, turn, role_index)

        def first(slot: int) -> int:
            """Siblings have noise 0 ... K - 1, openings K: an opening that was too short is not sampled again."""
            return count if slot in self._openings else slot % count

        settings = partial(sampling_settings, config, kind="train")
        self._plan = SamplingPlan("train", "train", settings, key, first=first)

    def play(self) -> list[Episode]:
        """Play the openings and what follows in one lockstep; then the episodes of openings that were too short."""
        tasks = {slot: opening.task for slot, opening in self._openings.items()}
        self._episodes, live = begin_episodes(tasks, self._context, self._plan)
        self._play(live, [])
        short, self._openings = list(self._openings.values()), {}
        whole = {opening.slot: self._episodes[opening.slot] for opening in short}
        for opening in short:
            if opening.episode is None:  # it could not begin, or had nothing to play
                self._part(opening, whole[opening.slot])
        self._play([], [opening for opening in short if opening.episode])
        for opening in short:
            if opening.episode:
                unused = whole[opening.slot].turns[len(opening.episode.turns) :]
                self._episodes[opening.slot].continued_tokens = sum(
                    len(candidate.answer.token_ids) for turn in unused for candidate in turn.candidates
                )
        return [self._episodes[slot] for slot in sorted(self._episodes)]

    def _play(self, live: list[int], short: Sequence[_Opening]) -> None:
        """Play from the first step to the last. Episodes of short openings begin at the kept steps."""
        limit = turn_limit(self._context)
        last = self._steps - 1
        for turn, step in product(range(limit), range(self._steps)):
            point = Point(turn, step)
            live = live + self._begin(point, live, [opening for opening in short if opening.kept == point])
            if live:
                live = play_step(point, live, self._episodes, self._context, self._plan)
            if step == last:
                live = fail_silent(live, turn, self._episodes)
        end_early(dict.fromkeys(live, "turns used up"), self._episodes, self._context)

    def _begin(self, point: Point, live: list[int], short: Sequence[_Opening]) -> list[int]:
        """Part the openings that have reached their steps, and the short ones; keep states. Returns the slots that begin to play."""
        sources: dict[int, Source] = {}
        begun: list[int] = []
        for opening in short:
            assert opening.episode is not None
            self._part(opening, opening.episode)
            sources |= {slot: Source(opening.reserve) for slot in opening.siblings if slot != opening.reserve}
            begun += opening.siblings
        for opening in [self._openings[slot] for slot in live if slot in self._openings]:
            opening.reached += 1
            if opening.branch == point:
                others = [slot for slot in opening.siblings if slot != opening.slot]
                self._part(self._openings.pop(opening.slot), self._episodes[opening.slot])
                sources |= dict.fromkeys(others, Source(opening.slot))
                begun += others
            elif self._draw(opening.task, _KEPT, opening.reached) * opening.reached < 1:
                opening.kept, opening.episode = point, deepcopy(self._episodes[opening.slot])
                sources[opening.reserve] = Source(opening.slot)
        if sources:
            self._context.pool.spread(sources)
        return begun

    def _part(self, opening: _Opening, episode: Episode) -> None:
        """Begin the task's K episodes with copies of the opening."""
        context = self._context
        for slot in opening.siblings:
            copied = deepcopy(episode)
            copied.id = f"{context.attempt}-{context.iteration}-train-{context.first + slot}"
            copied.siblings = f"{context.iteration}-{opening.task}"
            copied.copied_turns = 0 if slot == opening.slot else len(copied.turns)
            for turn in copied.turns:
                turn.compared = False
            self._episodes[slot] = copied

    def _draw(self, *key: int) -> float:
        seed, stream = self._context.config.run.seed, NoiseStream.BRANCHES
        return keyed_uniform(seed, stream, self._context.iteration, *key)
