"""Boards: the state of an environment as a small picture, stored before each turn and drawn next to the transcript.

An environment's `board()` returns one of these as a dict; static/js/boards/registry.js maps each kind to its drawing.
"""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

MOST_CELLS = 10_000
Index = Annotated[int, Field(ge=0)]
Length = Annotated[int, Field(ge=1, le=MOST_CELLS)]
Real = Annotated[float, Field(allow_inf_nan=False)]


Roles = dict[str, tuple[str, ...]]
"""Names of agents by role: each is drawn in a shade of its role's colour."""


class BoardPart(BaseModel):
    """Base of boards and their elements."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Grid(BoardPart):
    """A grid of squares with marks: mazes, Sokoban, grid worlds. At most 10,000 squares are drawn."""

    kind: Literal["grid"]
    rows: Length
    columns: Length
    cells: list[tuple[Index, Index, str]]
    """[row, column, mark], rows from the top, columns from the left, from 0; several marks may share a square.
    `wall`, `agent`, `goal` and `box` have their own drawings (a box on a goal is drawn as placed). Another mark is
    drawn as a disc with its first two letters, in the role's colour if it is the name of a role, or with its number
    and its role's colour if it is one of `roles`' agents; marks on the same square are drawn side by side. The path
    of `agent` is drawn behind it. `queen` and `attacked` (an attacked queen) are chess pieces.
    """
    roles: Roles = {}


class Sudoku(BoardPart):
    """A square of digits with thick lines around its boxes. Changes since the previous board are marked."""

    kind: Literal["sudoku"]
    size: Annotated[int, Field(ge=1, le=36)]
    """Digits, rows and columns: 4, 6, 9 …"""
    box: tuple[Length, Length]
    """[rows, columns] of a box: [3, 3] for 9, [2, 3] for 6."""
    cells: list[tuple[Index, Index, Annotated[int, Field(ge=1)], Literal["given", "filled", "wrong"]]]
    """[row, column, digit, state] of the squares that are not empty, from 0."""


class Entity(BoardPart):
    """An object in a plane."""

    name: str
    """An agent has the colour of the role with its name, or of the role that contains it in `roles`."""
    kind: Literal["agent", "landmark", "obstacle"]
    """Landmarks and obstacles have no colour."""
    x: Real
    y: Real
    radius: Annotated[float, Field(gt=0, allow_inf_nan=False)]
    """In units of the plane."""
    velocity: tuple[Real, Real] | None = None
    """[x, y] per step; drawn as a line."""


class Plane(BoardPart):
    """A continuous plane with agents and landmarks: multi-particle environments. The paths of agents are drawn behind them."""

    kind: Literal["plane"]
    bounds: tuple[Real, Real, Real, Real]
    """Visible area [least x, least y, most x, most y]; y points up."""
    entities: list[Entity]
    roles: Roles = {}


class Piles(BoardPart):
    """Blocks in piles on a table, with the goal as small piles next to them."""

    kind: Literal["piles"]
    piles: list[list[str]]
    """Names of blocks from the table upwards, pile by pile."""
    goal: list[list[str]]
    """The goal, in the same form."""
    placed: list[str]
    """Blocks in their goal position."""


class TextLine(BoardPart):
    """One line: a question, a result or a message."""

    label: Annotated[str, Field(max_length=40)]
    """Label of the line: problem, answer, a role's name … …"""
    text: Annotated[str, Field(max_length=2000)]
    state: Literal["", "good", "bad"] = ""
    """Whether it is correct, if known."""


class Lines(BoardPart):
    """A task without a picture, line by line: arithmetic, questions of a data set."""

    kind: Literal["lines"]
    lines: Annotated[list[TextLine], Field(max_length=200)]


Board = Annotated[Grid | Sudoku | Plane | Piles | Lines, Field(discriminator="kind")]
