"""Log-probabilities of response tokens by a model, at response positions only.

T response tokens, V vocabulary, H hidden size.
"""

import torch
from torch import Tensor
from transformers import PreTrainedModel

from training_core.llm.learning.packing import Batch, collate, group_rows
from training_core.types import Answer, Group

_SCALED_LOGITS = ("logit_scale", "logits_scaling", "final_logit_softcapping")
"""Config fields of architectures that change logits after the output layer: there the whole model is called."""


def response_logits(model: PreTrainedModel, batch: Batch) -> Tensor:
    """Logits (T, V) that predict each response token."""
    inputs = {
        "input_ids": batch.token_ids,
        "attention_mask": batch.mask,
        "position_ids": batch.positions,
        "use_cache": False,
    }
    head = model.get_output_embeddings()
    if head is None or any(getattr(model.config, name, None) for name in _SCALED_LOGITS):
        whole: Tensor = model(**inputs).logits
        return whole[batch.rows, batch.sources]
    hidden: Tensor = model.base_model(**inputs).last_hidden_state
    logits: Tensor = head(hidden[batch.rows, batch.sources])
    return logits


@torch.no_grad()
def can_pack(model: PreTrainedModel) -> bool:
    """Whether packed rows give this model the same logits as single ones: tried, not guessed.

    False where a layer is not full attention (sliding window, linear) or where the attention in use ignores an explicit
    mask. The trial is one group of two answers.
    """
    kinds = getattr(model.config, "layer_types", None) or []
    if any(kind != "full_attention" for kind in kinds):
        return False
    vocabulary = int(model.config.vocab_size)
    words = [(7 * place + 3) % vocabulary for place in range(12)]
    answers = [_answer(words[5:8]), _answer(words[8:12])]
    group = Group("", 0, words[:5], answers, [0.0, 0.0], [0.0, 0.0], 1.0, 0, 1.0)
    was_training = model.training
    model.eval()
    together, apart = (_trial(model, group, packed=packed) for packed in (True, False))
    model.train(was_training)
    tolerance = 1e-3 if together.dtype == torch.float32 else 0.15
    return bool(torch.allclose(together.float(), apart.float(), atol=tolerance, rtol=tolerance))


def _answer(tokens: list[int]) -> Answer:
    return Answer(tokens, [0.0] * len(tokens), [0] * len(tokens), "length", "")


def _trial(model: PreTrainedModel, group: Group, *, packed: bool) -> Tensor:
    rows = group_rows(0, group, packed=packed)
    return response_logits(model, collate(rows, 0, packed=packed, device=model.device, dtype=model.dtype))
