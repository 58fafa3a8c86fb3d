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
    | (aws|gcp|client|db)?[-_.]?(credentials?|secrets?|passwords?|tokens?)(\.\w+)*
    | service[-_]?account.*\.json | kubeconfig | .+\.(tfvars|tfstate)(\.\w+)?
    """,
    re.VERBOSE | re.IGNORECASE,
)
_FOLDERS: Final = frozenset({".ssh", ".aws", ".azure", ".gnupg", ".kube", ".docker", "secrets"})
_EXAMPLES: Final = re.compile(
    r".*[._-](example|sample|template|dist|defaults?)(\.\w+)?|.+\.pub", re.IGNORECASE
)
"""Names of files that show the form of another one, and of public keys."""
_PRIVATE_KEY: Final = re.compile(rb"-----BEGIN [A-Z0-9 ]*PRIVATE KEY-----")
_LOOKED_AT: Final = 4_096
"""Bytes of a file that are searched for the first line of a key, which stands at its beginning."""


def is_secret_name(path: PurePath) -> bool:
    """True if a path inside the working folder is named as files with secrets are.

    >>> [is_secret_name(PurePath(name)) for name in (".env", "a/.ssh/config", ".env.example", "tokens.py")]
    [True, True, False, False]
    """
    if _EXAMPLES.fullmatch(path.name):
        return False
    is_code = path.suffix in (".py", ".md", ".rs", ".go", ".ts", ".js", ".c", ".h", ".java", ".rb")
    named = _NAMES.fullmatch(path.name) is not None and not is_code
    return named or not _FOLDERS.isdisjoint(part.lower() for part in path.parts[:-1])


def holds_private_key(raw: bytes) -> bool:
    """True if a file begins with a private key."""
    return _PRIVATE_KEY.search(raw[:_LOOKED_AT]) is not None
