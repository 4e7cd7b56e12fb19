"""The picture of a team: roles on the left in turn order, policies on the right, a line from each role to its policy."""

from dataclasses import dataclass
from typing import Any

from django.template.loader import render_to_string

from webapp.experiments.team import RoleForm, Speaker, TeamForm, team_words

WIDTH = 448
ROW, BOX = 60, 44
"""Height of a row, and of a box in it."""
ROLE_LEFT, ROLE_RIGHT = 40, 208
POLICY_LEFT, POLICY_RIGHT = 272, 446
BEND = 34
"""Maximum bend of turn arrows to the left."""
LONGEST = 20
"""Maximum characters of a name in a box."""


@dataclass(frozen=True)
class Box:
    """A role or a policy."""

    name: str
    whole: str
    under: str
    y: float
    """Position of its upper edge."""
    tone: int
    frozen: bool
    height: int = BOX

    @property
    def name_y(self) -> float:
        """Baseline of its name."""
        return self.y + 18

    @property
    def under_y(self) -> float:
        """Baseline of the line below."""
        return self.y + 34

    @property
    def middle(self) -> float:
        """Position of its vertical centre."""
        return self.y + BOX / 2


@dataclass(frozen=True)
class Connection:
    """A curve from one box to another."""

    path: str
    tone: int
    frozen: bool = False


def team_svg(team: TeamForm) -> str:
    """Return SVG that uses the page's colours inside a page, and its own colours elsewhere."""
    return render_to_string("experiments/_team.svg", picture(team))


def picture(team: TeamForm) -> dict[str, Any]:
    """Return boxes and lines with their coordinates, in the units of the drawing."""
    rows = max(len(team.members), len(team.speakers), 1)
    height = rows * ROW
    roles = [
        _role_box(role, y, takes_turns=team.takes_turns)
        for role, y in zip(team.members, _places(len(team.members), height), strict=True)
    ]
    policies = [
        _policy_box(speaker, y)
        for speaker, y in zip(team.speakers, _places(len(team.speakers), height), strict=True)
    ]
    return {
        "width": WIDTH,
        "height": height,
        "roles": roles,
        "policies": policies,
        "role_left": ROLE_LEFT,
        "role_width": ROLE_RIGHT - ROLE_LEFT,
        "policy_left": POLICY_LEFT,
        "policy_width": POLICY_RIGHT - POLICY_LEFT,
        "edges": _edges(team, roles, policies),
        "turns": _turns(team, roles),
        "words": team_words(team),
    }


def _places(count: int, height: float) -> list[float]:
    """Return the upper edges of `count` boxes, distributed over the height."""
    step = height / max(count, 1)
    return [step * index + (step - BOX) / 2 for index in range(count)]


def _role_box(role: RoleForm, y: float, *, takes_turns: bool) -> Box:
    under = f"speaks {', '.join(map(ordinal, role.speaks))}" if role.speaks else "never speaks"
    under = under if takes_turns else "acts in every step"
    under += "" if role.trained else " \N{MIDDLE DOT} frozen"
    return Box(_short(role.role), role.role, _short(under, 30), y, role.tone, not role.trained)


def _policy_box(speaker: Speaker, y: float) -> Box:
    state = "trained" if speaker.trained else "frozen" if speaker.roles else "unused"
    under = f"{_short(speaker.model.rstrip('/').rsplit('/', 1)[-1], 18)} \N{MIDDLE DOT} {state}"
    return Box(_short(speaker.policy), speaker.policy, under, y, speaker.tone, not speaker.trained)


def _edges(team: TeamForm, roles: list[Box], policies: list[Box]) -> list[Connection]:
    """Return lines from roles to policies; dashed for frozen roles."""
    places = {box.whole: box for box in policies}
    lines = []
    for role, box in zip(team.members, roles, strict=True):
        if role.policy in places:
            to, half = places[role.policy], (ROLE_RIGHT + POLICY_LEFT) / 2
            path = (
                f"M{ROLE_RIGHT} {box.middle:g}C{half:g} {box.middle:g} {half:g} {to.middle:g} "
                f"{POLICY_LEFT} {to.middle:g}"
            )
            lines.append(Connection(path, role.tone, not role.trained))
    return lines


def _turns(team: TeamForm, roles: list[Box]) -> list[Connection]:
    """Return arrows from each role to those that act after it; the numbers indicate the return to the first."""
    places = {box.whole: box for box in roles}
    pairs = [
        (one, other)
        for step, after in zip(team.steps, team.steps[1:], strict=False)
        for one in step
        for other in after
        if one != other
    ]
    arrows = []
    for one, other in pairs:
        start, end = places[one].middle, places[other].middle
        bend = ROLE_LEFT - min(BEND, 14 + abs(end - start) / 8)
        arrows.append(
            Connection(
                f"M{ROLE_LEFT} {start:g}C{bend:g} {start:g} {bend:g} {end:g} {ROLE_LEFT - 3} {end:g}", 0
            )
        )
    return arrows


def ordinal(number: int) -> str:
    """1st, 2nd, 3rd, 4th, 11th."""
    ending = "th" if number % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"


def _short(text: str, longest: int = LONGEST) -> str:
    return text if len(text) <= longest else text[: longest - 1] + "\N{HORIZONTAL ELLIPSIS}"
