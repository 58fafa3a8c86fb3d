"""Ctrl-C comes through where one waits, and waits where something is written; twice it comes through anywhere."""

import os
import signal
import threading
import time

import pytest

from refold.chat.interrupts import Interrupts


def press():
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(0.01)


def test_an_interruption_ends_a_wait():
    interrupts = Interrupts()
    with interrupts.active(), pytest.raises(KeyboardInterrupt), interrupts.interruptible():
        press()


def test_elsewhere_it_is_kept_until_the_next_wait():
    interrupts = Interrupts()
    done = []
    with interrupts.active():
        press()
        done.append("written")
        with pytest.raises(KeyboardInterrupt), interrupts.interruptible():
            done.append("not here")
        with interrupts.interruptible():
            done.append("once only")
    assert done == ["written", "once only"]


def test_twice_it_comes_through_anywhere():
    with Interrupts().active():
        press()
        with pytest.raises(KeyboardInterrupt):
            press()


def test_afterwards_everything_is_as_before():
    before = signal.getsignal(signal.SIGINT)
    interrupts = Interrupts()
    with interrupts.active():
        press()
    assert signal.getsignal(signal.SIGINT) is before
    with interrupts.interruptible():
        pass


def test_other_threads_are_left_alone():
    interrupts = Interrupts()
    seen = []

    def work():
        with interrupts.active(), interrupts.interruptible():
            seen.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [signal.getsignal(signal.SIGINT)]
