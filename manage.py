#!/usr/bin/env python
"""Django's command line: `manage.py up` starts the whole stack."""

import os
import sys

from troupe_client.pythons import python_error

if __name__ == "__main__":
    error = python_error()
    if error:
        sys.exit(error)
    if sys.argv[1:2] == ["up"]:  # without Django: it only watches its children, and should be there at once
        from webapp.stack.up import main

        sys.exit(main(sys.argv[2:]))
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "webapp.config.settings")
    from django.core.management import execute_from_command_line

    execute_from_command_line(sys.argv)
