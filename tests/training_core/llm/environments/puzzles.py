"""What every puzzle must hold, asked of each in the same way."""

from copy import deepcopy
from itertools import islice
from typing import Any

from pydantic import TypeAdapter

from training_core.boards import Board
from training_core.llm.environments.base import TextEnvironment
from training_core.llm.environments.registry import make_environment, warm_start_of
from training_core.llm.environments.task_environment import Tasks

BOARD: TypeAdapter[Any] = TypeAdapter(Board)


def check_splits(tasks: Tasks[Any, Any], config: Any) -> None:
    """Same seed and number, same task; held-out tasks whatever the seed, never trained on."""
    trained = [tasks.instance(config, 5, number, "train") for number in range(60)]
    assert trained == [tasks.instance(config, 5, number, "train") for number in range(60)]
    assert trained != [tasks.instance(config, 6, number, "train") for number in range(60)]
    eval_tasks = [tasks.instance(config, 5, number, "eval") for number in range(60)]
    assert eval_tasks == [tasks.instance(config, 6, number, "eval") for number in range(60)]
    held_out = [tasks.instance(config, 5, number, "eval") for number in range(300)]
    apart = {instance.identity for instance in held_out}
    assert not apart & {tasks.instance(config, 1, number, "train").identity for number in range(300)}


def check_demonstrations(config: Any, count: int = 4000) -> list[tuple[str, str]]:
    """Same seed, same pairs; every word is in the vocabulary. Returns the pairs."""
    source = warm_start_of(config.type)
    pairs = list(islice(source.demonstrations(config, 0), count))
    assert list(islice(source.demonstrations(config, 0), 100)) == pairs[:100]
    assert list(islice(source.demonstrations(config, 1), 100)) != pairs[:100]
    known = set(source.vocabulary(config))
    assert {word for pair in pairs for text in pair for word in text.split()} <= known
    return pairs


def state(environment: Any) -> dict[str, Any]:
    """A copy of what an environment consists of."""
    return {name: deepcopy(value) for name, value in vars(environment).items() if name != "wording"}


def check_play(config: Any, answers: dict[str, list[str]], tasks: int = 30) -> None:
    """Whatever is answered, observations keep to the vocabulary, copies go their own way, boards can be drawn and episodes end."""
    known, moved = set(warm_start_of(config.type).vocabulary(config)), 0
    for number in range(tasks):
        environment: TextEnvironment = make_environment(config, 0)
        environment.reset(number, "train")
        assert environment.title and environment.task_id == f"train-{number}"
        for turn in range(config.max_turns):
            for place, role in enumerate(environment.roles):
                assert set(environment.observe(role).split()) <= known
                said = answers[role][(number + turn + place) % len(answers[role])]
                before, twin = state(environment), environment.copy()
                twin.act(role, said)
                assert state(environment) == before
                moved += state(twin) != before
                environment.act(role, said)
            BOARD.validate_python(environment.board())
            if environment.done:
                break
        assert environment.done
        assert environment.outcome != "under way"
    assert moved, "an answer changes the copy that it is tried on"
