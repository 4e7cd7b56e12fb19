"""Episodes by hand: what workflows ask is answered in batches, the bound on staleness admits, interruption is invisible."""

import asyncio
import pickle
import threading
from typing import Any

import pytest
import torch

from tests.training_core.llm.rollout_workflows.seed_agents import Trajectory
from tests.training_core.llm.scripted import ScriptedEngine
from tests.training_core.llm.toys import TOKENIZER, make_model, naive_logprobs
from training_core.errors import ConfigError, EngineFailure, EnvironmentFailure
from training_core.llm.generation.base import SamplingSettings
from training_core.llm.generation.torch_engine import TorchEngine
from training_core.llm.rollout_workflows.api import (
    EpisodeResult,
    GenerationHyperparameters,
    Interaction,
    ModelRequest,
    RolloutWorkflow,
    workflow_tokenizer,
)
from training_core.llm.rollout_workflows.inference_engine import (
    InferenceEngine,
    RestartingLoader,
    RolloutLimits,
)
from training_core.types import Answer, Prompt


def test_a_loader_begins_again_and_goes_on_where_it_was() -> None:
    loader = RestartingLoader(list(range(5)), 3, seed=1)
    seen = [next(loader) for _ in range(5)]
    flat = [row for batch in seen for row in batch]
    assert [sorted(flat[start : start + 5]) for start in (0, 5, 10)] == [list(range(5))] * 3
    assert flat[:5] != flat[5:10], "shuffled anew"
    assert loader.epoch == 3
    other = RestartingLoader(list(range(5)), 3, seed=1)
    next(other)
    third = RestartingLoader(list(range(5)), 3, seed=1)
    third.load_state_dict(other.state_dict())
    assert [next(third), next(third)] == seen[1:3]
    with pytest.raises(ValueError, match="no rows"):
        RestartingLoader([], 1)


SETTINGS = GenerationHyperparameters(max_new_tokens=6)


class TwoTurns(RolloutWorkflow):
    """Two calls, the second of which goes on from the first; the seed's way to collect them."""

    async def arun_episode(self, engine: InferenceEngine, data: dict[str, Any]) -> EpisodeResult:
        talk, asked = Trajectory(), data["input_ids"]
        for _ in range(2):
            talk.add(await engine.agenerate(ModelRequest(input_ids=asked, gconfig=SETTINGS)))
            asked = [*talk.ids, 7]
        return talk.tensors(float(data.get("reward", 1.0)))


class Picky(TwoTurns):
    """Rejects what the data says, and raises where the data says so."""

    async def arun_episode(self, engine: InferenceEngine, data: dict[str, Any]) -> EpisodeResult:
        if data.get("raise"):
            raise RuntimeError("the tool is down")
        return None if data.get("reject") else await super().arun_episode(engine, data)


def engine_of(**limits: Any) -> InferenceEngine:
    return InferenceEngine(TorchEngine(make_model(), TOKENIZER), RolloutLimits(**limits))


ROWS = [{"input_ids": [6, 7, 8 + number], "reward": float(number)} for number in range(5)]


def test_a_batch_has_the_models_own_logprobs_and_is_padded() -> None:
    with engine_of() as engine:
        batch = engine.rollout_batch(ROWS, TwoTurns())
    model = make_model()
    assert batch["rewards"].tolist() == [0.0, 1.0, 2.0, 3.0, 4.0]
    for row, data in enumerate(ROWS):
        seen = batch["attention_mask"][row].bool()
        ids, mask = batch["input_ids"][row][seen].tolist(), batch["loss_mask"][row][seen].tolist()
        assert ids[:3] == data["input_ids"]
        assert not batch["input_ids"][row][~seen].any()
        expected = naive_logprobs(model, ids[:1], ids[1:])
        reported = batch["logprobs"][row][seen].tolist()[1:]
        for place, learnt in enumerate(mask[1:]):
            assert reported[place] == pytest.approx(expected[place] if learnt else 0.0, abs=1e-4)
        assert batch["versions"][row][seen].tolist() == [0 if learnt else -1 for learnt in mask]


def test_the_same_seed_gives_the_same_episodes_however_they_meet() -> None:
    with engine_of() as engine:
        together = engine.rollout_batch(ROWS, TwoTurns())
    with engine_of(max_concurrent=1) as engine:
        alone = engine.rollout_batch(ROWS, TwoTurns())
    assert torch.equal(together["input_ids"], alone["input_ids"])


class TwoPrompts(RolloutWorkflow):
    """Asks two things in an order that the data gives, as calls after tools of different speed."""

    async def arun_episode(self, engine: InferenceEngine, data: dict[str, Any]) -> EpisodeResult:
        requests = {number: ModelRequest([6, 7, number], SETTINGS) for number in (8, 9)}
        responses = {number: await engine.agenerate(requests[number]) for number in data["order"]}
        return [Interaction(responses[number]) for number in (8, 9)]


