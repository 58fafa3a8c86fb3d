"""The campaigns stand in bench/torture; their short forms are tests."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
