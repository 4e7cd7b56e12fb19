"""A bounded cache of rendered prompts."""

from collections import OrderedDict
from collections.abc import Callable, Hashable
from threading import Lock


class PromptCache:
    """The prompts that were used last, at most `tokens` tokens in total. Thread-safe."""

    def __init__(self, tokens: int) -> None:
        self._room = tokens
        """Tokens that can still be added."""
        self._prompts: OrderedDict[Hashable, list[int]] = OrderedDict()
        self._lock = Lock()

    def __len__(self) -> int:
        return len(self._prompts)

    def get(self, key: Hashable, render: Callable[[], list[int]]) -> list[int]:
        """The prompt with this key; `render` is called if it is not in the cache."""
        with self._lock:
            if key in self._prompts:
                self._prompts.move_to_end(key)
                return self._prompts[key]
        prompt = render()
        with self._lock:
            self._room += len(self._prompts.pop(key, ())) - len(prompt)
            self._prompts[key] = prompt
            while self._room < 0:
                self._room += len(self._prompts.popitem(last=False)[1])
        return prompt
