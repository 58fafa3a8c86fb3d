"""Nobody who set up no logging sees the log of the library that asks again."""

import subprocess
import sys

ASKS = """
from refold.clients import open_client
from refold import Ask
from refold.errors import AnswerFailed
try:
    open_client("http://127.0.0.1:9/v1#m", connect_seconds=2).ask(Ask("hi"))
except AnswerFailed as error:
    print(error)
"""


def test_asking_again_writes_nothing_on_the_screen():
    done = subprocess.run([sys.executable, "-c", ASKS], capture_output=True, timeout=60, check=True)
    assert b"cannot be reached" in done.stdout
    assert done.stderr == b""
