"""The grammar of a request's answers: a JSON schema that they must satisfy, tools that they must call."""

from collections.abc import Mapping
from typing import Any, Protocol

from training_core.errors import RequestRefused
from training_core.llm.agents.messages import shorten
from training_core.llm.agents.session import PolicyClient
from training_core.llm.agents.tool_calls import offered_functions
from training_core.llm.generation.grammars import check_grammar, json_grammar, tool_grammar

ANY_OBJECT = {"type": "object"}


class Constraining(Protocol):
    """A request of any dialect, as far as it states a grammar; see `Asked`."""

    @property
    def answer_schema(self) -> Mapping[str, Any] | None: ...

    @property
    def forced_tool(self) -> str | None: ...

    @property
    def offered(self) -> list[dict[str, Any]] | None: ...

    @property
    def continues(self) -> bool: ...


def request_grammar(request: Constraining, client: PolicyClient) -> str:
    """The grammar of the answers; empty if the request states none, or if the policy cannot sample under it: the fields are then
    among the ignored ones. Raises RequestRefused for an unknown tool, and for a schema that is none.
    """
    schema, forced = request.answer_schema, request.forced_tool
    if (schema is None and forced is None) or request.continues or not client.samples_grammars:
        return ""
    grammar = _grammar(schema, forced, offered_functions(request.offered or []))
    check_grammar(grammar)
    return grammar


def _grammar(
    schema: Mapping[str, Any] | None, forced: str | None, functions: Mapping[str, Mapping[str, Any]]
) -> str:
    if forced is None and schema is not None:
        return tool_grammar(functions, schema) if functions else json_grammar(schema)
    if not functions or (forced and forced not in functions):
        name = shorten(forced) if forced else "a tool"
        raise RequestRefused(
            f"tool_choice asks for {name}, which is not offered; offered are: {', '.join(functions) or 'none'}"
        )
    return tool_grammar({forced: functions[forced]} if forced else functions)


def schema_of(form: Any) -> Mapping[str, Any] | None:
    """The JSON schema of an answer's format in OpenAI's and Anthropic's APIs; None if any text will do. Raises RequestRefused."""
    if not isinstance(form, Mapping) or form.get("type") not in ("json_schema", "json_object"):
        return None
    if form["type"] == "json_object":
        return ANY_OBJECT
    inner = form.get("json_schema", form)
    schema = inner.get("schema") if isinstance(inner, Mapping) else None
    if not isinstance(schema, Mapping):
        raise RequestRefused("the format json_schema has no `schema`")
    return schema


def forced_tool_of(choice: Any) -> str | None:
    """The tool that a tool_choice of any API asks for; empty: any of those offered. None if the policy chooses."""
    if choice == "required":
        return ""
    if not isinstance(choice, Mapping):
        return None
    if choice.get("type") == "any":
        return ""
    if choice.get("type") in ("function", "tool"):
        function = choice.get("function", choice)
        return str(function.get("name") or "") if isinstance(function, Mapping) else ""
    return None
