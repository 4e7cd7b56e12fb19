"""Boards of every kind, to look at."""

from typing import Any

_WALLS = [
    [row, column, "wall"] for row in range(5) for column in range(6) if row in (0, 4) or column in (0, 5)
]
_GOALS = [[1, 4, "goal"], [3, 4, "goal"]]


def _sokoban(agent: tuple[int, int], *boxes: tuple[int, int]) -> dict[str, Any]:
    cells = [*_WALLS, *_GOALS, *([row, column, "box"] for row, column in boxes), [*agent, "agent"]]
    return {"kind": "grid", "rows": 5, "columns": 6, "cells": cells}


SOKOBAN = [
    _sokoban((1, 1), (1, 2), (3, 4)),
    _sokoban((1, 2), (1, 3), (3, 4)),
    _sokoban((1, 3), (1, 4), (3, 4)),
]


def _sudoku(*filled: list[Any]) -> dict[str, Any]:
    given = [[0, 0, 1, "given"], [1, 2, 4, "given"], [2, 1, 3, "given"], [3, 3, 2, "given"]]
    return {"kind": "sudoku", "size": 4, "box": [2, 2], "cells": [*given, *filled]}


SUDOKU = [_sudoku(), _sudoku([0, 1, 2, "filled"]), _sudoku([0, 1, 2, "filled"], [0, 2, 4, "wrong"])]


def _thing(name: str, kind: str, x: float, y: float, radius: float) -> dict[str, Any]:
    return {"name": name, "kind": kind, "x": x, "y": y, "radius": radius}


def _plane(step: int) -> dict[str, Any]:
    agents = [
        _thing("planner", "agent", -1 + step, -0.5, 0.1) | {"velocity": [0.3, 0.0]},
        _thing("executor", "agent", 1.0, 1 - step, 0.1) | {"velocity": [0.0, -0.3]},
        _thing("scout", "agent", 0.0, 0.0, 0.1),
    ]
    things = [_thing("north", "landmark", 0.5, 0.75, 0.15), _thing("rock", "obstacle", -0.5, 0.5, 0.25)]
    return {"kind": "plane", "bounds": [-1.5, -1.5, 1.5, 1.5], "entities": [*agents, *things]}


SIDES = {"hunters": ("hunter_0", "hunter_1", "hunter_2"), "prey": ("hare",)}
_NAMES = [*SIDES["hunters"], *SIDES["prey"]]
_RUNNERS = [_thing(name, "agent", place / 2 - 1, 0.5, 0.08) for place, name in enumerate(_NAMES)]
_THINGS = [_thing("hill", "landmark", 0.5, -0.5, 0.1), _thing("rock", "obstacle", -0.5, -0.5, 0.2)]
CHASE = [_plane(0) | {"entities": [*_RUNNERS, *_THINGS], "roles": SIDES}]
FIELD = [
    {
        "kind": "grid", "rows": 2, "columns": 3, "roles": SIDES,
        "cells": [[0, 0, "goal"], [0, 0, "hunter_0"], [0, 2, "hunter_1"], [0, 2, "hunter_2"], [1, 1, "hare"]],
    }
]  # fmt: skip
"""Two squares with one agent, one with two."""

_PROGRAM = "left, right = map(int, input().split())\nprint(left - right)"
_SAID = [
    ("problem", "7 - 3", ""),
    ("tool", "7 + 3 = 10", "bad"),
    ("program", _PROGRAM, ""),
    ("answer", "4", "good"),
]
_LINES = [{"label": label, "text": text, "state": state} for label, text, state in _SAID]
LINES: list[dict[str, Any]] = [{"kind": "lines", "lines": _LINES[:1]}, {"kind": "lines", "lines": _LINES}]
PLANE = [_plane(0), _plane(1)]


def _queens(*columns: int, attacked: tuple[int, ...] = ()) -> dict[str, Any]:
    cells = [[row, column, "attacked" if row in attacked else "queen"] for row, column in enumerate(columns)]
    return {"kind": "grid", "rows": len(columns), "columns": len(columns), "cells": cells}


QUEENS = [_queens(1, 3, 1, 2, attacked=(0, 2, 3)), _queens(1, 3, 0, 2)]


def _piles(*piles: list[str], placed: list[str]) -> dict[str, Any]:
    return {"kind": "piles", "piles": list(piles), "goal": [["c", "b", "a"], ["d"]], "placed": placed}


PILES = [_piles(["b", "a", "c"], ["d"], placed=["d"]), _piles(["b", "a"], ["c"], ["d"], placed=["c", "d"])]
