"""Memory of a policy on its device: arithmetic on a model's sizes, in bytes. No torch.

Not included: the runtime itself (CUDA uses 0.5 to 1 GB per process) and memory that the allocator reserves without
use.
"""

from dataclasses import dataclass, replace

from training_core.llm.learning.learner_config import Deepspeed, Optimisation
from training_core.llm.models.adapter_config import Lora, WholeModel
from training_core.llm.models.shape import ModelShape

WIDTH = {"fp32": 4, "bf16": 2, "fp16": 2}
"""Bytes per number in each precision of `learner.precision`."""
FP32 = 4
PACKED_ROW = 4096
"""Maximum tokens of a packed row (LONGEST_ROW of training_core.llm.learning.packing)."""


@dataclass(frozen=True)
class Text:
    """Lengths of prompts and responses, in tokens."""

    prompt: int
    response: int
    """Maximum length of a response."""
    group: int
    """Responses to one prompt."""
    rows: int
    """Maximum number of responses of one minibatch."""

    @property
    def whole(self) -> int:
        """Length of a prompt with a response."""
        return self.prompt + self.response


def weights(shape: ModelShape, precision: str) -> int:
    """Memory of one copy of the model."""
    return shape.parameters * WIDTH[precision]


def adapted(shape: ModelShape, adapter: WholeModel | Lora) -> ModelShape:
    """The shape with its trained parameters: all, or A (rank x in) and B (out x rank) for each linear layer."""
    if adapter.type == "none":
        return shape
    queries, values = shape.heads * shape.head_size, shape.key_value_heads * shape.head_size
    ends = {
        "q_proj": shape.hidden + queries,
        "k_proj": shape.hidden + values,
        "v_proj": shape.hidden + values,
        "o_proj": queries + shape.hidden,
        "gate_proj": shape.hidden + shape.intermediate,
        "up_proj": shape.hidden + shape.intermediate,
        "down_proj": shape.intermediate + shape.hidden,
    }
    chosen = adapter.target_modules or tuple(ends)
    per_layer = sum(ends.get(name, 0) for name in chosen)
    return replace(shape, parameters=shape.layers * adapter.rank * per_layer)