def test_noise_does_not_depend_on_the_order_of_different_calls() -> None:
    answers = []
    for order in ((8, 9), (9, 8)):
        with engine_of() as engine:
            engine.submit({"order": order}, TwoPrompts())
            (result,) = engine.wait(1, timeout=90)
        answers.append([interaction.response.output_tokens for interaction in result])  # type: ignore[union-attr]
    assert answers[0] == answers[1] and answers[0][0] != answers[0][1]


def test_the_end_of_a_paused_engine_ends_its_episodes() -> None:
    with engine_of() as engine:
        engine.pause_generation()
        engine.pause_generation()
        engine.submit(ROWS[0], TwoTurns())
        with pytest.raises(TimeoutError):
            engine.wait(1, timeout=0.3)
    with engine_of() as engine:
        engine.pause_generation()
        engine.submit(ROWS[0], TwoTurns())
        engine.update_weights(engine._engines[""].model.state_dict(), 1)  # type: ignore[attr-defined]
        with pytest.raises(TimeoutError):
            engine.wait(1, timeout=0.3)
        engine.continue_generation()
        assert len(engine.wait(1, timeout=90)) == 1


def test_calls_at_the_same_time_share_a_batch() -> None:
    sizes: list[int] = []

    class Counting(TorchEngine):
        def generate(
            self, prompts: Any, settings: SamplingSettings, interrupted: Any = None
        ) -> list[list[Answer]]:
            sizes.append(len(prompts))
            return super().generate(prompts, settings, interrupted)

    with InferenceEngine(Counting(make_model(), TOKENIZER), RolloutLimits(window=1.0)) as engine:
        engine.pause()
        for row in ROWS:
            engine.submit(row, TwoTurns())
        engine.resume()
        assert len(engine.wait(5, timeout=90)) == 5
    assert sizes == [5, 5]


def test_rejected_and_failed_episodes_are_missing() -> None:
    with engine_of() as engine:
        kept = engine.rollout_batch([*ROWS, {"reject": True}], Picky())
        assert len(kept["rewards"]) == 5
        chosen = engine.rollout_batch(
            ROWS, TwoTurns(), should_accept=lambda result: float(result["rewards"]) > 2
        )  # type: ignore[index,arg-type,call-overload]
        assert chosen["rewards"].tolist() == [3.0, 4.0]
        assert len(engine.rollout_batch([*ROWS, {"raise": True}], Picky())["rewards"]) == 5
        engine.submit({"raise": True}, Picky())
        with pytest.raises(
            EnvironmentFailure, match="0 of 1 .* the last 1 failed: RuntimeError: the tool is down"
        ):
            engine.wait(1, timeout=90)
        with pytest.raises(EnvironmentFailure, match="all 2 episodes failed. One of them: RuntimeError"):
            engine.rollout_batch([{"raise": True}] * 2, Picky())
        with pytest.raises(EnvironmentFailure, match="the tool is down"):
            engine.prepare_batch(RestartingLoader([{"raise": True}], 2), Picky())


@pytest.mark.extended
def test_a_request_that_cannot_be_answered_fails_its_own_episode() -> None:
    """In one batch with four others: an id outside the vocabulary, and what is no list of ids."""
    wrong: list[Any] = [[10**9], [-1], "words", [1.5], None, [[1], [2]]]
    for ids in wrong:
        with engine_of(window=0.5) as engine:
            batch = engine.rollout_batch([*ROWS[:4], {"input_ids": ids}], TwoTurns())
        assert batch["rewards"].tolist() == [0.0, 1.0, 2.0, 3.0]


@pytest.mark.parametrize("form", ["list", "tensor", "batch of one", "encoding", "TokenIds"])
def test_a_request_takes_ids_in_every_form_of_a_tokenizer(form: str) -> None:
    messages = [{"role": "user", "content": "w1 w2"}]
    kwargs: dict[str, Any] = {"add_generation_prompt": True, "tokenize": True}
    encoded = TOKENIZER.apply_chat_template(messages, **kwargs)
    listed = workflow_tokenizer(TOKENIZER).apply_chat_template(messages, **kwargs)
    ids = list(encoded["input_ids"])
    assert listed == ids == listed["input_ids"] == listed.input_ids and isinstance(listed, list)
    forms = {
        "list": ids, "tensor": torch.tensor(ids), "batch of one": torch.tensor([ids]), "encoding": encoded, "TokenIds": listed,
    }  # fmt: skip
    with engine_of() as engine:
        response = asyncio.run(engine.agenerate(ModelRequest(forms[form], SETTINGS)))
    assert response.input_tokens == ids


