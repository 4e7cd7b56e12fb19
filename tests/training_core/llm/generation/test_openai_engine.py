"""The openai engine against a real HTTP server that speaks as vLLM's and SGLang's do."""

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from pydantic import ValidationError

from tests.training_core.llm.generation.completions_server import CompletionsServer, serving
from tests.training_core.llm.toys import TOKENIZER, make_model, naive_logprobs, text_of
from training_core.config.models import Devices, Policy
from training_core.errors import EngineFailure
from training_core.llm.generation import openai_engine
from training_core.llm.generation.base import SamplingSettings, continuation_prompt, join_answers, make_engine
from training_core.llm.generation.engine_config import OpenAi
from training_core.llm.generation.openai_engine import OpenAiEngine
from training_core.llm.models.adapter_config import Lora
from training_core.llm.models.lora import add_adapter, trained_weights
from training_core.types import NoiseKey, Prompt

PROMPTS = [
    Prompt([6, 7, 8, 9, 10], 5, NoiseKey(0, 0, 1, 0, 0, 0)),
    Prompt([11, 12], 3, NoiseKey(0, 0, 1, 1, 0, 0)),
]
SETTINGS = SamplingSettings(temperature=0.7, max_tokens=7)


@pytest.fixture
def server() -> CompletionsServer:
    return CompletionsServer(make_model())


@pytest.fixture
def url(server: CompletionsServer) -> Iterator[str]:
    with serving(server) as address:
        yield address


@pytest.mark.parametrize("names_tokens", [True, False])
def test_answers_carry_the_servers_tokens_and_logprobs(
    server: CompletionsServer, url: str, names_tokens: bool
) -> None:
    server.names_tokens = names_tokens
    policy = Policy(engine=OpenAi(urls=(url,)), devices=Devices(placement="apart"))
    engine = make_engine(policy.engine, make_model(seed=5), TOKENIZER)
    engine.version = 3
    answers = engine.generate(PROMPTS, SETTINGS)
    assert [len(group) for group in answers] == [5, 3]
    for prompt, group in zip(PROMPTS, answers, strict=True):
        for answer in group:
            expected = naive_logprobs(server.model, prompt.token_ids, answer.token_ids, 0.7)
            assert answer.logprobs == pytest.approx(expected, abs=1e-4)
            assert answer.versions == [3] * len(answer.token_ids)
            assert answer.text == text_of(answer.token_ids)
            ended = answer.token_ids[-1] == TOKENIZER.eos_token_id
            assert answer.stop_reason == ("stop" if ended else "length")
    assert {reason for group in answers for reason in (answer.stop_reason for answer in group)} == {
        "stop",
        "length",
    }
    again = engine.generate(PROMPTS[::-1], SETTINGS)[::-1]
    assert again == answers, "seeds follow from what is sampled"


def test_prompts_are_dealt_out_to_several_servers_with_the_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAB_API_KEY", "secret")
    one, other = CompletionsServer(make_model()), CompletionsServer(make_model())
    with serving(one) as first, serving(other) as second:
        settings = OpenAi(urls=(first, f"{second}/"), model="toy", key_variable="LAB_API_KEY")
        OpenAiEngine(settings, make_model(), TOKENIZER).generate(PROMPTS, SETTINGS)
    assert len(one.asked) == len(other.asked) == 1
    assert set(one.headers + other.headers) == {"Bearer secret"}
    with pytest.raises(ValidationError, match="key_variable"):
        OpenAi(key_variable="TROUPE_TOKEN")


@pytest.mark.parametrize("kind", ["vllm", "sglang"])
def test_new_weights_are_handed_over_in_a_folder(
    server: CompletionsServer, url: str, kind: str, tmp_path: Path
) -> None:
    settings = OpenAi(urls=(url,), server=kind, weights_folder=str(tmp_path))
    engine = OpenAiEngine(settings, make_model(), TOKENIZER)
    for version, seed in ((1, 1), (2, 2)):
        newer = make_model(seed=seed)
        engine.load_weights(newer.state_dict(), version)
        for name, weight in newer.state_dict().items():
            assert torch.equal(weight, server.model.state_dict()[name])
    assert engine.version == 2 and [folder.name for folder in tmp_path.iterdir()] == ["version-2"]
    paths = [path for path, _ in server.asked]
    clear = "/reset_prefix_cache" if kind == "vllm" else "/flush_cache"
    assert paths[1::2] == [clear, clear], "what older weights computed is not used"
    answer = engine.generate(PROMPTS[:1], SETTINGS)[0][0]
    expected = naive_logprobs(make_model(seed=2), PROMPTS[0].token_ids, answer.token_ids, 0.7)
    assert answer.logprobs == pytest.approx(expected, abs=1e-4) and set(answer.versions) == {2}


