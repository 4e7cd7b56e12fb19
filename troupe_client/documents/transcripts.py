"""Transcripts: episodes with their turns, tokens, notes and probes; queries on episodes, their table and their curve."""

from datetime import datetime
from typing import Annotated, Any, ClassVar, Literal, Required

from pydantic import (
    AfterValidator,
    BeforeValidator,
    ConfigDict,
    Field,
    FiniteFloat,
    model_validator,
)
from typing_extensions import TypedDict

from troupe_client.documents.base import Body, Document, omitted

Number = float | str | None
"""NaN and infinities are strings."""
Json = dict[str, Any]
OPEN = ConfigDict(extra="allow")
Kind = Literal["train", "eval", "eval_sampled"]
LONGEST_QUERY = 2000
RECENT = 10_000
"""Number of newest episodes that the quarters of the returns are of."""
QUARTER = f"Quarter of the returns of the newest {RECENT:,} stored episodes, 4 is the highest; for runs without success."
Outcome = Annotated[
    Literal["success", "unsolved", "error"],
    BeforeValidator(lambda value: "error" if value == "failed" else value),
]
"""failed is the earlier name of error."""
_Whole = Annotated[int, Field(ge=0, le=10**17), AfterValidator(lambda value: min(value, 2**31 - 1))] | None


class EpisodeFilters(Body):
    """Filters of episodes, as parameters of a URL."""

    model_config = ConfigDict(str_strip_whitespace=True)

    query: str = Field(
        "",
        max_length=LONGEST_QUERY,
        description="The query language, e.g. planner.reward > 0 and turns >= 3.",
    )
    q: str = Field(
        "",
        max_length=400,
        description='Words in prompts, responses, title, task, outcome; "a phrase", -without, begin*.',
    )
    kind: Kind | None = None
    outcome: Outcome | None = Field(None, description="error: the environment raised an error.")
    quarter: Literal["1", "2", "3", "4"] | None = Field(None, description=QUARTER)
    iteration: _Whole = Field(None, description="This iteration.")
    iteration_min: _Whole = Field(None, description="This iteration or later.")
    iteration_max: _Whole = Field(None, description="This iteration or earlier.")
    role: str = Field("", max_length=80, description="A reward range then applies to its own reward.")
    policy: str = Field("", max_length=80, description="A version then applies to it.")
    version: _Whole = Field(None, description="Some policy (or `policy`) had this version.")
    reward_min: FiniteFloat | None = Field(None, description="Minimum return, or reward of `role`.")
    reward_max: FiniteFloat | None = Field(None, description="Maximum return, or reward of `role`.")
    tokens_min: _Whole = Field(None, description="Minimum number of response tokens.")
    tokens_max: _Whole = Field(None, description="Maximum number of response tokens.")
    turns_min: _Whole = Field(None, description="Minimum number of turns.")
    turns_max: _Whole = Field(None, description="Maximum number of turns.")
    truncated: bool | None = Field(None, description="Whether a response was cut at its token limit.")
    failed: bool | None = Field(None, description="Whether the environment raised an error.")
    probe: bool | None = Field(None, description="Only probes, or no probes.")
    environment: str = Field("", max_length=80, description="Type of the environment.")
    task: str = Field("", max_length=200, description="Id of a task.")
    label: str = Field("", max_length=40, description="Label of the episode, or of a turn in it.")

    def values(self) -> dict[str, Any]:
        """Return the filters that are set, by name."""
        names = EpisodeFilters.model_fields
        return {name: value for name in names if (value := getattr(self, name)) not in ("", None)}


class Episode(Document):
    """Facts of an episode."""

    columns: ClassVar = {
        "id": "id", "episode": "name", "play": "kind", "task": "title", "outcome": "outcome", "turns": "turn_count",
        "tokens": "tokens", "return": "episode_return",
    }  # fmt: skip

    id: int
    run: str
    attempt: int
    name: str = Field(description="ATTEMPT-ITERATION-KIND-INDEX.")
    iteration: int
    kind: str = Field(description="train, eval or eval_sampled.")
    probe: bool
    task: str
    title: str
    outcome: str
    success: bool | None = Field(description="Null if the environment has no success.")
    failed: bool
    error: str
    truncated: bool
    episode_return: float = Field(description="NaN and infinities are strings.")
    rewards: Json = Field(description="By role.")
    versions: Json = Field(description="By policy.")
    turn_count: int
    tokens: int
    started: float = Field(description="Seconds since the epoch.")
    ended: float = Field(description="Seconds since the epoch.")
    environment: str
    roles: Json = Field(description="Figures by role.")
    staleness: int | None = Field(description="Publications between the oldest token and the update.")