def spread(size: int, learner: Optimisation, stage: int, processes: int) -> int:
    """The part in one process of a state that ZeRO partitions from `stage` on (arXiv 1910.02054, figure 1)."""
    zero = learner.zero_stage if isinstance(learner, Deepspeed) else 0
    return -(-size // processes) if zero >= stage else size


def gradients(shape: ModelShape, precision: str) -> int:
    """As the weights."""
    return shape.parameters * WIDTH[precision]


GRADIENTS_AT_ONCE = 2**27
"""Gradients that an optimiser step of a single process has in fp32 at a time, next to those in bf16 or fp16."""


def gradient_copies(shape: ModelShape, precision: str, *, whole: bool = False) -> int:
    """In bf16 the optimiser step has gradients in fp32, too: a bucket of them, which has at least the embeddings, or all."""
    if precision == "fp32":
        return 0
    bucket = max(GRADIENTS_AT_ONCE, shape.vocabulary * shape.hidden)
    return FP32 * (shape.parameters if whole else min(shape.parameters, bucket))


def optimizer(shape: ModelShape, precision: str) -> int:
    """AdamW's two moments in fp32, and in bf16 the fp32 copy of the weights.

    The 12 bytes per parameter of mixed precision training (K = 12 in ZeRO, arXiv 1910.02054, section 3.1); 8 in fp32.
    """
    return shape.parameters * FP32 * (2 if precision == "fp32" else 3)


def activations(
    shape: ModelShape, precision: str, tokens: int, longest: int, *, recomputed: bool = False
) -> int:
    """Memory that a forward pass over `tokens` stores for its backward pass, without the output layer.

    Counted tensor by tensor as Korthikanti et al. do (arXiv 2205.05198, section 4.1), for a block with RMS norms
    (their inputs are stored in fp32), a gated feed-forward and fused attention, which stores no matrix of scores.
    With recomputation, only the input of each block is stored, plus all of one block at a time. Per token and layer:
    in the model's precision queries, keys, values and the attention's output (keys and values repeated for all
    heads), four vectors of the gated block, and each norm's result before and after its scale; in fp32 each norm's
    input and factor, and a sum per head. Once per token: the last norm and the output, positions' angles, the token
    id, and `longest` numbers of the packed rows' mask.
    """
    width = WIDTH[precision]
    inner = width * 4 * (shape.heads * shape.head_size + shape.intermediate + shape.hidden)
    layer = inner + FP32 * (2 * shape.hidden + 2 + shape.heads)
    once = width * (longest + 2 * shape.hidden + 2 * shape.head_size) + FP32 * (shape.hidden + 3)
    stored = shape.layers * width * shape.hidden + layer if recomputed else shape.layers * layer
    return tokens * (stored + once)


LOGITS_AT_ONCE = {"cpu": 2**28, "cuda": 2**26}
"""Logits of a chunk of the output layer, by the type of the device."""


def output_layer(shape: ModelShape, precision: str, places: int, device: str = "cpu") -> int:
    """Peak memory for logits of `places` predicted tokens, or of a chunk of them: the logits, in fp32 the log-probabilities
    and two more tensors of that size while the entropy is computed, and in bf16 an fp32 copy.
    """
    places = min(places, max(LOGITS_AT_ONCE[device] // shape.vocabulary, 1))
    copies = 3 if precision == "fp32" else 4
    return places * shape.vocabulary * (WIDTH[precision] + FP32 * copies)


def kv_cache(shape: ModelShape, precision: str, tokens: int) -> int:
    """Keys and values of every layer for `tokens` (Pope et al., arXiv 2211.05102, section 2.1: 2 x layers x heads x
    head size numbers per token, with the heads of keys and values).
    """
    return 2 * shape.layers * shape.key_value_heads * shape.head_size * WIDTH[precision] * tokens


TREE_TOKENS, TREE_ANSWERS, MIN_GROWTH = 256, 8, 32
"""Generated tokens and answers that one tree of the torch engine may always contain, and columns by which its store grows
(requests.py and prefix_tree.py of training_core.llm.generation).
"""


@dataclass(frozen=True)
class Call:
    """A call of the torch engine."""

    prompts: int
    answers: int
    """To each prompt."""
    prompt: int
    """Tokens of a prompt."""
    response: int
    """Maximum tokens of an answer."""


def tree_tokens(call: Call, sequences: int, *, fixed: bool) -> int:
    """Tokens that the torch engine's store has room for, if all answers differ and none ends early.

    A row has a prompt and all its answers, and there are rows for twice as many answers as are generated at a time; with
    `fixed` shapes their number is a power of two, and one more. Columns grow by half; with `fixed` shapes those of the longest
    answers are reserved at once, if the card has room.
    """
    most = max(max(TREE_TOKENS, 2 * call.prompt) // call.response, TREE_ANSWERS)
    group = min(call.answers, most, sequences)
    rows = min(call.prompts * -(-call.answers // group), 2 * sequences // group)
    if fixed:
        rows = (1 << (rows - 1).bit_length()) + 1
    columns, needed = call.prompt + MIN_GROWTH, call.prompt + group * call.response
    while columns < needed:
        columns = max(columns + group + MIN_GROWTH, columns * 3 // 2)
    return rows * (needed + MIN_GROWTH if fixed else columns)


def micro_batch(learner: Optimisation, text: Text, *, filled: bool = False) -> tuple[int, int, int]:
    """(tokens, longest row, predicted places) of the largest forward pass of an update; with `filled`, of one that is full of
    tokens, however long the text is.

    With packing, a prompt occurs once before the responses of its group; otherwise before each. A row longer than
    `micro_batch_tokens` forms its own batch.
    """
    if learner.packing:
        limit = min(learner.pass_tokens, PACKED_ROW)
        members = min(text.group, max((limit - text.prompt) // text.response, 1))
    else:
        members = 1
    row = text.prompt + members * text.response
    if filled and row < learner.pass_tokens:
        return learner.pass_tokens, max(row, min(learner.pass_tokens, PACKED_ROW)), learner.pass_tokens
    rows = max(min(learner.pass_tokens // row, -(-text.rows // members)), 1)
    return rows * row, row, rows * members * text.response
