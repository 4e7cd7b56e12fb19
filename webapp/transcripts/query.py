"""The query language of transcripts: `planner.reward > 0 and executor.reward <= 0 and turns >= 3`.

The grammar is that of the runs table (webapp.common.query_language). A plain word is a fact of the episode. A word with a dot is a figure
of a role (`planner.reward`; `role.reward`: of any role), of a turn (`turn.reward`, `planner.turn.reward`) or of a turn's group of
candidates (`group.variance`). A figure with several values matches if any of them does. An episode without a field matches `!=` and `not`
only; so does a number that is not finite. A word without an operator is a flag, or is searched in the transcript.

Filters, such as those of the page's form, are comparisons of the same language.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from math import inf, isfinite
from typing import Any

from django.db.models import Exists, F, OuterRef, Q
from django.db.models.lookups import Exact, GreaterThan, GreaterThanOrEqual, LessThan, LessThanOrEqual
from lark import Token, v_args

from training_core.errors import ConfigError
from troupe_client.documents import transcripts as documents
from webapp.accounts.models import Project
from webapp.accounts.permissions import Person
from webapp.accounts.saved import SavedTexts
from webapp.common.query_language import (
    LOOKUPS,
    Compiler,
    FilterError,
    column_of,
    complete,
    condition_read,
    flag_check,
    json_fits,
    json_predicate,
    number_check,
    number_fits,
    text_check,
    unquoted,
)
from webapp.common.tones import role_tones
from webapp.runs.models import Run
from webapp.transcripts.models import Episode, EpisodeNote, SavedQuery
from webapp.transcripts.services import labels_of
from webapp.transcripts.words import terms, words_fit, words_hits

PARAMETER = "query"
RECENT = 500
"""Number of newest episodes whose values are suggested."""
KINDS = {"train": "training", "eval": "greedy evaluation", "eval_sampled": "sampled evaluation"}
OUTCOMES: dict[str, dict[str, bool]] = {
    "solved": {"success": True},
    "success": {"success": True},
    "unsolved": {"success": False, "failed": False},
    "error": {"failed": True},
    "failed": {"failed": True},
}
"""Outcome -> lookups; success and failed are other names of solved and error."""
FILTERS: dict[str, tuple[str, str]] = {
    **{name: (name, "=") for name in ("kind", "outcome", "iteration", "role", "truncated", "probe", "environment", "task", "label")},
    "failed": ("error", "="),
    **{f"{name}_min": (name, ">=") for name in ("iteration", "tokens", "turns")},
    **{f"{name}_max": (name, "<=") for name in ("iteration", "tokens", "turns")},
}  # fmt: skip
"""Filter -> field and operator of the query language."""
_TEXTS = {"kind": "kind", "task": "task", "title": "title", "environment": "environment", "name": "name"}
_NUMBERS = {"iteration": "iteration", "turns": "turn_count", "tokens": "tokens", "staleness": "staleness"}
_FLAGS = {"success": "success", "truncated": "truncated", "probe": "probe"}
_NOTES = {"label": "label", "note": "text"}
FIELDS: dict[str, str] = {
    "kind": "train, eval or eval_sampled",
    "outcome": "solved, unsolved or error; ~ searches its text",
    "success": "true or false",
    "iteration": "number",
    "return": "number",
    "turns": "number",
    "tokens": "number of response tokens",
    "text": "~ words in prompts and responses",
    "task": "text",
    "title": "text",
    "role": "name of a role that acts in it",
    "truncated": "true or false",
    "error": "true or false; ~ searches its text",
    "probe": "true or false",
    "staleness": "publications between the oldest token and the update",
    "duration": "seconds",
    "environment": "text",
    "label": "text",
    "note": "text",
    "name": "text",
}
"""Facts of an episode, and the type of their values."""
ROLE_FIELDS: dict[str, str] = {
    "reward": "number",
    "advantage": "number; mean over its executed answers",
    "version": "policy version",
    "turns": "number",
    "tokens": "number of response tokens",
    "truncated": "true or false",
}
"""Figures of a role."""
TURN_FIELDS: dict[str, dict[str, str]] = {
    "turn": {
        "reward": "number; of any turn",
        "advantage": "number; of any turn",
        "tokens": "number; of any turn",
        "truncated": "true or false",
    },
    "group": {
        "variance": "number; of the rewards of a turn's candidates",
        "mean": "number; of the rewards of a turn's candidates",
        "candidates": "number of a turn's candidates",
    },
}
"""Figures of turns, and of their groups of candidates."""
ANY = "role"
"""Stands for any role before a dot."""
_COMPARE: dict[str, Callable[[Any, float], Any]] = {
    "=": Exact, "<": LessThan, "<=": LessThanOrEqual, ">": GreaterThan, ">=": GreaterThanOrEqual,
}  # fmt: skip


def query_condition(run: Run, text: str, *, noted: bool = True) -> Q:
    """Return the condition of a query on the run's episodes. noted: whether labels and notes may be queried. Raises FilterError."""
    condition: Q = condition_read(text, _EpisodeCompiler(run, noted), PARAMETER) if text.strip() else Q()
    return condition


