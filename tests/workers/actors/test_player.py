"""Rendered prompts are kept within a bound; those used last stay."""

from workers.actors.player import PromptCache


def test_the_prompts_used_last_stay() -> None:
    rendered: list[str] = []

    def get(name: str, length: int = 4) -> list[int]:
        def render() -> list[int]:
            rendered.append(name)
            return [length] * length

        return cache.get(name, render)

    cache = PromptCache(10)
    get("a"), get("b"), get("a"), get("c")
    assert rendered == ["a", "b", "c"] and len(cache) == 2
    assert get("a") == [4] * 4 and rendered == ["a", "b", "c"]
    get("b")
    assert rendered == ["a", "b", "c", "b"] and len(cache) == 2
    assert get("longer than the cache", 11) == [11] * 11 and len(cache) == 0
    get("a"), get("b")
    assert len(cache) == 2
