"""The torch engine against a loop without cache, padding or batch."""

import threading

import pytest
import torch
from transformers import MambaConfig, MambaForCausalLM, MistralConfig, MistralForCausalLM, PreTrainedModel

from tests.training_core.llm.toys import SMALL, TOKENIZER, make_model, naive_logprobs, text_of
from training_core.errors import EngineFailure
from training_core.llm.generation import prefix_tree
from training_core.llm.generation.base import SamplingSettings
from training_core.llm.generation.prefix_cache import SHORTEST
from training_core.llm.generation.prefix_tree import supports_prefix_tree
from training_core.llm.generation.sampling import draw, tempered_log_probs
from training_core.llm.generation.torch_engine import TorchEngine
from training_core.llm.learning.token_logprobs import ResponseForward
from training_core.seeding import keyed_uniform
from training_core.types import NoiseKey, Prompt

EOS = TOKENIZER.eos_token_id
BEGINNING = [6 + (5 * place) % 23 for place in range(SHORTEST)]
"""Long enough for different prompts to share it."""
PROMPTS = [
    Prompt([6, 7, 8, 9, 10], 5, NoiseKey(0, 0, 1, 0, 0, 0)),
    Prompt([11, 12], 3, NoiseKey(0, 0, 1, 1, 0, 0)),
    Prompt([20, 6, 9, 9, 14, 15, 16, 8], 6, NoiseKey(0, 0, 1, 2, 0, 1)),
    Prompt([25], 4, NoiseKey(3, 0, 1, 2, 0, 1)),
    Prompt([*BEGINNING, 9, 12], 3, NoiseKey(0, 0, 1, 3, 0, 0)),
    Prompt([*BEGINNING, 9, 7, 20, 6], 2, NoiseKey(0, 0, 1, 4, 0, 0)),
    Prompt([*BEGINNING, 9], 2, NoiseKey(0, 0, 1, 5, 0, 0)),
]


@pytest.fixture(scope="module")
def model() -> PreTrainedModel:
    return make_model()


@torch.no_grad()
def naive_answer(
    model: PreTrainedModel, prompt: Prompt, candidate: int, settings: SamplingSettings
) -> tuple[list[int], list[float]]:
    """One answer, one token at a time, the whole sequence through the model each time."""
    tokens: list[int] = []
    logprobs: list[float] = []
    while len(tokens) < settings.max_tokens and (not tokens or tokens[-1] != EOS):
        logits = model(input_ids=torch.tensor([prompt.token_ids + tokens])).logits[0, -1]
        spread = tempered_log_probs(logits, settings.temperature, settings.top_k, settings.top_p)
        if settings.greedy:
            token = int(spread.argmax())
        else:
            number = keyed_uniform(*prompt.key, candidate, len(tokens))
            cumulative = spread.double().exp().cumsum(0)
            token = int((cumulative <= number * cumulative[-1]).sum())
        tokens.append(token)
        logprobs.append(spread[token].item())
    return tokens, logprobs


SETTINGS = [
    SamplingSettings(max_tokens=7),
    SamplingSettings(temperature=0.7, top_p=0.9, max_tokens=7),
    SamplingSettings(temperature=1.3, top_k=5, max_tokens=7),
    SamplingSettings(temperature=0.7, max_tokens=7, greedy=True),
]


def check_against_naive(
    model: PreTrainedModel, settings: SamplingSettings, engine: TorchEngine | None = None
) -> int:
    """Every answer equals the naive loop's; returns how many ended with a stop token."""
    answers = (engine or TorchEngine(model, TOKENIZER, version=3)).generate(PROMPTS, settings)
    assert [len(group) for group in answers] == [prompt.count for prompt in PROMPTS]
    stopped = 0
    for prompt, group in zip(PROMPTS, answers, strict=True):
        for candidate, answer in enumerate(group):
            tokens, logprobs = naive_answer(model, prompt, candidate, settings)
            assert answer.token_ids == tokens
            assert answer.logprobs == pytest.approx(logprobs, abs=1e-5)
            assert answer.versions == [3] * len(tokens)
            assert answer.stop_reason == ("stop" if tokens[-1] == EOS else "length")
            assert answer.text == text_of(tokens)
            stopped += answer.stop_reason == "stop"
    return stopped


@pytest.mark.parametrize("settings", SETTINGS)
@pytest.mark.parametrize("share_prefix", [True, False])
def test_it_says_what_a_naive_loop_says(
    model: PreTrainedModel, settings: SamplingSettings, share_prefix: bool
) -> None:
    engine = TorchEngine(model, TOKENIZER, version=3, share_prefix=share_prefix)
    stopped = check_against_naive(model, settings, engine)
    total = sum(prompt.count for prompt in PROMPTS)
    assert settings.greedy or 0 < stopped < total, "both ways to end must be tried"


