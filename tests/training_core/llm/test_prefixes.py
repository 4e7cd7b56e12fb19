"""Which beginnings are shared."""

from training_core.llm.prefixes import SHORTEST, shared_prefixes

FIRST = tuple(range(SHORTEST))
SECOND = tuple(range(1, SHORTEST + 1))


def test_texts_that_begin_alike_share_the_longest_beginning_that_all_have() -> None:
    texts = [(*FIRST, 1, 2, 3), (*FIRST, 1, 2, 4), (*FIRST, 1, 9), (*SECOND, 5), (*SECOND, 6, 7), (7, 8)]
    shared = shared_prefixes(texts)
    assert shared == dict.fromkeys(texts[:3], (*FIRST, 1)) | dict.fromkeys(texts[3:5], SECOND)


def test_a_text_keeps_its_last_token() -> None:
    texts = [(*FIRST, 1), (*FIRST, 1, 2)]
    assert set(shared_prefixes(texts).values()) == {FIRST}


def test_alone_short_or_equal_texts_share_nothing() -> None:
    assert shared_prefixes([(*FIRST, 1), (*FIRST, 1), (*SECOND, 1), FIRST, FIRST[:-1]]) == {}
