"""The trainer's side of slime's agent rollout guide, word for word: its loss-mask class (step 3) and its example 2.

MultiTurnLossMaskGenerator comes from training_core.llm.external.slime in place of slime's. The names that the guide uses without
defining them are short versions of slime's: Sample, start_rollout, get_rollout_data, log_raw_info, Buffer.
"""

# mypy: ignore-errors
# ruff: noqa
# fmt: off

import asyncio
from dataclasses import dataclass
from typing import Any, Dict, List

import httpx
from transformers import AutoTokenizer

from training_core.llm.external.slime import MultiTurnLossMaskGenerator

TOKENIZER, START_ROLLOUT = None, True
Buffer = list


@dataclass
class Sample:
    index: str
    prompt: str
    tokens: List[int]
    response_length: int
    reward: float
    truncated: bool
    loss_mask: List[int]
    metadata: Dict[str, Any]


def start_rollout(api_base_url, args, metadata):
    payload = {
        "num_process": str(args.rollout_num_process),
        "num_epoch": "1",
        "remote_engine_url": args.engine_url,
        "remote_buffer_url": api_base_url,
        "task_type": args.task_type,
        "input_file": args.prompt_data,
        "num_repeat_per_sample": str(args.n_samples_per_prompt),
        "max_tokens": "16",
        "sampling_params": {"max_tokens": 16, "temperature": 0.8},
        "tokenizer_path": args.hf_checkpoint,
        "skip_instance_ids": [each for some in metadata.values() for each in some],
    }
    httpx.post(f"{api_base_url}/start_rollout", json=payload, trust_env=False).raise_for_status()


async def get_rollout_data(api_base_url):
    async with httpx.AsyncClient(trust_env=False) as client:
        answer = (await client.post(f"{api_base_url}/get_rollout_data", json={"batch_size": None})).json()
    return (answer["data"]["data"], answer["data"]["meta_info"]) if answer["success"] else (None, None)


def log_raw_info(args, all_meta_info, rollout_id):
    assert sum(each["total_samples"] for each in all_meta_info) > 0


class YourTaskLossMaskGenerator(MultiTurnLossMaskGenerator):
    def get_loss_mask(self, messages: List[Dict]) -> List[int]:
        if self.tokenizer_type == "your_task":
            # Custom logic for your conversation format
            token_ids = []
            loss_mask = []

            for message in messages:
                role = message["role"]
                content = message["content"]

                # Tokenize the message
                msg_tokens = self.tokenizer.encode(content)
                token_ids.extend(msg_tokens)

                # Only train on assistant responses
                if role == "assistant":
                    loss_mask.extend([1] * len(msg_tokens))
                else:
                    loss_mask.extend([0] * len(msg_tokens))

            return token_ids, loss_mask


async def generate_agent_rollout(args, rollout_id: int, data_buffer: Buffer, evaluation: bool = False):
    """Main entry point for agent rollout in Slime."""
    global TOKENIZER, START_ROLLOUT

    # Initialize tokenizer once
    if TOKENIZER is None:
        TOKENIZER = AutoTokenizer.from_pretrained(args.hf_checkpoint, trust_remote_code=True)

    # Start rollout on first iteration
    if START_ROLLOUT:
        metadata = {"skip_instance_ids": []}
        if rollout_id > 0:
            # Get completed instance IDs for resume
            metadata = data_buffer.get_metadata()

        start_rollout(args.agent_rollout_buffer_url, args, metadata)
        START_ROLLOUT = False

    # Collect results
    results = []
    all_meta_info = []
    retry_count = 0

    while len(results) < args.rollout_batch_size * args.n_samples_per_prompt:
        await asyncio.sleep(5)  # Poll interval

        try:
            data, meta_info = await get_rollout_data(
                api_base_url=args.agent_rollout_buffer_url
            )

            if data:
                results.extend(data)
                if meta_info:
                    all_meta_info.append(meta_info)
                retry_count = 0
            else:
                retry_count += 1

        except Exception as e:
            print(f"Error fetching data: {e}")
            retry_count += 1

        # Check retry limit
        if args.fetch_trajectory_retry_times != -1 and retry_count > args.fetch_trajectory_retry_times:
            raise RuntimeError(f"Failed to fetch data after {retry_count} retries")

    # Convert to Slime format
    samples = []
    for record in results:
        oai_messages = record["messages"]

        # Generate loss mask
        mask_generator = MultiTurnLossMaskGenerator(
            TOKENIZER,
            tokenizer_type=args.loss_mask_type
        )
        token_ids, loss_mask = mask_generator.get_loss_mask(oai_messages)
        response_length = mask_generator.get_response_lengths([loss_mask])[0]

        sample = Sample(
            index=record["instance_id"],
            prompt=record["uid"],
            tokens=token_ids,
            response_length=response_length,
            reward=record["reward"],
            truncated=False,
            loss_mask=loss_mask[-response_length:],
            metadata={
                **record["extra_info"],
                "raw_reward": record["raw_reward"]
            }
        )
        samples.append(sample)

    # Add to buffer and log
    data_buffer.extend(samples)
    log_raw_info(args, all_meta_info, rollout_id)

    return samples
