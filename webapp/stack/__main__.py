"""`python -m webapp.stack`: the equivalent of `manage.py up` without a manage.py."""

import sys

from webapp.stack.up import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