def test_workflows_have_a_tokenizer_of_the_same_class_that_answers_with_lists() -> None:
    tokenizer = workflow_tokenizer(TOKENIZER)
    assert isinstance(tokenizer, type(TOKENIZER)) and type(tokenizer).__name__ == type(TOKENIZER).__name__
    messages = [{"role": "user", "content": "w1"}]
    asked = tokenizer.apply_chat_template(messages, tokenize=True, return_dict=True)
    assert asked["input_ids"] == tokenizer.apply_chat_template(messages, tokenize=True)
    assert tokenizer.decode(asked) == tokenizer.decode(asked["input_ids"])
    assert tokenizer.apply_chat_template(messages, tokenize=False) == TOKENIZER.apply_chat_template(
        messages, tokenize=False
    )
    again = pickle.loads(pickle.dumps(tokenizer))
    assert again.apply_chat_template(messages, tokenize=True) == asked["input_ids"]


def test_a_group_of_episodes_is_one_result() -> None:
    with engine_of() as engine:
        batch = engine.rollout_batch(ROWS[:2], TwoTurns(), group_size=3)
        assert batch["rewards"].tolist() == [0.0] * 3 + [1.0] * 3
        assert len({tuple(row) for row in batch["input_ids"].tolist()}) > 2, "members have noise of their own"
        engine.submit(ROWS[1] | {"reject": True}, Picky(), group_size=2)
        with pytest.raises(TimeoutError):
            engine.wait(1, timeout=0.3)
        with pytest.raises(ValueError, match="group_size = 0"):
            engine.submit(ROWS[0], TwoTurns(), group_size=0)
    with engine_of(max_concurrent=1) as engine:
        alone = engine.rollout_batch(ROWS[:2], TwoTurns(), group_size=3)
    assert torch.equal(batch["input_ids"], alone["input_ids"])


def test_evaluations_begin_whatever_the_bound_on_staleness_says() -> None:
    with engine_of(batch=1, staleness=0) as engine:
        engine.submit(ROWS[0], TwoTurns())
        assert len(engine.wait(1, timeout=90)) == 1
        assert engine.capacity == 0
        held = engine.submit(ROWS[1], TwoTurns())
        number = engine.submit(ROWS[2], TwoTurns(), is_eval=True)
        result = engine.wait_for_task(number, timeout=90)
        assert isinstance(result, dict) and result["rewards"].tolist() == [2.0]
        with pytest.raises(TimeoutError, match=f"episode {held} had not ended"):
            engine.wait_for_task(held, timeout=0.2)
        assert engine.capacity == 0, "an evaluation takes no place of training"


def test_workflows_are_named_by_import_path() -> None:
    path = f"{__name__}:TwoTurns"
    with engine_of() as engine:
        assert len(engine.rollout_batch(ROWS[:2], path)["rewards"]) == 2
        rejected = engine.submit({"reject": True}, f"{__name__}:Picky")
        assert engine.wait_for_task(rejected, timeout=90) is None
        with pytest.raises(ConfigError, match="has no 'Nothing'"):
            engine.submit(ROWS[0], f"{__name__}:Nothing")


def test_one_request_is_one_answer() -> None:
    with engine_of() as engine:
        engine.submit(ROWS[0], workflow_builder=TwoTurns)
        assert engine.wait(1, timeout=90)
        with pytest.raises(EngineFailure, match="gather"):
            asyncio.run(engine.agenerate(ModelRequest([6], SETTINGS.new(n_samples=2))))
        with pytest.raises(ValueError, match="needs a workflow"):
            engine.submit(ROWS[0])
        with pytest.raises(TimeoutError, match="0 of 1"):
            engine.wait(1, timeout=0.01)


def test_the_bound_on_staleness_admits_so_many_episodes() -> None:
    with engine_of(batch=2, staleness=1, max_concurrent=100) as engine:
        assert engine.capacity == 4, "(1 + 0 + 1) x 2"
        for row in ROWS:
            engine.submit(row, TwoTurns())
        assert len(engine.wait(4, timeout=90)) == 4
        with pytest.raises(TimeoutError):
            engine.wait(1, timeout=0.3)
        engine.set_version(1)
        assert len(engine.wait(1, timeout=90)) == 1
        assert engine.capacity == 1


def test_a_rejected_episode_frees_its_place() -> None:
    with engine_of(batch=1, staleness=0) as engine:
        engine.submit({"reject": True}, Picky())
        engine.submit(ROWS[0], Picky())
        assert len(engine.wait(1, timeout=90)) == 1


