"""How hard the laws are tried: a fast share by default, `bench/laws.py` asks for more."""

import os

from hypothesis import HealthCheck, settings

from sample_sizes import few_or_all

settings.register_profile(
    "laws",
    max_examples=int(os.environ.get("REFOLD_EXAMPLES", few_or_all(3, 40))),
    deadline=None,
    derandomize="REFOLD_EXAMPLES" not in os.environ,
    suppress_health_check=list(HealthCheck),
)
settings.load_profile("laws")
