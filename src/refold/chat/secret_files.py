"""Files that may hold secrets, told by their names and by the first line of a key; reads nothing itself."""

import re
from pathlib import PurePath
from typing import Final

_NAMES: Final = re.compile(
    r"""
      \.env(\..+)? | \.envrc | .+\.env            # variables of a program
    | id_(rsa|dsa|ecdsa|ed25519)(_\w+)?           # keys of SSH; the public half ends with .pub
    | .+\.(pem|key|p12|pfx|jks|keystore|ppk|kdbx|asc|ovpn)
    | [._]netrc | \.pgpass | \.my\.cnf | \.npmrc | \.pypirc | \.git-credentials | \.htpasswd | \.vault[-_]?\w*
    | (.*[-_.]|aws|gcp|client|db)?(credentials?|creds|secrets?|passwords?)(\.\w+)*
    | client[-_]?secrets?[-_.].+ | gha-creds-.+   # as Google and its GitHub action name them
    | (aws|gcp|client|db|api|auth|oauth|access|refresh|bot)?[-_.]?tokens?(\.\w+)*  # not those of a tokeniser
    | service[-_]?account.*\.json | kubeconfig | .+\.(tfvars|tfstate)(\.\w+)?
    """,
    re.VERBOSE | re.IGNORECASE,
)
_FOLDERS: Final = frozenset({".ssh", ".aws", ".azure", ".gnupg", ".kube", ".docker", "secrets"})
_EXAMPLES: Final = re.compile(
    r".*[._-](example|sample|template|dist)(\.(json|ya?ml|toml|ini|cfg|conf|txt|xml|env|properties|tfvars))?"
    r"|\.env\.defaults?",
    re.IGNORECASE,
)
"""Names of files that show the form of another one. One more ending, such as `.local`, means that they are
filled in. In a folder for secrets these names are not believed."""
_PUBLIC_KEYS: Final = re.compile(r".+\.pub", re.IGNORECASE)
_BACKUPS: Final = re.compile(
    r"^#|#$|(~|\.(bak|back|backup|old|orig|save|saved|copy|tmp|sw[a-p]|\d+))+$", re.IGNORECASE
)
"""What editors and people add to the name of a file when they keep it beside a new one."""
_CODE: Final = re.compile(
    r".*\.(py|md|rst|rs|go|[jt]sx?|mjs|vue|svelte|html|s?css|c|h|cc|[ch]pp|cs|java|kt|swift|rb|php)",
    re.IGNORECASE,
)
"""Endings of files that speak of secrets and should hold none."""
_PRIVATE_KEY: Final = re.compile(rb"-----BEGIN [A-Z0-9 ]*PRIVATE KEY-----")
_LOOKED_AT: Final = 4_096
"""Bytes of a file that are searched for the first line of a key, which stands at its beginning."""


def is_secret_name(path: PurePath) -> bool:
    """True if a path inside the working folder is named as files with secrets are.

    >>> [is_secret_name(PurePath(name)) for name in (".env", "a/.ssh/config", ".env.example", "tokens.py")]
    [True, True, False, False]
    """
    name = _BACKUPS.sub("", path.name)
    if _PUBLIC_KEYS.fullmatch(name):
        return False
    if not _FOLDERS.isdisjoint(part.lower() for part in path.parts[:-1]):
        return True
    if _EXAMPLES.fullmatch(name) or _CODE.fullmatch(name):
        return False
    # an editor's copy has one more dot in front: `.id_rsa.swp`
    return any(_NAMES.fullmatch(word) is not None for word in (name, name.removeprefix(".")))


def holds_private_key(raw: bytes) -> bool:
    """True if a file begins with a private key."""
    return _PRIVATE_KEY.search(raw[:_LOOKED_AT]) is not None
