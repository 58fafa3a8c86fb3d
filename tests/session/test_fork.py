"""A process that is forked while a thread is inside of a session: parent and child go on."""

import os
import subprocess
import sys
import textwrap

import pytest

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
SECONDS = 120
"""Only stops a child that hangs."""
PROGRAM = """
    import os, signal, sys, threading
    import refold

    class Stopping:
        \"\"\"A store whose appends wait at a point, inside of its own locks where it has some.\"\"\"

        def __init__(self, inner):
            self.inner, self.inside, self.go_on = inner, threading.Event(), threading.Event()
            self.now = inner._now
            inner._now = self.stop
            self.armed = False

        def stop(self):
            if self.armed:
                self.armed = False
                self.inside.set()
                self.go_on.wait()
            return self.now()

    address, how = sys.argv[1:]
    store = refold.open_store(address)
    session = refold.open("t", store=store, window=4000)
    session.say("first")
    stopping = Stopping(store)
    stopping.armed = True
    thread = threading.Thread(target=session.say, args=["second"])
    thread.start()
    stopping.inside.wait()
    if how == "locked":  # as if a thread were inside of a listener's list, too
        session.state.events.listeners._lock.acquire()
    child = os.fork()
    if child == 0:
        signal.alarm(60)  # only stops a child that hangs
        session.subscribe(print)
        session.say("third, of the child")
        print([message["content"] for message in session.view()], flush=True)
        session.close()
        os._exit(0)
    stopping.go_on.set()
    thread.join()
    assert os.waitpid(child, 0)[1] == 0
    print([message["content"] for message in session.view()], [d.what for d in store.check()])
"""


LOCKED = """
    import os, sys
    from pathlib import Path
    from refold.stores import disk
    disk.WAIT_SECONDS = 0.0
    path = Path(sys.argv[1])
    path.touch()
    read, write = os.pipe()
    with disk.open_file(path, write=True) as file:
        disk.lock(file, path)
        child = os.fork()
        if child == 0:
            os.close(write)
            os.read(read, 1)  # lives until the parent has tried
            os._exit(0)
    with disk.open_file(path, write=True) as file:
        disk.lock(file, path)
        print("locked again")
    os.close(write)
    os.waitpid(child, 0)
"""


def run(address, how="free", program=PROGRAM):
    program = [sys.executable, "-c", textwrap.dedent(program), address, how]
    done = subprocess.run(program, capture_output=True, text=True, check=False, timeout=SECONDS)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.mark.few_values(1)
@pytest.mark.parametrize("scheme", ["sqlite", "jsonl"])
def test_a_child_goes_on_while_a_thread_of_the_parent_is_inside(scheme, tmp_path):
    child, parent = run(f"{scheme}:{tmp_path}/store")
    said = {"first", "second", "third, of the child"}
    assert set(eval(child)) <= said  # a list that this test has printed
    assert "third, of the child" in child
    messages, _, defects = parent.rpartition(" [")
    assert set(eval(messages)) == said  # the same
    assert defects == "]"


def test_a_session_in_memory_is_a_copy_in_the_child():
    child, parent = run("memory:", "locked")
    assert "third, of the child" in child
    assert parent.startswith("['first', 'second'] ")


def test_a_child_does_not_keep_the_lock_of_a_file(tmp_path):
    assert run(str(tmp_path / "log"), program=LOCKED) == ["locked again"]
