"""`python -m webapp.stack`: what `manage.py up` does, where there is no manage.py."""

import sys

from webapp.stack.up import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
