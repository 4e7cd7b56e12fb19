"""Every field of the config has a rule that says when it has an effect (training_core/config/effects)."""

from typing import Any, get_args

import pytest

from training_core.config.base import Section
from training_core.config.effects.unused import EFFECTS, rule_of
from training_core.config.kinds import CONFIG_KINDS


def sections(kind: Any, found: set[type[Section]]) -> set[type[Section]]:
    """All section classes that a field of this kind may hold."""
    if isinstance(kind, type) and issubclass(kind, Section):
        if kind not in found:
            found.add(kind)
            for field in kind.model_fields.values():
                sections(field.annotation, found)
    else:
        for part in get_args(kind):
            sections(part, found)
    return found


SECTIONS = sorted(
    {each for kind in CONFIG_KINDS.values() for each in sections(kind.config, set())},
    key=lambda each: each.__name__,
)


@pytest.mark.parametrize("section", SECTIONS, ids=lambda section: section.__name__)
def test_every_field_has_a_rule(section: type[Section]) -> None:
    for name in section.model_fields:
        assert callable(rule_of(section, name))


def test_tables_name_no_field_that_is_gone() -> None:
    for section, rules in EFFECTS.items():
        assert set(rules) <= set(section.model_fields), section.__name__
