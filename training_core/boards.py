"""Boards: the state of an environment as a small picture, stored before each turn and drawn beside the transcript.

An environment answers `board()` with one of these as a dict; static/js/boards/registry.js names the drawing of each kind.
"""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

MOST_CELLS = 10_000
Place = Annotated[int, Field(ge=0)]
Side = Annotated[int, Field(ge=1, le=MOST_CELLS)]
Real = Annotated[float, Field(allow_inf_nan=False)]


Roles = dict[str, tuple[str, ...]]
"""Names of agents by role: they have the colour of their role, a shade each."""


class Part(BaseModel):
    """Base of boards and what is on them."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Grid(Part):
    """Squares with things on them: mazes, Sokoban, grid worlds. At most 10,000 squares are drawn."""

    kind: Literal["grid"]
    rows: Side
    columns: Side
    cells: list[tuple[Place, Place, str]]
    """[row, column, mark], rows from the top, columns from the left, from 0; several marks may share a square. `wall`, `agent`, `goal`
    and `box` have drawings of their own (a box on a goal is drawn as placed); another mark is drawn as a disc with its first two
    letters, in the role's colour where it is the name of a role, or with its number and its role's colour where it is one of `roles`'
    agents; those that share a square stand beside each other. The way of `agent` is drawn behind it. `queen` and `attacked` (a queen
    that is) are chess pieces.
    """
    roles: Roles = {}


class Sudoku(Part):
    """A square of digits with thick lines around its boxes. What changed since the board before is marked."""

    kind: Literal["sudoku"]
    size: Annotated[int, Field(ge=1, le=36)]
    """Digits, rows and columns: 4, 6, 9 …"""
    box: tuple[Side, Side]
    """[rows, columns] of a box: [3, 3] for 9, [2, 3] for 6."""
    cells: list[tuple[Place, Place, Annotated[int, Field(ge=1)], Literal["given", "filled", "wrong"]]]
    """[row, column, digit, state] of the squares that are not empty, from 0."""


class Entity(Part):
    """Something in a plane."""

    name: str
    """An agent has the colour of the role that bears its name, or whose agents (`roles`) it is one of."""
    kind: Literal["agent", "landmark", "obstacle"]
    """Landmarks and obstacles have no colour."""
    x: Real
    y: Real
    radius: Annotated[float, Field(gt=0, allow_inf_nan=False)]
    """In the plane's units."""
    velocity: tuple[Real, Real] | None = None
    """[x, y] per step; drawn as a line."""


class Plane(Part):
    """A continuous plane with agents and landmarks: multi-particle environments. The ways of agents are drawn behind them."""

    kind: Literal["plane"]
    bounds: tuple[Real, Real, Real, Real]
    """[least x, least y, most x, most y] of what is shown; y points up."""
    entities: list[Entity]
    roles: Roles = {}


class Piles(Part):
    """Blocks in piles on a table, and as small piles beside them those that are wanted."""

    kind: Literal["piles"]
    piles: list[list[str]]
    """Names of blocks from the table upwards, pile by pile."""
    goal: list[list[str]]
    """The same, as it should be."""
    placed: list[str]
    """Blocks that stand as they should."""


class Line(Part):
    """One thing that was asked, found or said."""

    label: Annotated[str, Field(max_length=40)]
    """What it is: problem, answer, a role's name …"""
    text: Annotated[str, Field(max_length=2000)]
    state: Literal["", "good", "bad"] = ""
    """Whether it was right, where that is known."""


class Lines(Part):
    """A task that is no picture, line by line: arithmetic, questions of a data set."""

    kind: Literal["lines"]
    lines: Annotated[list[Line], Field(max_length=200)]


Board = Annotated[Grid | Sudoku | Plane | Piles | Lines, Field(discriminator="kind")]
