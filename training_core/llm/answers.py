"""The answer part of a text: reasoning models write `<think> ... </think>` before the answer."""

import re

THOUGHT_ENDS = re.compile(r"</think(?:ing)?>|\[/THINK\]")
THOUGHT_BEGINS = re.compile(r"<think(?:ing)?>|\[THINK\]")


def after_thought(text: str) -> str:
    """The text after the last </think>. An unclosed reasoning part is removed; a text without reasoning is returned
    unchanged.

    >>> after_thought("<think>4? no</think>5")
    '5'
    """
    ends = list(THOUGHT_ENDS.finditer(text))
    answer = text[ends[-1].end() :] if ends else text
    begins = THOUGHT_BEGINS.search(answer)
    return answer[: begins.start()] if begins else answer
