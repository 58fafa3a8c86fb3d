"""The upstreams that a gateway knows, by their names."""

from typing import Final, Literal, TypeAlias, get_args

Upstream: TypeAlias = Literal["openai", "anthropic", "gemini"]
UPSTREAMS: Final[tuple[Upstream, ...]] = get_args(Upstream)
