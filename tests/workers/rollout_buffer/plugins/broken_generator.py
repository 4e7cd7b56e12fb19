"""A file that cannot be loaded: the others still work."""

import a_package_that_is_not_there  # type: ignore[import-not-found]  # noqa: F401