def filters_condition(run: Run, filters: Mapping[str, Any]) -> Q:
    """Return the condition of the filters of FILTERS, `policy` and `version`, `reward_min` and `reward_max` that are set."""
    compiler = _EpisodeCompiler(run, noted=True)
    filters = {name: value for name, value in filters.items() if value not in ("", None)}
    condition = Q()
    for name, (field, operator) in FILTERS.items():
        if name in filters:
            condition &= compiler.compare(Token("WORD", field), operator, filters[name])
    for name, operator in (("reward_min", ">="), ("reward_max", "<=")):
        if name in filters and "role" in filters:
            predicate = json_predicate(f"$.{json.dumps(filters['role'])}", operator, filters[name])
            condition &= Q(json_fits("rewards", predicate))
        elif name in filters:
            condition &= _return(Token("WORD", "return"), operator, filters[name])
    policy = json.dumps(filters["policy"]) if "policy" in filters else "*"
    if "version" in filters:
        condition &= Q(json_fits("versions", json_predicate(f"$.{policy}", "=", filters["version"])))
    elif "policy" in filters:
        condition &= Q(versions__has_key=filters["policy"])
    return condition


@v_args(inline=True)
class _EpisodeCompiler(Compiler):
    """Conditions on episodes of one run."""

    def __init__(self, run: Run, noted: bool) -> None:
        super().__init__()
        self._run, self._noted = run, noted

    def words(self, token: Token) -> Q:
        name = str(token)
        if token.type == "WORD" and (name in _FLAGS or name == "error" or name.endswith(".truncated")):
            return self.compare(token, "=", True)
        return self._text(token, unquoted(token))

    def compare(self, field: Token, operator: str, value: Any) -> Q:
        name = str(field)
        if "." in name:
            return self._dotted(field, operator, value)
        if name in _NUMBERS:
            return number_fits(field, _NUMBERS[name], operator, value)
        if name in _FLAGS:
            flag_check(field, operator, value)
            return Q(**{_FLAGS[name]: value})
        if name in _TEXTS:
            text_check(field, operator)
            _among(field, operator, value)
            return Q(**{f"{_TEXTS[name]}{LOOKUPS[operator]}": str(value)})
        if name in _NOTES:
            return self._note(field, operator, value)
        if name == "text":
            if operator != "~":
                raise FilterError("text is searched by ~, e.g. text ~ north", column_of(field))
            return self._text(field, str(value))
        if name in _OTHER:
            return _OTHER[name](field, operator, value)
        fields = ", ".join(FIELDS)
        raise FilterError(
            f"{name!r} is not a field: use {fields}, or a figure (planner.reward, turn.reward, group.variance)",
            column_of(field),
        )

    def _text(self, field: Token, asked: str) -> Q:
        if not any(wanted for wanted, _, _ in terms(asked)):
            raise FilterError("give a word to search for", column_of(field))
        phrase = f'"{asked}"' if " " in asked and '"' not in asked else asked
        return words_fit(self._run, phrase, words_hits(self._run, phrase))

    def _note(self, field: Token, operator: str, value: Any) -> Q:
        if not self._noted:
            raise FilterError(f"{field} is not visible through a share link", column_of(field))
        text_check(field, operator)
        lookup = {f"{_NOTES[str(field)]}{LOOKUPS[operator]}": str(value)}
        return Q(Exists(EpisodeNote.objects.filter(episode=OuterRef("pk"), **lookup)))

    def _dotted(self, field: Token, operator: str, value: Any) -> Q:
        owner, _, figure = str(field).rpartition(".")
        role, _, part = owner.rpartition(".")
        if part in TURN_FIELDS:
            _figure_check(field, figure, TURN_FIELDS[part])
            path = f'$[*]{_of_role(role)}."{figure}"'
            return _figure(field, "groups", path, figure, operator, value)
        _figure_check(field, figure, ROLE_FIELDS)
        if figure == "version":
            owner = self._policy(owner)
        name = "*" if owner == ANY else json.dumps(owner)
        column = {"reward": "rewards", "version": "versions"}.get(figure, "roles")
        path = f"$.{name}" if column != "roles" else f'$.{name}."{figure}"'
        return _figure(field, column, path, figure, operator, value)

    def _policy(self, role: str) -> str:
        """Return the role's policy; versions are stored by policy."""
        roles = self._run.config.get("team", {}).get("roles", {})
        return str(roles.get(role, {}).get("policy", role))


def _of_role(role: str) -> str:
    return f' ? (@."role" == {json.dumps(role)})' if role not in ("", ANY) else ""


def _figure_check(field: Token, figure: str, figures: dict[str, str]) -> None:
    if figure not in figures:
        owner = str(field).rpartition(".")[0]
        names = ", ".join(f"{owner}.{name}" for name in figures)
        raise FilterError(f"{str(field)!r} is not a field: use {names}", column_of(field))


