"""Configs from pages and the API: what they may name beside fields of their own."""

from collections.abc import Mapping
from typing import Any

from django.conf import settings

from training_core.config.files import parse_config
from training_core.config.kinds import AnyConfig
from training_core.config.permitted import check_permitted


def parse_permitted(tree: Mapping[str, Any]) -> AnyConfig:
    """A config that may be run for anybody who may launch here.

    Raises ConfigError with one message per field, also for code whose package is not in TROUPE_IMPORT_PACKAGES and for
    files outside the data folder.
    """
    config = parse_config(tree)
    check_permitted(config, settings.TROUPE_IMPORT_PACKAGES)
    return config
