"""The scripted engine answers as told, in the shapes of a real one."""

from training_core.llm.base_models.tiny_training import word_tokenizer
from training_core.llm.generation.base import SamplingSettings
from training_core.llm.generation.scripted import ScriptedEngine
from training_core.types import NoiseKey, Prompt

KEY = NoiseKey(0, 0, 0, 0, 0, 0)
TOKENIZER = word_tokenizer(("up", "down", "left"))


def test_answers_follow_the_script() -> None:
    engine = ScriptedEngine(TOKENIZER, lambda seen, prompt, index: f"{seen} left" if index else "down")
    first, second = engine.generate(
        [Prompt([TOKENIZER.convert_tokens_to_ids("up")], 2, KEY)], SamplingSettings(max_tokens=4)
    )[0]
    assert (first.text, second.text) == ("down", "up left")
    assert TOKENIZER.convert_ids_to_tokens(second.token_ids) == ["up", "left", "<eos>"]
    assert (second.logprobs, second.versions, second.stop_reason) == ([0.0] * 3, [0] * 3, "stop")


def test_long_answers_are_cut_and_versions_follow_the_weights() -> None:
    engine = ScriptedEngine(TOKENIZER, lambda seen, prompt, index: "up up up")
    engine.load_weights({}, 4)
    answer = engine.generate([Prompt([0], 1, KEY)], SamplingSettings(max_tokens=2))[0][0]
    assert (answer.text, answer.stop_reason, answer.versions) == ("up up", "length", [4, 4])