def _figure(field: Token, column: str, path: str, figure: str, operator: str, value: Any) -> Q:
    if figure == "truncated":
        flag_check(field, operator, value)
    else:
        number_check(field, operator, value)
        if not isfinite(value):
            raise FilterError(f"{field} cannot be that large", column_of(field))
    return Q(json_fits(column, json_predicate(path, operator, value)))


def _among(field: Token, operator: str, value: Any) -> None:
    """Raise FilterError for a kind that episodes do not have."""
    if str(field) == "kind" and operator == "=" and value not in KINDS:
        raise FilterError(f"a kind is one of {', '.join(KINDS)}", column_of(field))


def _return(field: Token, operator: str, value: Any) -> Q:
    """NaN matches nothing, though PostgreSQL sorts it above infinity."""
    number_check(field, operator, value)
    finite = Q(episode_return__gt=-inf, episode_return__lt=inf)
    return finite & Q(**{f"episode_return{LOOKUPS[operator]}": float(value)})


def _duration(field: Token, operator: str, value: Any) -> Q:
    number_check(field, operator, value)
    return Q(_COMPARE[operator](F("ended") - F("started"), float(value)))


def _outcome(field: Token, operator: str, value: Any) -> Q:
    text_check(field, operator)
    if operator == "~":
        return Q(outcome__icontains=str(value))
    if value not in OUTCOMES:
        raise FilterError(
            "an outcome is solved, unsolved or error; outcome ~ text searches its text", column_of(field)
        )
    return Q(**OUTCOMES[value])


def _error(field: Token, operator: str, value: Any) -> Q:
    if operator == "~":
        return Q(error__icontains=str(value))
    if operator != "=" or not isinstance(value, bool):
        raise FilterError("compare error with true or false, or by ~ with text", column_of(field))
    return Q(failed=value)


def _role(field: Token, operator: str, value: Any) -> Q:
    if operator != "=":
        raise FilterError("compare a role with =, != or in", column_of(field))
    return Q(rewards__has_key=str(value))


_OTHER: dict[str, Callable[[Token, str, Any], Q]] = {
    "return": _return,
    "duration": _duration,
    "outcome": _outcome,
    "error": _error,
    "role": _role,
}


def query_complete(run: Run, text: str) -> documents.EpisodeQueryCompletion:
    """Return the completions of the text up to the caret."""
    completion = complete(text, lambda: _fields(run), lambda field: _values(run, field))
    return documents.EpisodeQueryCompletion.model_validate(completion)


def roles_of(run: Run) -> list[str]:
    """Return the roles of the config and of the newest episode."""
    return list(dict.fromkeys([*role_tones(run.config), *newest_of(run).get("rewards", {})]))


def newest_of(run: Run) -> dict[str, Any]:
    """Return id, rewards and versions of the run's newest episode; read once for a Run object."""
    if "_newest_episode" not in run.__dict__:
        rows = Episode.objects.of_run(run).order_by("-pk").values("pk", "rewards", "versions")
        run.__dict__["_newest_episode"] = dict(rows.first() or {})
    newest: dict[str, Any] = run.__dict__["_newest_episode"]
    return newest


def _fields(run: Run) -> Iterator[tuple[str, str]]:
    yield from FIELDS.items()
    roles = roles_of(run)
    for role in (*roles, ANY):
        yield from ((f"{role}.{name}", note) for name, note in ROLE_FIELDS.items())
    for part, fields in TURN_FIELDS.items():
        yield from ((f"{part}.{name}", note) for name, note in fields.items())
        yield from ((f"{role}.{part}.{name}", note) for role in roles for name, note in fields.items())


def _values(run: Run, field: str) -> list[str]:
    if field == "kind":
        return list(KINDS)
    if field == "outcome":
        return ["solved", "unsolved", "error"]
    if field == "role":
        return roles_of(run)
    if field == "label":
        return labels_of(run)
    if field in _FLAGS or field == "error" or field.endswith(".truncated"):
        return ["true", "false"]
    if field in _TEXTS:
        newest = Episode.objects.of_run(run).order_by("-pk").values_list(field, flat=True)[:RECENT]
        return sorted({value for value in newest if value})
    return []


SAVED = SavedTexts(SavedQuery, "query", "queries")
"""Names for texts of the query language, usable in all runs."""


def query_save(
    user: Person, name: str, query: str, project: Project | None = None, *, replace: bool = False
) -> SavedQuery:
    """Save a query of the user or of a project. Raises ConfigError (name, query), PermissionDenied."""
    if not query.strip():
        raise ConfigError({"query": "give a query"})
    query_condition(Run(config={}), query)
    return SAVED.save(user, name, query, project, replace=replace)


def query_document(saved: SavedQuery) -> documents.SavedQuery:
    """Return the document of a saved query."""
    return documents.SavedQuery(
        id=saved.pk, name=saved.name, project=saved.project and saved.project.slug, owner=saved.owner.username,
        query=saved.query, created_at=saved.created_at,
    )  # fmt: skip