@pytest.mark.parametrize("kind", ["qwen2", "gpt_neox"])
def test_other_architectures_say_what_a_naive_loop_says(kind: str) -> None:
    check_against_naive(make_model(kind), SETTINGS[1])


@pytest.mark.parametrize("kind", ["llama", "gpt_neox"])
def test_large_keys_are_attended_to_by_the_fused_kernel(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prefix_tree, "_SMALL_KEYS", 0)
    check_against_naive(make_model(kind), SETTINGS[0])


def test_a_sliding_window_is_kept_with_padding_and_a_shared_cache() -> None:
    torch.manual_seed(0)
    config = MistralConfig(**SMALL, num_key_value_heads=2, head_dim=8, sliding_window=4)
    check_against_naive(MistralForCausalLM(config).eval(), SETTINGS[0])


def test_a_model_without_positions_gets_batches_of_one_length() -> None:
    torch.manual_seed(0)
    sizes = {"vocab_size": len(TOKENIZER), "hidden_size": 32, "num_hidden_layers": 2, "state_size": 4}
    model = MambaForCausalLM(MambaConfig(**sizes, eos_token_id=EOS, pad_token_id=0)).eval()
    check_against_naive(model, SETTINGS[0])


def test_the_prompt_is_computed_once_and_equal_texts_are_one(
    model: PreTrainedModel, passes: list[int]
) -> None:
    engine = TorchEngine(model, TOKENIZER)
    engine.generate(PROMPTS[:1], SamplingSettings(max_tokens=1))  # which tries what the model can do
    passes.clear()
    twice = [Prompt([6, 7, 8], 8, NoiseKey(0, 0, 1, task, 0, 0)) for task in range(2)]
    answers = engine.generate(twice, SamplingSettings(temperature=0.3, max_tokens=4))
    assert engine.tree_support and passes[0] == 3, "two groups of eight have one prompt"
    said = [tuple(answer.token_ids) for group in answers for answer in group]
    for step in range(1, len(passes)):
        assert passes[step] == len({tokens[:step] for tokens in said if len(tokens) > step})
    assert len(set(said)) > 1


def test_prompts_of_different_lengths_are_not_padded(model: PreTrainedModel, passes: list[int]) -> None:
    engine = TorchEngine(model, TOKENIZER)
    engine.tree_support = True
    engine.generate(PROMPTS[:4], SamplingSettings(max_tokens=1))
    assert passes[0] == sum(len(prompt.token_ids) for prompt in PROMPTS[:4]) == 16


def test_a_long_beginning_that_prompts_share_is_computed_once(
    model: PreTrainedModel, passes: list[int]
) -> None:
    engine = TorchEngine(model, TOKENIZER)
    engine.tree_support = True
    engine.generate(PROMPTS, SamplingSettings(max_tokens=1))
    assert passes[0] == SHORTEST, "one prompt ends with the next token, which stays its own"
    assert sum(passes) == SHORTEST + 16 + 2 + 4 + 1