def test_pause_holds_episodes_back() -> None:
    with engine_of() as engine:
        engine.pause()
        engine.submit(ROWS[0], TwoTurns())
        with pytest.raises(TimeoutError):
            engine.wait(1, timeout=0.3)
        engine.resume()
        assert len(engine.wait(1, timeout=90)) == 1


def test_weights_that_change_in_mid_sequence_interrupt_and_the_answer_goes_on() -> None:
    reached, go_on = threading.Event(), threading.Event()
    torch_engine = TorchEngine(make_model(), TOKENIZER)
    plain = torch_engine.generate

    def slow(prompts: Any, settings: SamplingSettings, interrupted: Any = None) -> list[list[Answer]]:
        steps = 0

        def asked() -> bool:
            nonlocal steps
            steps += 1
            if steps == 3 and not reached.is_set():
                reached.set()
                go_on.wait(90)
            return bool(interrupted())

        return plain(prompts, settings, asked)

    torch_engine.generate = slow  # type: ignore[method-assign]
    with InferenceEngine(torch_engine, RolloutLimits()) as engine:
        with engine_of() as other:
            undisturbed = other.rollout_batch(ROWS[:1], TwoTurns())
        engine.submit(ROWS[0], TwoTurns())
        assert reached.wait(90)
        updating = threading.Thread(target=engine.update_weights, args=(torch_engine.model.state_dict(), 1))
        updating.start()
        while not engine._gate.closing:
            pass
        go_on.set()
        updating.join(90)
        (result,) = engine.wait(1, timeout=90)
    assert isinstance(result, dict)
    assert torch.equal(result["input_ids"], undisturbed["input_ids"]), "the weights were the same"
    versions = result["versions"][0].tolist()
    sampled = [version for version in versions if version >= 0]
    assert sampled == sorted(sampled) and set(sampled) == {0, 1}
    assert engine.get_version() == 1


def test_batches_are_prepared_while_later_episodes_are_in_play() -> None:
    loader = RestartingLoader(ROWS, 2, shuffle=False)
    with engine_of(batch=2, staleness=1) as engine:
        first = engine.prepare_batch(loader, TwoTurns())
        assert first["rewards"].tolist() == [0.0, 1.0]
        assert engine._next > 2, "more were asked for than were waited for"
        engine.set_version(1)
        assert len(engine.prepare_batch(loader, TwoTurns())["rewards"]) == 2


def test_stop_texts_and_greedy_reach_the_engine() -> None:
    responses: list[SamplingSettings] = []

    class Listening(ScriptedEngine):
        def generate(
            self, prompts: Any, settings: SamplingSettings, interrupted: Any = None
        ) -> list[list[Answer]]:
            responses.append(settings)
            return super().generate(prompts, settings)

    def script(seen: str, prompt: Prompt, index: int) -> str:
        return "w1 w2"

    asked = GenerationHyperparameters(
        max_new_tokens=9, temperature=0.5, top_p=0.9, top_k=3, greedy=True, stop=("w2",)
    )
    with InferenceEngine(Listening(TOKENIZER, script)) as engine:
        response = asyncio.run(engine.agenerate(ModelRequest([6, 7], asked)))
    assert responses == [SamplingSettings(0.5, 3, 0.9, 9, True, ("w2",))]
    assert (response.stop_reason, response.output_len, response.input_len) == ("stop", 2, 2)


class OneName(RolloutWorkflow):
    """Three calls, each of which goes on from the one before, under the name that the data gives."""

    async def arun_episode(self, engine: InferenceEngine, data: dict[str, Any]) -> EpisodeResult:
        asked, said = data["input_ids"], []
        for _ in range(3):
            name = {"rid": data["rid"]} if data["rid"] else {}
            said.append(await engine.agenerate(ModelRequest(input_ids=asked, gconfig=SETTINGS, **name)))
            asked = [*asked, *said[-1].output_tokens, 7]
        return [Interaction(response) for response in said]


def test_calls_with_one_rid_reuse_the_cache_and_answer_the_same() -> None:
    found = {}
    for name in ("", "talk"):
        torch_engine = TorchEngine(make_model(), TOKENIZER)
        with InferenceEngine(torch_engine) as engine:
            engine.submit({"input_ids": [6, 7, 8, 9], "rid": name}, OneName())
            (result,) = engine.wait(1, timeout=60)
        assert isinstance(result, list)
        found[name] = [interaction.response for interaction in result]
        assert (torch_engine.conversations.reused > 0) == bool(name)
    for with_name, without in zip(found["talk"], found[""], strict=True):
        assert with_name.output_tokens == without.output_tokens
        assert with_name.output_logprobs == pytest.approx(without.output_logprobs, abs=1e-5)