def test_an_adapter_has_a_name_of_its_own_for_every_version(tmp_path: Path) -> None:
    lora = Lora(rank=4, alpha=8)
    remote, own = make_model(), make_model()
    add_adapter(remote, lora, 0)
    add_adapter(own, lora, 0)
    server = CompletionsServer(remote)
    with serving(server) as url:
        engine = OpenAiEngine(OpenAi(urls=(url,), weights_folder=str(tmp_path / "team")), own, TOKENIZER)
        for version in (1, 2):
            weights = {
                name: torch.full_like(part, 0.1 * version) for name, part in trained_weights(own).items()
            }
            engine.load_weights(weights, version)
            assert set(server.adapters) == {f"team-version-{version}"}
            assert all(torch.equal(part, weights[name]) for name, part in trained_weights(remote).items())
        engine.generate(PROMPTS[:1], SETTINGS)
    assert server.asked[-1][1]["model"] == "team-version-2"


def test_stop_texts_and_what_was_said_before_an_interruption_are_kept(
    server: CompletionsServer, url: str
) -> None:
    engine = OpenAiEngine(OpenAi(urls=(url,)), make_model(), TOKENIZER)
    server.hold = threading.Event()
    asked = iter(range(100))
    silent = engine.generate(PROMPTS, SETTINGS, lambda: next(asked) > 2)
    server.hold.set()
    assert [[answer.stop_reason for answer in group] for group in silent] == [
        ["interrupt"] * 5,
        ["interrupt"] * 3,
    ]
    part = engine.generate(PROMPTS, SamplingSettings(max_tokens=2))[0][0]
    rest = engine.generate([continuation_prompt(PROMPTS[0], 0, part)], SETTINGS)[0][0]
    whole = join_answers(part, rest)
    assert len(whole.token_ids) <= 7
    assert whole.text == text_of(whole.token_ids)
    stop = TOKENIZER.decode(part.token_ids[:1])
    engine.generate(PROMPTS[:1], SamplingSettings(max_tokens=7, stop=(stop,)))
    assert server.asked[-1][1]["stop"] == [stop]
    assert server.asked[-1][1]["skip_special_tokens"] is False, (
        "else the server finds no stop string with one"
    )


@pytest.mark.parametrize(("reported", "left"), [(10, 5), (None, 59)])
def test_answers_get_what_a_prompt_leaves_of_the_servers_context(
    server: CompletionsServer, url: str, reported: int | None, left: int
) -> None:
    """A server that does not report its context has the model's, 64."""
    server.context = reported
    engine = OpenAiEngine(OpenAi(urls=(url,), model="toy"), make_model(), TOKENIZER)
    engine.generate(PROMPTS[:1], SamplingSettings(max_tokens=60))
    assert server.asked[-1][1]["max_tokens"] == left


def test_a_server_that_fails_is_asked_again_and_then_named(
    server: CompletionsServer, url: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(openai_engine, "_RETRY_SECONDS", 0.01)
    engine = OpenAiEngine(OpenAi(urls=(url,), model="toy"), make_model(), TOKENIZER)
    server.failures = [503, 500]
    assert len(engine.generate(PROMPTS[:1], SETTINGS)[0]) == 5
    server.failures = [503] * 3
    with pytest.raises(
        EngineFailure, match=f"{url}/v1/completions does not answer correctly: HTTP status 503"
    ):
        engine.generate(PROMPTS[:1], SETTINGS)
    server.failures = [400]
    with pytest.raises(EngineFailure, match="400"):
        engine.generate(PROMPTS[:1], SETTINGS)
    with pytest.raises(EngineFailure, match=r"set policies\.\*\.engine\.weights_folder"):
        engine.load_weights({}, 1)
    elsewhere = OpenAi(urls=(url,), weights_folder=str(tmp_path))
    with pytest.raises(EngineFailure, match="weights of version 1 do not fit"):
        OpenAiEngine(elsewhere, make_model(), TOKENIZER).load_weights({"nothing": torch.zeros(1)}, 1)
    nobody = OpenAiEngine(OpenAi(urls=("http://127.0.0.1:9",), model="toy"), make_model(), TOKENIZER)
    with pytest.raises(EngineFailure, match="ConnectError"):
        nobody.generate(PROMPTS[:1], SETTINGS)


def test_only_the_torch_engine_shares_a_process_with_the_learner() -> None:
    with pytest.raises(ValidationError, match='set devices.placement = "apart"'):
        Policy(engine=OpenAi())