def test_who_has_ended_makes_room_for_who_waits(model: PreTrainedModel, passes: list[int]) -> None:
    prompts = [
        Prompt([6 + task % 20, 7 + task // 20, 8, 9, 10], 1, NoiseKey(0, 0, 1, task, 0, 0))
        for task in range(24)
    ]
    settings = SamplingSettings(temperature=1.3, max_tokens=20)
    engine = TorchEngine(model, TOKENIZER, max_batch=4)
    engine.tree_support = True
    answers = engine.generate(prompts, settings)
    lengths = [len(group[0].token_ids) for group in answers]
    assert len(set(lengths)) > 5, "they must end at different times"
    batches = sum(max(lengths[first : first + 4]) for first in range(0, 24, 4))
    growing = [size for size in passes if size <= 4]  # the others are prompts
    assert len(growing) < batches - 6
    assert sum(passes) == 5 * 24 + sum(length - 1 for length in lengths), "nothing is computed in vain"
    together = TorchEngine(model, TOKENIZER).generate(prompts, settings)
    assert [group[0].token_ids for group in together] == [group[0].token_ids for group in answers]


@pytest.mark.parametrize("settings", SETTINGS[:2])
@pytest.mark.parametrize("options", [{}, {"max_batch": 4}, {"share_prefix": False}])
def test_models_that_allow_no_forest_are_generated_with_in_padded_batches(
    model: PreTrainedModel, settings: SamplingSettings, options: dict[str, object]
) -> None:
    engine = TorchEngine(model, TOKENIZER, version=3, **options)
    engine.tree_support = False
    check_against_naive(model, settings, engine)


def test_a_forest_is_only_for_models_that_attend_to_everything() -> None:
    config = MistralConfig(**SMALL, num_key_value_heads=2, head_dim=8, sliding_window=4)
    assert not supports_prefix_tree(MistralForCausalLM(config).eval())
    sizes = {"vocab_size": len(TOKENIZER), "hidden_size": 32, "num_hidden_layers": 2, "state_size": 4}
    assert not supports_prefix_tree(
        MambaForCausalLM(MambaConfig(**sizes, eos_token_id=EOS, pad_token_id=0)).eval()
    )
    for kind in ("llama", "qwen2", "gpt_neox"):
        usual = make_model(kind)
        assert supports_prefix_tree(usual) and supports_prefix_tree(usual.to(torch.bfloat16))


def test_a_model_in_a_forest_serves_others_as_before(model: PreTrainedModel) -> None:
    """Another thread asks the model in the midst of every pass of the engine's."""
    learner, meanwhile = ResponseForward(model), []
    text = torch.tensor([[6, 7, 8, 9]])
    before = model(input_ids=text).logits

    def use_it(layer: torch.nn.Module, inputs: object, output: object) -> None:
        if threading.current_thread() is threading.main_thread():
            worker = threading.Thread(target=lambda: meanwhile.append(model(input_ids=text).logits))
            worker.start()
            worker.join()

    hook = model.base_model.layers[0].register_forward_hook(use_it)
    check_against_naive(model, SETTINGS[0])
    hook.remove()
    assert len(meanwhile) > 7 and all(torch.equal(logits, before) for logits in meanwhile)
    assert learner.packs


def test_in_bf16_the_stored_logprobs_are_the_models_own_within_its_rounding() -> None:
    model = make_model().to(torch.bfloat16)
    settings = SamplingSettings(temperature=0.7, max_tokens=7)
    answers = TorchEngine(model, TOKENIZER).generate(PROMPTS, settings)
    for prompt, group in zip(PROMPTS, answers, strict=True):
        for answer in group:
            expected = naive_logprobs(model, prompt.token_ids, answer.token_ids, 0.7)
            assert answer.logprobs == pytest.approx(expected, abs=0.25)
            assert sum(answer.logprobs) == pytest.approx(sum(expected), abs=0.5)


def test_a_stop_token_of_the_models_own_ends_an_answer() -> None:
    model = make_model()
    reported = TorchEngine(model, TOKENIZER).generate(PROMPTS[:1], SamplingSettings(max_tokens=6))[0]
    middle = next(answer.token_ids[1] for answer in reported if len(answer.token_ids) > 3)
    model.generation_config.eos_token_id = [EOS, middle]
    cut = TorchEngine(model, TOKENIZER).generate(PROMPTS[:1], SamplingSettings(max_tokens=6))[0]
    for before, after in zip(reported, cut, strict=True):
        until = before.token_ids.index(middle) + 1 if middle in before.token_ids else len(before.token_ids)
        assert after.token_ids == before.token_ids[:until]
        assert after.stop_reason == ("stop" if after.token_ids[-1] in (EOS, middle) else "length")


def test_broken_weights_are_told_from_bad_luck() -> None:
    model = make_model()
    with torch.no_grad():
        next(model.parameters()).fill_(float("nan"))
    with pytest.raises(EngineFailure, match="version 7"):
        TorchEngine(model, TOKENIZER, version=7).generate(PROMPTS, SamplingSettings())


def test_neither_order_nor_company_nor_batch_size_matter(model: PreTrainedModel) -> None:
    settings = SamplingSettings(max_tokens=6)
    together = TorchEngine(model, TOKENIZER).generate(PROMPTS, settings)
    backwards = TorchEngine(model, TOKENIZER).generate(PROMPTS[::-1], settings)[::-1]
    small = TorchEngine(model, TOKENIZER, max_batch=4).generate(PROMPTS, settings)  # splits groups, too
    alone = [TorchEngine(model, TOKENIZER).generate([prompt], settings)[0] for prompt in PROMPTS]
    tokens = [[answer.token_ids for answer in group] for group in together]
    assert [[answer.token_ids for answer in group] for group in backwards] == tokens
    assert [[answer.token_ids for answer in group] for group in small] == tokens
    assert [[answer.token_ids for answer in group] for group in alone] == tokens
    for group, other in zip(together, small, strict=True):
        for answer, same in zip(group, other, strict=True):
            assert answer.logprobs == pytest.approx(same.logprobs, abs=1e-5)


def test_new_weights_change_what_it_says_and_its_version(model: PreTrainedModel) -> None:
    engine, other = TorchEngine(make_model(), TOKENIZER), make_model(seed=1)
    engine.load_weights(other.state_dict(), 4)
    said = engine.generate(PROMPTS, SamplingSettings(max_tokens=4))
    assert [[a.token_ids for a in g] for g in said] == [
        [a.token_ids for a in g]
        for g in TorchEngine(other, TOKENIZER).generate(PROMPTS, SamplingSettings(max_tokens=4))
    ]
    assert said[0][0].versions[0] == 4


def test_what_cannot_be_generated_is_refused_in_words(model: PreTrainedModel) -> None:
    engine = TorchEngine(model, TOKENIZER)
    with pytest.raises(
        EngineFailure, match="64 tokens leaves no room for an answer in the model's context of 64"
    ):
        engine.generate([Prompt([6] * 64, 1, NoiseKey(0, 0, 0, 0, 0, 0))], SamplingSettings(max_tokens=8))
    with pytest.raises(EngineFailure, match="empty"):
        engine.generate([Prompt([], 1, NoiseKey(0, 0, 0, 0, 0, 0))], SamplingSettings())
    with pytest.raises(EngineFailure, match="weights of version 2 do not fit"):
        engine.load_weights({"nothing": torch.zeros(1)}, 2)


def test_truncation_by_hand() -> None:
    logits = torch.tensor([0.5, 0.3, 0.15, 0.05]).log()
    assert tempered_log_probs(logits, 1.0, top_k=2).exp().tolist() == pytest.approx(
        [0.625, 0.375, 0, 0], abs=1e-6
    )
    assert tempered_log_probs(logits, 1.0, top_p=0.6).exp().tolist() == pytest.approx(
        [0.625, 0.375, 0, 0], abs=1e-6
    )
    assert tempered_log_probs(logits, 1.0, top_p=0.4).exp().tolist() == pytest.approx([1, 0, 0, 0], abs=1e-6)
    squared = torch.tensor([0.25, 0.09, 0.0225, 0.0025])
    assert tempered_log_probs(logits, 0.5).exp().tolist() == pytest.approx(
        (squared / squared.sum()).tolist(), abs=1e-6
    )


@pytest.mark.parametrize("words", [27, 2049, 40_000])
def test_draws_are_those_of_double_precision(words: int) -> None:
    """Also next to 0 and 1, from truncated distributions, and in any batch: a cumulative sum over all words in float64 agrees."""
    generator = torch.Generator().manual_seed(words)
    logits = 3 * torch.randn(12, words, generator=generator)
    log_probs = torch.cat([tempered_log_probs(logits[:6], 1.0), tempered_log_probs(logits[6:], 0.7, 9, 0.8)])
    rows = torch.arange(12).repeat(40)
    shares = torch.rand(480, generator=generator, dtype=torch.float64)
    shares[:24] = torch.tensor([0.0, 1.0 - 2.0**-53], dtype=torch.float64).repeat_interleave(12)
    tokens = draw(log_probs, rows, shares)
    cumulative = log_probs.double().exp().cumsum(-1)[rows]
    reference = torch.searchsorted(cumulative, shares.unsqueeze(-1) * cumulative[:, -1:], right=True).squeeze(
        -1
    )
    assert torch.equal(tokens[24:], reference[24:])
    assert log_probs[rows, tokens].isfinite().all()
    alone = torch.cat([draw(log_probs[row : row + 1], torch.tensor([0]), shares[number : number + 1])
                       for number, row in enumerate(rows.tolist()[:120])])  # fmt: skip
    assert torch.equal(alone, tokens[:120])


def test_draws_have_the_distribution() -> None:
    """Chi-squared at 99.9 % (10 degrees of freedom): 11 of 3,000 words in different blocks."""
    log_probs = torch.full((1, 3000), float("-inf"))
    places = torch.arange(11) * 250 + 7
    log_probs[0, places] = (torch.arange(11) + 1.0).log().log_softmax(-1)
    shares = torch.rand(20_000, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    counts = draw(log_probs, torch.zeros(20_000, dtype=torch.long), shares).bincount(minlength=3000)[places]
    expected = 20_000 * log_probs[0, places].exp()
    assert counts.sum() == 20_000
    assert float(((counts - expected) ** 2 / expected).sum()) < 29.6


def test_what_is_to_be_kept_is_never_cut() -> None:
    logits = torch.tensor([0.5, 0.3, 0.15, 0.05]).log()
    keep = torch.tensor([False, False, False, True])
    expected = pytest.approx([0.5 / 0.85, 0.3 / 0.85, 0, 0.05 / 0.85], abs=1e-6)
    assert tempered_log_probs(logits, 1.0, top_k=2, keep=keep).exp().tolist() == expected
    assert tempered_log_probs(logits, 1.0, top_p=0.6, keep=keep).exp().tolist() == expected


def test_draws_invert_the_cumulative_distribution_and_never_take_what_is_cut() -> None:
    log_probs = torch.tensor([[0.0, 0.2, 0.0, 0.8]]).log().expand(5, 4)
    assert draw(
        log_probs, torch.arange(5), torch.tensor([0.0, 0.1999, 0.2001, 0.5, 0.9999999], dtype=torch.float64)
    ).tolist() == [1, 1, 3, 3, 3]