class TranscriptCandidate(TypedDict, total=False):
    """A sampled answer with its tokens, and what the update computed for it: arrays with a value per token."""

    __pydantic_config__ = OPEN  # type: ignore[misc]
    text: Required[str]
    messages: list[Json]
    token_ids: Required[list[int]]
    tokens: Required[list[str]]
    logprobs: Required[list[Number]]
    versions: Required[list[int]]
    stop_reason: Required[str]
    local_reward: Required[Number]
    team_reward: Required[Number]
    reward: Required[Number]
    value: Number
    advantage: Number
    ratios: list[Number]
    entropies: list[Number]
    training_logprobs: list[Number]
    masks: list[int]


class TranscriptTurn(TypedDict):
    """The turn of an agent: its observation, its candidates, and the position of the executed one."""

    __pydantic_config__ = OPEN  # type: ignore[misc]
    index: int
    role: str
    policy: str
    messages: list[Json]
    prompt_ids: list[int]
    candidates: list[TranscriptCandidate]
    executed: int
    board: Json | None


class EpisodeTranscript(Episode):
    """An episode with its transcript, which is missing if only its facts are stored."""

    return_label: str
    turns: list[TranscriptTurn] | None = omitted("Prompts, candidates with their tokens, values of updates.")
    final_board: Json | None = None
    stages: Json | None = omitted("Times of the update.")


class EpisodeNote(Document):
    """A label, a note, or both."""

    columns: ClassVar = {"note": "id", "turn": "turn", "author": "author", "label": "label", "text": "text"}

    id: int
    episode: int
    turn: int | None = Field(description="Number of the turn, from 1; null: the whole episode.")
    label: str
    text: str
    author: str
    created_at: datetime


class NoteBody(Body):
    """A label, a note, or both."""

    model_config = ConfigDict(str_strip_whitespace=True)

    turn: int | None = Field(
        None, ge=1, lt=2**31, description="Number of the turn, from 1; none: the whole episode."
    )
    label: str = Field("", max_length=40)
    text: str = Field("", max_length=10_000)

    @model_validator(mode="after")
    def _something(self) -> "NoteBody":
        if not self.label and not self.text:
            raise ValueError("label: give a label, a note, or both")
        return self


class TreeCandidate(Document):
    """A candidate of a turn."""

    reward: Number
    value: Number = Field(
        description="Reward and mean return of continuations, if candidates are compared by it."
    )
    advantage: Number
    tokens: int
    equals: int = Field(description="Index of the first candidate with the same text, reward and value.")


class TreeTurn(Document):
    """A turn and its candidates."""

    number: int = Field(description="From 1.")
    turn: int = Field(description="Number of the team's turn, from 1.")
    role: str
    policy: str
    executed: int | None = Field(description="Index of the executed candidate.")
    zero_variance: bool = Field(description="Whether all rewards are equal.")
    candidates: list[TreeCandidate]


class EpisodeTree(Document):
    """Turns of an episode."""

    count: int = Field(description="Number of all turns.")
    turns: list[TreeTurn]


class GroupCandidate(TreeCandidate):
    """A candidate with its text."""

    text: str
    local_reward: Number
    team_reward: Number
    logprob: Number = Field(description="Sum over its tokens, nats.")
    stop_reason: str
    versions: list[int]


class EpisodeGroup(TreeTurn):
    """The candidates of a turn."""

    messages: list[Json] = Field(description="The prompt.")
    prompt_tokens: int
    mean: Number = Field(description="Of the rewards.")
    std: Number = Field(description="Of the rewards, unbiased.")
    candidates: list[GroupCandidate]  # type: ignore[assignment]


