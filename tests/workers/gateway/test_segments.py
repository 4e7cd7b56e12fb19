"""History that comes back as text finds its ids again; where it does not, a new segment starts."""

from typing import Any

import httpx
import openai
import pytest
from openai import OpenAI

from tests.workers.gateway.playing import TOKENIZER, Recorded, Scripted, make_engine, make_session
from training_core.llm.agents.session import Session, write_episode
from training_core.llm.generation.torch_engine import TorchEngine
from training_core.types import NOT_SAMPLED, Answer
from workers.gateway.gateway import Gateway

EOS = TOKENIZER.eos_token_id
ASK: list[Any] = [{"role": "user", "content": "What is the weather?"}]
CLOSED = {"closed": True, "failed": False, "error": ""}


def ids(text: str) -> list[int]:
    return list(TOKENIZER(text, add_special_tokens=False)["input_ids"])


def talk(gateway: Gateway, session: Session) -> Any:
    """Ask with a history; returns the answer as a message."""
    agent = OpenAI(base_url=gateway.open(session), api_key="any", max_retries=0)

    def ask(messages: list[Any], **more: Any) -> dict[str, Any]:
        made = agent.chat.completions.create(model="solver", messages=messages, **more)
        return made.choices[0].message.model_dump()

    return ask


def test_the_next_prompt_is_stored_ids_and_new_tokens_exactly(gateway: Gateway, engine: TorchEngine) -> None:
    """With a random model, whose answers as text would be cut into other tokens."""
    said = Recorded(engine)
    session = make_session(said)
    ask = talk(gateway, session)
    history = [*ASK]
    expected: list[int] = TOKENIZER.apply_chat_template(ASK, add_generation_prompt=True, tokenize=True)[
        "input_ids"
    ]
    for question in ("three?", "four?", "five?"):
        history.append(ask(history))
        (answer,) = said.calls[-1][2][0]
        assert said.calls[-1][0][0].token_ids == expected
        history.append({"role": "user", "content": question})
        end = "\n" if answer.token_ids[-1] == EOS else "<|im_end|>\n"
        expected = (
            expected
            + answer.token_ids
            + ids(f"{end}<|im_start|>user\n{question}<|im_end|>\n<|im_start|>assistant\n")
        )
    rendered = TOKENIZER.apply_chat_template(history, add_generation_prompt=True, tokenize=True)["input_ids"]
    assert rendered != expected, "the texts alone would have given other ids, or this test shows nothing"
    before = said.calls[-1][0][0].token_ids
    assert engine.conversations.reused > len(before) / 2, "a call goes on from what the last one computed"
    session.reward({"reward": 1.0})
    session.close()
    (turn,) = write_episode(session, 1.0).turns
    check_sequence(
        turn.prompt_ids, turn.candidates[0].answer, [answers[0][0] for _, _, answers in said.calls]
    )


def check_sequence(prompt: list[int], answer: Answer, said: list[Answer]) -> None:
    """Trained tokens are the sampled ones, in order, with logprobs and versions; the rest is marked as not sampled."""
    assert answer.loss_mask is not None
    places = [place for place, learnt in enumerate(answer.loss_mask) if learnt]
    assert [answer.token_ids[place] for place in places] == sum((one.token_ids for one in said), [])
    assert [answer.logprobs[place] for place in places] == sum((one.logprobs for one in said), [])
    assert [answer.versions[place] for place in places] == sum((one.versions for one in said), [])
    others = set(range(len(answer.token_ids))) - set(places)
    assert others and all(answer.versions[place] == NOT_SAMPLED for place in others)
    assert all(answer.logprobs[place] == 0.0 for place in others)


def test_an_edited_history_starts_a_new_segment(gateway: Gateway) -> None:
    session = make_session(Scripted("one", "two", "three"))
    ask = talk(gateway, session)
    first = ask(ASK)
    ask([*ASK, first, {"role": "user", "content": "more"}])
    ask([*ASK, {"role": "assistant", "content": "another"}, {"role": "user", "content": "more"}])
    session.reward({"reward": 0.25})
    session.close()
    episode = write_episode(session, 1.0)
    assert [turn.candidates[0].answer.text for turn in episode.turns][1] == "three"
    one, two, more = (
        ids("one"),
        ids("two"),
        ids("\n<|im_start|>user\nmore<|im_end|>\n<|im_start|>assistant\n"),
    )
    joined = episode.turns[0].candidates[0].answer
    assert joined.token_ids == [*one, EOS, *more, *two, EOS]
    assert joined.loss_mask == [True] * (len(one) + 1) + [False] * len(more) + [True] * (len(two) + 1)
    assert joined.versions == [3] * (len(one) + 1) + [NOT_SAMPLED] * len(more) + [3] * (len(two) + 1)
    assert episode.turns[1].prompt_ids == ids(
        "<|im_start|>system\nYou are helpful.<|im_end|>\n<|im_start|>user\nWhat is the weather?<|im_end|>\n"
        "<|im_start|>assistant\nanother<|im_end|>\n<|im_start|>user\nmore<|im_end|>\n<|im_start|>assistant\n"
    )
    assert episode.turns[1].candidates[0].answer.loss_mask is None
    assert [turn.candidates[0].reward for turn in episode.turns] == [0.0, 0.25]
    assert (episode.role_return("solver"), episode.success) == (0.25, False)


