"""The command `python -m refold.clients.local fetch`: fetch the weights of the local model."""

import sys

from refold.clients.local.model_files import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