class AnswerTokens(Document):
    """Tokens of a response, and the recorded values of each."""

    turn: int
    candidate: int = Field(description="Index, from 0.")
    executed: int
    count: int = Field(description="Number of all its tokens.")
    from_: int = Field(alias="from", description="Index of the first token, from 0.")
    advantage: Number
    prompt_ids: list[int]
    tokens: list[str] | None = omitted("Texts.")
    token_ids: list[int] | None = omitted()
    logprobs: list[Number] | None = omitted("Of the sampling distribution.")
    versions: list[int] | None = omitted()
    ratios: list[Number] | None = omitted()
    entropies: list[Number] | None = omitted("Nats.")
    training_logprobs: list[Number] | None = omitted("The learner's.")
    mismatch: list[Number] | None = omitted("The learner's minus the sampler's, nats.")
    masks: list[int] | None = omitted("1: in the loss.")


class EpisodeBoards(Document):
    """Boards of an episode, for replay."""

    count: int = Field(description="Number of all turns.")
    boards: list[Json | None] = Field(description="The state before each turn.")
    final_board: Json | None = Field(description="After the last turn, if it is in the range.")


class ProbeAnswer(Document):
    """An executed response."""

    role: str
    text: str


class ProbePlay(Document):
    """An episode of a task at one evaluation."""

    id: int
    iteration: int
    outcome: str
    success: bool | None
    failed: bool
    return_: float = Field(alias="return")
    said: list[ProbeAnswer]


class Probe(Document):
    """A task at every evaluation."""

    task: str
    title: str
    plays: list[ProbePlay]


class Probes(Document):
    """Tasks of evaluations."""

    more: bool = Field(description="Whether there are further pages.")
    results: list[Probe]


class TextPart(Document):
    """Part of two compared texts."""

    op: Literal["equal", "delete", "insert"] = Field(
        description="delete: only in the first text, insert: only in the second one."
    )
    text: str


class TurnDifference(Document):
    """The difference between two turns."""

    number: int
    role: str
    same: bool
    saw: list[TextPart]
    said: list[TextPart]


class EpisodeDifference(Document):
    """The differences between two episodes, turn by turn."""

    turns: list[TurnDifference]


class EpisodeQueryOption(Document):
    """A completion."""

    text: str
    note: str


class EpisodeQueryCompletion(Document):
    """Completions of a query."""

    start: int = Field(description="An option replaces the text from here on.")
    options: list[EpisodeQueryOption]


class EpisodeCounts(Document):
    """Numbers of stored episodes. They are samples: most training episodes are played without being stored."""

    kept: int = Field(description="Stored episodes.")
    matching: int | None = Field(
        description="Those that match the filters, up to a limit; null without filters."
    )
    more: bool = Field(description="Whether others match, or are not examined.")
    train: int = Field(description="Stored training episodes.")
    played: int | None = Field(description="Training episodes played; null if not reported.")
    evaluation: int = Field(description="Stored episodes of evaluations.")
    per_iteration: int | None = Field(description="Training episodes stored for each iteration.")


class SharePoint(Document):
    """The share of the matching episodes in a range of iterations, with its Wilson interval (95 %)."""

    first: int
    last: int
    matching: int
    of: int
    share: float
    low: float
    high: float
    address: str = Field(description="Path of the page with the matching episodes.")


class ShareCurve(Document):
    """Shares of the episodes of one kind."""

    kind: str
    label: str
    points: list[SharePoint]


class EpisodeCurve(Document):
    """The share of stored episodes, not of all played, that match a query."""

    query: str
    base: str
    width: int = Field(description="Iterations per point.")
    matching: int
    of: int
    kinds: list[ShareCurve]


class CountedEpisodeCurve(EpisodeCurve):
    """A curve with the numbers of stored episodes."""

    counts: EpisodeCounts


class EpisodeRow(Document):
    """A row of the table: id, name, and the value of each column by its word."""

    model_config = ConfigDict(extra="allow")

    id: int
    name: str


class SavedQuery(Document):
    """A named query."""

    id: int
    name: str
    project: str | None = Field(description="Slug of the project; null: only its owner sees it.")
    owner: str
    query: str
    created_at: datetime


class SavedQueryDeleted(SavedQuery):
    """A deleted query."""

    deleted: bool = True


class SavedQueryBody(Body):
    """A query to save."""

    name: str
    query: str
    project: str | None = Field(None, description="Slug; without a project it belongs to the caller.")
    replace: bool = Field(False, description="Replace the query with this name.")
