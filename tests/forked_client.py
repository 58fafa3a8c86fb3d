"""The program `refold` for a shell or a library that starts processes: asks the process that forks to run it.

    python -I -S forked_client.py SOCKET PRELOAD,... ARGUMENT...

It passes on its streams, its folder and its environment, waits, and ends as the program ended. It imports next
to nothing, so that it takes a twentieth of the program's start. Signals do not reach the program.
"""

import _socket
import json
import os
import sys
from array import array

place, preload, *arguments = sys.argv[1:]
asked = _socket.socket(_socket.AF_UNIX, _socket.SOCK_SEQPACKET)
asked.connect(place)
ours, theirs = _socket.socketpair(_socket.AF_UNIX, _socket.SOCK_SEQPACKET)
request = {
    "arguments": arguments,
    "folder": os.getcwd(),  # noqa: PTH109  # pathlib takes as long as all the rest
    "environment": dict(os.environ),
    "new_session": False,
    "preload": [name for name in preload.split(",") if name],
}
streams = array("i", [0, 1, 2, theirs.fileno()])
asked.sendmsg([json.dumps(request).encode()], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, streams)])
theirs.close()
for stream in (0, 1, 2):  # whoever reads or writes them is to see the program's end, not this one's
    os.close(stream)
ours.recv(32)  # its number
status = os.waitstatus_to_exitcode(int(ours.recv(32)))
os._exit(status if status >= 0 else 128 - status)