def test_branches_share_ids_and_each_answer_is_trained_on_once(gateway: Gateway) -> None:
    session = make_session(Scripted("one", "left", "right"))
    ask = talk(gateway, session)
    first = ask(ASK)
    for way in ("left?", "right?"):
        ask([*ASK, first, {"role": "user", "content": way}])
    session.reward({"reward": 1.0})
    episode = write_episode(session, 1.0)
    left, right = (turn.candidates[0].answer for turn in episode.turns)
    shared = len(ids("one")) + 1
    assert left.token_ids[:shared] == right.token_ids[:shared]
    assert left.learnt(left.token_ids) == [*ids("one"), EOS, *ids("left"), EOS]
    assert right.learnt(right.token_ids) == [*ids("right"), EOS]


def test_one_of_several_choices_can_be_continued(gateway: Gateway) -> None:
    session = make_session(Scripted("one", "two", "three"))
    agent = OpenAI(base_url=gateway.open(session), api_key="any", max_retries=0)
    made = agent.chat.completions.create(model="solver", messages=ASK, n=2)
    history: list[Any] = [*ASK, made.choices[1].message.model_dump(), {"role": "user", "content": "more"}]
    last = agent.chat.completions.create(model="solver", messages=history)
    session.reward({"rewards": {made.id: 0.5, last.id: 0.25}})
    session.close()
    episode = write_episode(session, 0.75)
    learnt = [turn.candidates[0].answer.learnt(turn.candidates[0].answer.token_ids) for turn in episode.turns]
    assert learnt == [[], [*ids("two"), EOS, *ids("three"), EOS]], "the other choice is unused"
    assert [turn.candidates[0].reward for turn in episode.turns] == [0.0, 0.75]
    assert episode.success and episode.outcome == "reward 0.75"


def test_continue_final_message_continues_the_token_ids(gateway: Gateway) -> None:
    """A cut answer is continued from its ids; a start that the agent wrote itself is not trained on."""
    policy = Scripted("three plus", " four", " is seven", ends=False)
    session = make_session(policy)
    ask = talk(gateway, session)
    first = ask(ASK)
    open_answer = {"continue_final_message": True, "add_generation_prompt": False}
    second = ask([*ASK, first], extra_body=open_answer)
    assert policy.prompts[1].token_ids == policy.prompts[0].token_ids + ids("three plus")
    whole = {"role": "assistant", "content": first["content"] + second["content"]}
    ask([*ASK, whole], extra_body=open_answer)
    assert policy.prompts[2].token_ids == policy.prompts[1].token_ids + ids(" four")
    session.reward({"reward": 1.0})
    (turn,) = write_episode(session, 1.0).turns
    assert turn.candidates[0].answer.token_ids == ids("three plus") + ids(" four") + ids(" is seven")
    assert turn.candidates[0].answer.loss_mask is None

    policy = Scripted("seven")
    session = make_session(policy)
    talk(gateway, session)([*ASK, {"role": "assistant", "content": "It is"}], extra_body=open_answer)
    assert TOKENIZER.decode(policy.prompts[0].token_ids).endswith("<|im_start|>assistant\nIt is")


def test_slightly_rewritten_histories_still_match(gateway: Gateway) -> None:
    """Content as parts, None for empty, other ids of tool calls, arguments spelt otherwise, space around the text."""
    call = '<tool_call>\n{"name": "add", "arguments": {"a": 3, "b": 4}}\n</tool_call>'
    policy = Scripted("It is", call, "done")
    session = make_session(policy)
    ask = talk(gateway, session)
    tools = [{"type": "function", "function": {"name": "add"}}]
    ask([{"role": "user", "content": [{"type": "text", "text": "hello"}]}], tools=tools)
    history: list[Any] = [{"role": "user", "content": "hello"}, {"role": "assistant", "content": " It is "}]
    ask([*history, {"role": "user", "content": "go"}], tools=tools)
    function = {"name": "add", "arguments": '{"b":4,"a":3}'}
    made = {
        "role": "assistant",
        "content": "",
        "tool_calls": [{"id": "own", "type": "function", "function": function}],
    }
    history += [
        {"role": "user", "content": "go"},
        made,
        {"role": "tool", "tool_call_id": "own", "content": "7"},
    ]
    ask(history, tools=tools)
    session.reward({"reward": 1})
    (turn,) = write_episode(session, 1.0).turns
    answer = turn.candidates[0].answer
    assert answer.learnt(answer.token_ids) == [*ids("It is"), EOS, *ids(call), EOS, *ids("done"), EOS]


