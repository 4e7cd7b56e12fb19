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


def _plane(step: int) -> dict[str, Any]:
    agents = [
        {
            "name": "planner",
            "kind": "agent",
            "x": -1 + step,
            "y": -0.5,
            "radius": 0.1,
            "velocity": [0.3, 0.0],
        },
        {
            "name": "executor",
            "kind": "agent",
            "x": 1.0,
            "y": 1 - step,
            "radius": 0.1,
            "velocity": [0.0, -0.3],
        },
        {"name": "scout", "kind": "agent", "x": 0.0, "y": 0.0, "radius": 0.1},
    ]
    things = [
        {"name": "north", "kind": "landmark", "x": 0.5, "y": 0.75, "radius": 0.15},
        {"name": "rock", "kind": "obstacle", "x": -0.5, "y": 0.5, "radius": 0.25},
    ]
    return {"kind": "plane", "bounds": [-1.5, -1.5, 1.5, 1.5], "entities": [*agents, *things]}


SIDES = {"hunters": ("hunter_0", "hunter_1", "hunter_2"), "prey": ("hare",)}
CHASE = [
    _plane(0)
    | {
        "entities": [
            {"name": name, "kind": "agent", "x": place / 2 - 1, "y": 0.5, "radius": 0.08}
            for place, name in enumerate([*SIDES["hunters"], *SIDES["prey"]])
        ]
        + [
            {"name": "hill", "kind": "landmark", "x": 0.5, "y": -0.5, "radius": 0.1},
            {"name": "rock", "kind": "obstacle", "x": -0.5, "y": -0.5, "radius": 0.2},
        ],
        "roles": SIDES,
    }
]
FIELD = [
    {
        "kind": "grid", "rows": 2, "columns": 3, "roles": SIDES,
        "cells": [[0, 0, "goal"], [0, 0, "hunter_0"], [0, 2, "hunter_1"], [0, 2, "hunter_2"], [1, 1, "hare"]],
    }
]  # fmt: skip
"""Two squares with one agent, one with two."""

LINES = [
    {"kind": "lines", "lines": [{"label": "problem", "text": "7 - 3", "state": ""}]},
    {
        "kind": "lines",
        "lines": [
            {"label": "problem", "text": "7 - 3", "state": ""},
            {"label": "tool", "text": "7 + 3 = 10", "state": "bad"},
            {
                "label": "program",
                "text": "left, right = map(int, input().split())\nprint(left - right)",
                "state": "",
            },
            {"label": "answer", "text": "4", "state": "good"},
        ],
    },
]
PLANE = [_plane(0), _plane(1)]


def _queens(*columns: int, attacked: tuple[int, ...] = ()) -> dict[str, Any]:
    cells = [[row, column, "attacked" if row in attacked else "queen"] for row, column in enumerate(columns)]
    return {"kind": "grid", "rows": len(columns), "columns": len(columns), "cells": cells}


QUEENS = [_queens(1, 3, 1, 2, attacked=(0, 2, 3)), _queens(1, 3, 0, 2)]


def _piles(*piles: list[str], placed: list[str]) -> dict[str, Any]:
    return {"kind": "piles", "piles": list(piles), "goal": [["c", "b", "a"], ["d"]], "placed": placed}


PILES = [
    _piles(["b", "a", "c"], ["d"], placed=["d"]),
    _piles(["b", "a"], ["c"], ["d"], placed=["c", "d"]),
]
