"""team.roles.*.examples: few-shot examples between the system prompt and what a role sees."""

import pytest

from training_core.config.files import parse_config
from training_core.config.team import Role
from training_core.errors import ConfigError
from training_core.llm.environments.host import SlotView
from training_core.llm.workflows.context import chat_messages
from training_core.types import Message

EXAMPLES = ("What is 1 + 1?", "2", "What is 2 + 1?", "3")
SHOWN = [
    {"role": "user", "content": "What is 1 + 1?"},
    {"role": "assistant", "content": "2"},
    {"role": "user", "content": "What is 2 + 1?"},
    {"role": "assistant", "content": "3"},
]


def view(*messages: Message) -> SlotView:
    return SlotView(observation="What is 4 + 3?", messages=messages)


def test_examples_stand_after_the_system_prompt_as_turns_of_a_conversation() -> None:
    asked = {"role": "user", "content": "What is 4 + 3?"}
    system = {"role": "system", "content": "Add up."}
    assert chat_messages(Role(policy="p"), view()) == [asked]
    assert chat_messages(Role(policy="p", examples=EXAMPLES), view()) == [*SHOWN, asked]
    assert chat_messages(Role(policy="p", prompt="Add up.", examples=EXAMPLES), view()) == [
        system,
        *SHOWN,
        asked,
    ]


def test_the_environments_own_system_prompt_stays_first() -> None:
    own: list[Message] = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "And 5?"}]
    assert chat_messages(Role(policy="p", examples=EXAMPLES), view(*own)) == [own[0], *SHOWN, own[1]]
    assert chat_messages(Role(policy="p"), view(*own)) == own


def test_every_example_has_an_answer() -> None:
    roles = {
        name: {"policy": "a", "examples": ["What is 1 + 1?", "2", "What is 2 + 1?"]}
        for name in ("planner", "executor")
    }
    with pytest.raises(ConfigError, match="has 3 entries; give pairs"):
        parse_config({"team": {"roles": roles}, "policies": {"a": {}}, "environment": {"type": "plan_path"}})
