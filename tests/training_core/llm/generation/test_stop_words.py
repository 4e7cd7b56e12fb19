"""How answers end before their time, by stop texts or by interruption, and how they go on."""

from collections.abc import Callable
from types import SimpleNamespace

import pytest
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedModel, PreTrainedTokenizerFast

from tests.training_core.llm.scripted import ScriptedEngine
from tests.training_core.llm.toys import TOKENIZER, make_model, text_of
from training_core.config.team import Sampling
from training_core.errors import EngineFailure
from training_core.llm.base_models.warm_start import word_tokenizer
from training_core.llm.generation.base import SamplingSettings, continuation_prompt, join_answers, settings_of
from training_core.llm.generation.stop_words import StopWords, decode_texts, end_tokens
from training_core.llm.generation.torch_engine import TorchEngine
from training_core.llm.rewards.math import math_reward
from training_core.types import Answer, NoiseKey, Prompt

PROMPTS = [
    Prompt([6, 7, 8, 9, 10], 5, NoiseKey(0, 0, 1, 0, 0, 0)),
    Prompt([11, 12], 3, NoiseKey(0, 0, 1, 1, 0, 0)),
    Prompt([25], 4, NoiseKey(3, 0, 1, 2, 0, 1)),
]
SETTINGS = SamplingSettings(temperature=1.3, max_tokens=12)


