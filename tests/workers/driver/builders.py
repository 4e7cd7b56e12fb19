"""Small episodes written by hand."""

from training_core.types import Answer, Candidate, Episode, Group, Turn


def answer(tokens: int = 2, version: int = 0, stop: str = "stop") -> Answer:
    """An answer with the given number of tokens."""
    return Answer(list(range(tokens)), [-0.5] * tokens, [version] * tokens, stop, "go up")  # type: ignore[arg-type]


def turn(role: str, rewards: list[float], executed: int, index: int = 0, **answers: object) -> Turn:
    """One role's turn with these candidates' rewards."""
    candidates = [Candidate(answer(**answers), reward=reward) for reward in rewards]  # type: ignore[arg-type]
    return Turn(index, role, role, [{"role": "user", "content": "wall left"}], [1, 2], candidates, executed)


def episode(name: str = "1-1-train-0", **fields: object) -> Episode:
    """Planner then executor, one turn: rewards executed 1.0 and 0.5."""
    turns = [turn("planner", [0.0, 1.0], 1), turn("executor", [0.5, -0.5], 0)]
    return Episode(id=name, iteration=1, kind="train", task="t-0", title="to the goal", turns=turns, **fields)  # type: ignore[arg-type]


def group(versions: list[list[int]]) -> Group:
    """A group whose answers have these token versions."""
    answers = [Answer([0] * len(item), [0.0] * len(item), item, "stop", "") for item in versions]
    numbers = [float(place) for place in range(len(versions))]
    return Group("1-1-train-0", 0, [1], answers, numbers, numbers, 1.0, 0, 1.0)
