"""`workers.run` by the asynchronous loop, which at staleness 0 gives the numbers of the synchronous one."""

import sys
from unittest.mock import patch

from workers.run import main

if __name__ == "__main__":
    with patch("workers.driver.loop.plays_ahead", lambda config: True):
        sys.exit(main())
