"""The kinds of values that knobs of a policy have, for the signatures of presets.

    @check_arguments
    def my_preset(*, threshold: Share = 0.8, keep_tokens: Tokens | None = None) -> Policy: ...

`presets.get`, a call of the preset, `--set`, `[policy.NAME]` in refold.toml and the environment check them
by these annotations.
"""

from typing import Annotated, TypeAlias

from refold.arguments import Range
from refold.core.tokens.units import parse_tokens

Share: TypeAlias = Annotated[float, Range(0, 1)]
Count: TypeAlias = Annotated[int, Range(0)]
Tokens: TypeAlias = Annotated[int, Range(0, read=parse_tokens)]
PositiveTokens: TypeAlias = Annotated[int, Range(1, read=parse_tokens)]