def test_other_tools_start_a_new_segment(gateway: Gateway) -> None:
    session = make_session(Scripted("one", "two"))
    ask = talk(gateway, session)
    first = ask(ASK, tools=[{"type": "function", "function": {"name": "add"}}])
    ask([*ASK, first, {"role": "user", "content": "more"}])
    session.reward({"reward": 1.0})
    assert len(write_episode(session, 1.0).turns) == 2


def test_rewards_by_role_call_and_total(gateway: Gateway) -> None:
    """Every role that spoke earns the total; a role's own and its calls' rewards are added."""
    session = make_session(Scripted("one", "two", "three"), roles=("solver", "critic"))
    agent = OpenAI(base_url=gateway.open(session), api_key="any", max_retries=0)
    first = agent.chat.completions.create(model="solver", messages=ASK)
    agent.chat.completions.create(model="critic", messages=ASK)
    agent.chat.completions.create(model="solver", messages=[{"role": "user", "content": "again"}])
    address = f"{gateway.url}/episodes/{session.key}"
    assert httpx.post(f"{address}/reward", json={"reward": 9}, timeout=60).status_code == 200
    given = {"reward": 1.0, "rewards": {first.id: 0.25, "critic": -0.5}, "success": True, "outcome": "well"}
    assert httpx.post(f"{address}/reward", json=given, timeout=60).status_code == 200
    assert httpx.post(f"{address}/close", timeout=60).json() == CLOSED
    with pytest.raises(openai.ConflictError, match="closed"):
        agent.chat.completions.create(model="solver", messages=ASK)
    assert httpx.post(f"{address}/reward", json=given, timeout=60).status_code == 409
    episode = write_episode(session, 100.0)
    assert [(turn.role, turn.candidates[0].reward) for turn in episode.turns] == [
        ("solver", 0.25),
        ("critic", 0.5),
        ("solver", 1.0),
    ]
    assert (episode.role_return("solver"), episode.role_return("critic")) == (1.25, 0.5)
    assert (episode.success, episode.outcome, episode.failed) == (True, "well", False)
    session.spec.episode.turns.clear()
    weighed = write_episode(session, 100.0, (2.0, 3.0)).turns
    assert [turn.candidates[0].reward for turn in weighed] == [0.75, 1.0, 2.0]


@pytest.mark.parametrize("given", [{"reward": "much"}, {"reward": float("inf")}, {"rewards": {"nobody": 1}}])
def test_invalid_rewards_are_refused(gateway: Gateway, given: dict[str, Any]) -> None:
    session = make_session(Scripted())
    gateway.open(session)
    with pytest.raises(Exception, match="reward"):
        session.reward(given)
    assert not session.outcome.rewarded


def test_failed_episodes_are_reported(gateway: Gateway) -> None:
    for error in ("it broke", ""):
        session = make_session(Scripted("one"))
        talk(gateway, session)(ASK)
        httpx.post(f"{gateway.url}/episodes/{session.key}/close", json={"error": error}, timeout=60)
        episode = write_episode(session, 1.0)
        assert episode.failed and not episode.success
        assert episode.error == (error or "the agent ended without a reward")


@pytest.mark.parametrize("manner", ["resume", "abort"])
def test_new_weights_in_the_middle_of_an_answer(gateway: Gateway, manner: str) -> None:
    """The engine is interrupted after three tokens and continues with other weights, or ends with "abort"."""
    engine, newer = make_engine(), make_engine(seed=1)
    newer.version = 1
    calls: list[Any] = []

    def generate(prompts: Any, settings: Any) -> list[list[Answer]]:
        calls.append(prompts)
        if len(calls) > 1:
            return newer.generate(prompts, settings)
        steps = iter([False] * 3 + [True] * 100)
        return engine.generate(prompts, settings, lambda: next(steps))

    session = make_session(generate)
    agent = OpenAI(base_url=gateway.open(session), api_key="any", max_retries=0)
    choice = agent.chat.completions.create(
        model="solver", messages=ASK, extra_body={"on_update": manner, "return_token_ids": True}
    ).choices[0]
    ((_, call),) = session.calls()
    (answer,) = call.answers
    before = [version for version in answer.versions if version == 0]
    assert answer.token_ids == choice.token_ids  # type: ignore[attr-defined]
    assert 0 < len(before) < 12
    if manner == "abort":
        assert (choice.finish_reason, answer.stop_reason) == ("abort", "interrupt")
        assert answer.versions == before
    else:
        assert choice.finish_reason in ("stop", "length") and answer.stop_reason != "interrupt"
        assert answer.versions == before + [1] * (len(answer.versions) - len(before))
        assert calls[1][0].token_ids == call.prompt_ids + answer.token_ids[: len(before)]
        assert len(calls) == 2 and len(answer.versions) > len(before)
