"""Benchmarks of the web side need Django before they are imported."""

import django

django.setup()  # conftest files are imported before pytest-django does it
