"""`python -m refold` is the same program as `refold`."""

import sys

from refold.cli import main

if __name__ == "__main__":
    sys.exit(main())
