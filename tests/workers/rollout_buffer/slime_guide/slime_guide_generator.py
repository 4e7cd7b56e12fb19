"""A generator as slime's agent rollout guide tells its readers to write it, word for word but for one import and two names.

`BaseGenerator` comes from workers.rollout_buffer.generator in place of slime's; the guide leaves your_custom_rollout_function and
your_custom_reward_function to its readers.
"""

# mypy: ignore-errors
# ruff: noqa
# fmt: off

import copy
import json
import random
import time
from openai import OpenAI

from workers.rollout_buffer.generator import BaseGenerator

# REQUIRED: Define your task type
TASK_TYPE = "your_custom_task"

# REQUIRED: Main rollout function
def run_rollout(data: dict):
    print(f"Starting {TASK_TYPE} rollout with data: {data}")

    # Initialize your generator
    generator = BaseGenerator(
        data["remote_engine_url"],
        data["remote_buffer_url"],
        num_repeat_per_sample=int(data["num_repeat_per_sample"]),
        queue_size=1000000,
        max_tokens=int(data["sampling_params"]["max_tokens"]),
        num_process=int(data.get("num_process", 100)),
        task_type=data["task_type"],
        skip_instance_ids=data.get("skip_instance_ids", None),
    )

    # Define your rollout and reward functions
    rollout_func = your_custom_rollout_function
    reward_func = your_custom_reward_function

    # Start generation
    generator.entry(
        data["input_file"],
        rollout_func,
        reward_func,
        int(data.get("num_epoch", 1))
    )

# Example rollout function (from base_generator.py)
def query_single_turn(client, messages, sampling_params, tools=None):
    """Generate a single response from the model."""
    base_payload = {
        "messages": messages,
        **sampling_params,
        "model": "custom",
        "stream": False,
        "seed": random.randint(1, 10000000),
        "tools": tools,
    }

    text = None
    accumulated_tokens = 0

    for attempt in range(6):
        try:
            current_payload = copy.deepcopy(base_payload)

            # Handle continuation for long responses
            if text is not None:
                current_messages = copy.deepcopy(messages)
                current_messages.append({"role": "assistant", "content": text})
                current_payload["messages"] = current_messages

                if "max_tokens" in sampling_params:
                    current_payload["max_tokens"] = max(
                        0,
                        sampling_params["max_tokens"] - accumulated_tokens
                    )

                current_payload["extra_body"] = {"continue_final_message": True}

            response = client.chat.completions.create(**current_payload)

            if len(response.choices) > 0:
                if response.choices[0].finish_reason == "abort":
                    # Handle partial generation
                    accumulated_tokens += response.usage.completion_tokens
                    text = (text or "") + response.choices[0].message.content
                    time.sleep(10)
                    continue

                # Success - combine text
                if text is None:
                    text = response.choices[0].message.content
                elif response.choices[0].message.content is not None:
                    text += response.choices[0].message.content
                break

        except Exception as e:
            print(f"Query failed: {e}")
            continue

    # Update messages with final response
    messages.append({"role": "assistant", "content": text})
    return messages


your_custom_rollout_function = query_single_turn


def custom_reward_function(messages):
    """Calculate reward based on your criteria."""
    last_response = messages[-1]["content"]

    # Example: Length-based reward
    length_reward = min(len(last_response) / 1000, 1.0)

    # Example: Quality checks
    quality_reward = 0
    if "correct_answer" in last_response:
        quality_reward = 1.0

    return length_reward * 0.3 + quality_reward * 0.7


your_custom_reward_function = custom_reward_function


def normalize_group_data(group_data):
    """
    Normalize rewards within a group.
    Default: Normalizes valid rewards and scales by group_size/valid_size
    """
    valid_rewards = [item["reward"] for item in group_data if item["reward"] > -1]

    if not valid_rewards:
        return group_data

    mean_reward = sum(valid_rewards) / len(valid_rewards)
    std_reward = (sum((r - mean_reward) ** 2 for r in valid_rewards) / len(valid_rewards)) ** 0.5

    for item in group_data:
        if item["reward"] > -1:
            item["reward"] = (item["reward"] - mean_reward) / (std_reward + 1e-8)
            # Scale to maintain total reward
            item["reward"] *= len(group_data) / len(valid_rewards)

    return group_data

def is_valid_group(instance_id, group_data):
    """
    Determine if a group is valid for training.
    Returns: (is_valid, is_finished)
    """
    valid_count = sum(1 for item in group_data if item.get("reward", -1) > -1)
    total_count = len(group_data)

    # Group is finished if we have enough samples
    is_finished = total_count >= 8  # or your target group size

    # Group is valid if >70% samples are valid
    is_valid = is_finished and (valid_count / total_count >= 0.7)

    return is_valid, is_finished

def filter_item(item):
    """Filter individual items within valid groups."""
    # Keep items with valid rewards
    return item.get("reward", -1) > -1

def get_group_data_meta_info(all_group_data):
    """Collect statistics for monitoring."""
    total_samples = sum(len(group) for group in all_group_data.values())
    valid_samples = sum(
        sum(1 for item in group if item.get("reward", -1) > -1)
        for group in all_group_data.values()
    )

    all_rewards = [
        item["reward"]
        for group in all_group_data.values()
        for item in group
        if item.get("reward", -1) > -1
    ]

    return {
        "total_samples": total_samples,
        "valid_samples": valid_samples,
        "avg_reward": sum(all_rewards) / len(all_rewards) if all_rewards else 0,
        "max_reward": max(all_rewards) if all_rewards else 0,
        "min_reward": min(all_rewards) if all_rewards else 0,
    }
