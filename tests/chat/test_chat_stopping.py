"""Ctrl-C comes through where one waits, and waits where something is written; twice it comes through anywhere."""

import os
import signal
import threading
import time

import pytest

from refold.chat.stopping import Stops


def press():
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(0.01)


def test_an_interruption_ends_a_wait():
    stops = Stops()
    with stops.heeded(), pytest.raises(KeyboardInterrupt), stops.breakable():
        press()


def test_elsewhere_it_is_kept_until_the_next_wait():
    stops = Stops()
    done = []
    with stops.heeded():
        press()
        done.append("written")
        with pytest.raises(KeyboardInterrupt), stops.breakable():
            done.append("not here")
        with stops.breakable():
            done.append("once only")
    assert done == ["written", "once only"]


def test_twice_it_comes_through_anywhere():
    with Stops().heeded():
        press()
        with pytest.raises(KeyboardInterrupt):
            press()


def test_afterwards_everything_is_as_before():
    before = signal.getsignal(signal.SIGINT)
    stops = Stops()
    with stops.heeded():
        press()
    assert signal.getsignal(signal.SIGINT) is before
    with stops.breakable():
        pass


def test_other_threads_are_left_alone():
    stops = Stops()
    seen = []

    def work():
        with stops.heeded(), stops.breakable():
            seen.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [signal.getsignal(signal.SIGINT)]
