"""Noisy demonstrations of Sokoban for both roles, for the warm start of the tiny base model.

They teach the language and part of the task. The planner names an axis of the goal, sometimes in the wrong direction.
The executor walks around the box and pushes it along the axis of the plan, sometimes in the wrong direction. Some
words are also replaced at random. Avoiding walls, and relying on the other role, is learnt in the run.
"""

from collections.abc import Iterator
from random import Random

from training_core.llm.environments.base import WarmStart
from training_core.llm.environments.sokoban.config import Sokoban
from training_core.llm.environments.sokoban.game import COMPASS, STUCK, SokobanEnvironment, sokoban_vocabulary
from training_core.llm.environments.sokoban.puzzles import MOVES, Cell, Level, draw_level, neighbour, walk
from training_core.seeding import keyed_seed

NOISE = 0.1
"""Probability that a demonstrated word is replaced by a random one."""
STATES_PER_LEVEL = 8
TURNED = 0.1
"""Probability that the planner reverses its direction."""
MISREAD = 0.15
"""Probability that the executor does."""
OPPOSITE = {"up": "down", "down": "up", "left": "right", "right": "left"}
_IN_COMPASS = {move: word for word, move in COMPASS.items()}


def sokoban_demonstrations(config: Sokoban, seed: int) -> Iterator[tuple[str, str]]:
    """Endless pairs of observation and answer, planner and executor in turn."""
    random = Random(keyed_seed(seed, 2))
    environment = SokobanEnvironment(config, seed)
    while True:
        level = draw_level(config, random, "train")
        for _ in range(STATES_PER_LEVEL):
            environment.start(level, "demonstration")
            _random_state(environment, level, random)
            number = random.choice([n for n, box in enumerate(environment.boxes) if box not in level.goals])
            named = [str(number + 1)] if config.boxes > 1 else []
            towards = _axis_to_a_goal(environment.boxes[number], level, random)
            direction = _turned(towards, TURNED, random)
            yield (
                environment.observe("planner"),
                _noisy([*named, _IN_COMPASS[direction]], list(COMPASS), random),
            )
            meant = towards if random.random() < 0.7 else random.choice(list(MOVES))
            environment.plan = (*named, _IN_COMPASS[meant])
            moves = _round_and_push(environment, number, _turned(meant, MISREAD, random))
            yield (
                environment.observe("executor"),
                _noisy(moves or [random.choice(list(MOVES))], list(MOVES), random),
            )


def _random_state(environment: SokobanEnvironment, level: Level, random: Random) -> None:
    """Place boxes and player so that the level is solvable and not all boxes are on goals."""
    inside = range(1, level.size - 1)
    cells = [(row, column) for row in inside for column in inside if level.open((row, column))]
    alive = [cell for cell in cells if cell in environment.alive]
    while True:
        boxes = tuple(random.sample(alive, len(level.boxes)))
        if set(boxes) != set(level.goals):
            break
    environment.boxes = boxes
    environment.player = random.choice([cell for cell in cells if cell not in boxes])
    environment.last = random.choice([(), (STUCK,), *((word,) for word in MOVES)])


def _axis_to_a_goal(box: Cell, level: Level, random: Random) -> str:
    """A move that brings a box nearer to the nearest goal in a straight line."""
    goal = min(level.goals, key=lambda cell: abs(cell[0] - box[0]) + abs(cell[1] - box[1]))
    rows, columns = goal[0] - box[0], goal[1] - box[1]
    options = ["down" if rows > 0 else "up"] if rows else []
    options += ["right" if columns > 0 else "left"] if columns else []
    return random.choice(options)


def _turned(move: str, probability: float, random: Random) -> str:
    return OPPOSITE[move] if random.random() < probability else move


def _round_and_push(environment: SokobanEnvironment, number: int, move: str) -> list[str]:
    """The shortest walk to the far side of a box, and a push; truncated to one turn, empty if there is none."""
    box = environment.boxes[number]
    behind = neighbour(box, MOVES[move], -1)
    path = walk(environment.level, environment.boxes, environment.player, behind)
    return [] if path is None else [*path, move][: environment.config.moves_per_turn]


def _noisy(words: list[str], vocabulary: list[str], random: Random) -> str:
    return " ".join(
        random.choice(vocabulary) if word in vocabulary and random.random() < NOISE else word
        for word in words
    )


WARM_START = WarmStart(sokoban_vocabulary, sokoban_demonstrations, NOISE)