def byte_tokenizer(*pieces: str) -> PreTrainedTokenizerFast:
    """A token for every byte, and for these longer pieces."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    whole = [
        "".join(pre_tokenizers.ByteLevel(add_prefix_space=False).pre_tokenize_str(piece)[0][0])
        for piece in pieces
    ]
    vocabulary = {text: place for place, text in enumerate([*alphabet, *whole, "<eos>"])}
    inner = Tokenizer(models.WordLevel(vocabulary, unk_token="<eos>"))
    inner.decoder = decoders.ByteLevel()
    return PreTrainedTokenizerFast(tokenizer_object=inner, eos_token="<eos>")


@pytest.fixture(scope="module")
def model() -> PreTrainedModel:
    return make_model()


def after(calls: int) -> Callable[[], bool]:
    """True from the calls-th time on that it is asked."""
    asked = iter(range(1, 10**6))
    return lambda: next(asked) >= calls


def test_a_stop_text_is_found_across_token_borders_and_within_a_token() -> None:
    tokenizer = byte_tokenizer("abc", "cd")
    pieces = {piece: tokenizer.convert_tokens_to_ids(piece) for piece in ("a", "b", "c", "d", "abc", "cd")}
    words = StopWords(tokenizer, ("bcc", "dd"))

    def ended(*said: str) -> bool:
        return words.ended([[pieces[piece] for piece in said]])[0]

    assert ended("abc", "cd") and ended("a", "b", "c", "c") and ended("cd", "d") and ended("a", "d", "d", "a")
    assert not ended("abc", "d") and not ended("b", "c") and not ended("cd", "cd") and not ended()
    assert words.cut("aabccdd") == "aa" and words.cut("addbcc") == "a" and words.cut("abcd") == "abcd"
    assert StopWords(tokenizer, ()).cut("dd") == "dd"
    assert StopWords(tokenizer, ()).ended([[pieces["d"]] * 2, []]) == [False, False]


def test_the_tail_holds_a_stop_text_of_wide_characters() -> None:
    tokenizer = byte_tokenizer()
    text = "終わり🙂" * 4
    words = StopWords(tokenizer, (text,))
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    said = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False).pre_tokenize_str("so: " + text)
    tokens = [alphabet.index(letter) for letter in "".join(piece for piece, _ in said)]
    assert len(tokens) > len(text) * 3
    assert words.ended([tokens[-words.window :], tokens[-words.window : -1]]) == [True, False]


def test_special_tokens_are_text_except_for_padding_and_the_end() -> None:
    tokenizer = word_tokenizer(("42", "so"))
    tokenizer.add_special_tokens({"additional_special_tokens": ["[THINK]", "[/THINK]", "<eot>"]})
    ids = tokenizer.convert_tokens_to_ids(["[THINK]", "42", "[/THINK]", "so", "<eot>", "<eos>", "<pad>"])
    thought, *_, turn_end, end, padding = ids
    (text,) = decode_texts(tokenizer, [ids], ends=[turn_end])
    assert text == "[THINK] 42 [/THINK] so"
    assert math_reward("", text, "42") == 0.0
    assert decode_texts(tokenizer, [[thought], [end, padding], [], [end, thought, end]]) == [
        "[THINK]", "", "", "<eos> [THINK]",
    ]  # fmt: skip
    words = StopWords(tokenizer, ("[/THINK]", "<eot>"), [turn_end])
    assert words.ended([ids[:2], ids[:3], [turn_end]]) == [False, True, False]
    assert words.answer_texts([ids]) == ["[THINK] 42 "]


@pytest.mark.parametrize("named", [None, 7, [7, 1]])
def test_a_model_names_further_end_tokens(named: object) -> None:
    model = SimpleNamespace(generation_config=SimpleNamespace(eos_token_id=named))
    eos = TOKENIZER.eos_token_id
    assert end_tokens(TOKENIZER, model) == sorted({eos} | ({1, 7} if named == [7, 1] else {named} - {None}))
    assert end_tokens(TOKENIZER) == [eos]


@pytest.mark.parametrize("share_prefix", [True, False])
def test_an_answer_ends_with_the_token_that_completes_a_stop_text(
    model: PreTrainedModel, share_prefix: bool
) -> None:
    engine = TorchEngine(model, TOKENIZER, share_prefix=share_prefix)
    free = [answer for group in engine.generate(PROMPTS, SETTINGS) for answer in group]
    example = next(answer for answer in free if len(answer.token_ids) > 5)
    stop = text_of(example.token_ids[2:4])  # two words with what is between them
    settings = SamplingSettings(temperature=1.3, max_tokens=12, stop=("never said", stop))
    stopped = [answer for group in engine.generate(PROMPTS, settings) for answer in group]
    cut = 0
    for whole, answer in zip(free, stopped, strict=True):
        until = next(
            (end for end in range(1, len(whole.token_ids) + 1) if stop in text_of(whole.token_ids[:end])),
            None,
        )
        assert answer.token_ids == whole.token_ids[:until]
        assert answer.logprobs == pytest.approx(whole.logprobs[:until], abs=1e-5)
        assert stop not in answer.text
        if until is not None:
            cut += 1
            assert answer.stop_reason == "stop"
            assert text_of(answer.token_ids).startswith(answer.text + stop)
        else:
            assert (answer.stop_reason, answer.text) == (whole.stop_reason, whole.text)
    assert 0 < cut < len(free)


def test_stop_texts_come_from_the_role_and_stop_a_script_too() -> None:
    settings = settings_of(Sampling(stop=("w3",), max_tokens=9, top_k=4))
    assert settings == SamplingSettings(max_tokens=9, top_k=4, stop=("w3",))
    engine = ScriptedEngine(TOKENIZER, lambda seen, prompt, index: "w1 w2 w3 w4")
    answer = engine.generate([Prompt([6], 1, NoiseKey(0, 0, 0, 0, 0, 0))], settings)[0][0]
    assert (answer.token_ids, answer.text.strip(), answer.stop_reason) == (
        TOKENIZER("w1 w2 w3", add_special_tokens=False)["input_ids"], "w1 w2", "stop",
    )  # fmt: skip


def go_on(
    engine: TorchEngine, prompt: Prompt, index: int, answer: Answer, settings: SamplingSettings
) -> Answer:
    """The answer, resubmitted until it ends, interrupted again on the way."""
    while answer.stop_reason == "interrupt":
        rest = engine.generate([continuation_prompt(prompt, index, answer)], settings, after(4))[0][0]
        answer = join_answers(answer, rest)
    return answer


@pytest.mark.parametrize("stop", [(), ("w3", "w9 w")])
@pytest.mark.parametrize("calls", [1, 2, 4, 7])
def test_what_is_interrupted_goes_on_as_if_it_had_not_been(
    model: PreTrainedModel, calls: int, stop: tuple[str, ...]
) -> None:
    settings = SamplingSettings(temperature=1.3, max_tokens=12, stop=stop)
    engine = TorchEngine(model, TOKENIZER, version=2)
    whole = engine.generate(PROMPTS, settings)
    partial = engine.generate(PROMPTS, settings, after(calls))
    interrupted = 0
    for prompt, expected, got in zip(PROMPTS, whole, partial, strict=True):
        for index, (one, part) in enumerate(zip(expected, got, strict=True)):
            assert len(part.token_ids) <= calls - 1
            assert part.token_ids == one.token_ids[: len(part.token_ids)]
            assert len(part.versions) == len(part.logprobs) == len(part.token_ids)
            interrupted += part.stop_reason == "interrupt"
            end = go_on(engine, prompt, index, part, settings)
            assert (end.token_ids, end.stop_reason, end.text) == (one.token_ids, one.stop_reason, one.text)
            assert end.logprobs == pytest.approx(one.logprobs, abs=1e-5)
            assert end.versions == one.versions
    assert interrupted, "some must have been cut short"


def test_batches_that_have_not_begun_are_interrupted_with_nothing_said(model: PreTrainedModel) -> None:
    answers = TorchEngine(model, TOKENIZER, max_batch=4).generate(PROMPTS, SETTINGS, after(3))
    said = [len(answer.token_ids) for group in answers for answer in group]
    assert len(said) == 12 and 0 < sum(bool(length) for length in said) < 12
    silent = [answer for group in answers for answer in group if not answer.token_ids]
    assert all((answer.stop_reason, answer.text) == ("interrupt", "") for answer in silent)


def test_a_continued_answer_records_the_version_of_every_token() -> None:
    engine, newer = TorchEngine(make_model(), TOKENIZER, version=1), make_model(seed=1)
    prompt = PROMPTS[0]
    answers = engine.generate([prompt], SETTINGS, after(4))[0]
    index, part = next((i, a) for i, a in enumerate(answers) if a.stop_reason == "interrupt")
    engine.load_weights(newer.state_dict(), 2)
    end = join_answers(part, engine.generate([continuation_prompt(prompt, index, part)], SETTINGS)[0][0])
    assert end.versions == [1] * 3 + [2] * (len(end.token_ids) - 3)
    assert end.text == text_of(end.token_ids)


def test_an_answer_that_has_ended_is_not_gone_on_with(model: PreTrainedModel) -> None:
    ended = Prompt([6, 7, 8], 1, NoiseKey(0, 0, 0, 0, 0, 0), offset=2)
    with pytest.raises(EngineFailure, match="has ended"):
        TorchEngine(model, TOKENIZER).generate([ended], SamplingSettings(max_tokens=2))
