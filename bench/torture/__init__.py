"""Campaigns that try to make a store or a session lose a word, each with a checker that knows what was said.

    kills           SIGKILL at random moments, and between any two steps of a fold or a migration
    power           what may be on the disk after a loss of power, rebuilt from recorded writes
    faults          EIO, ENOSPC and EINTR from the n-th system call
    outages         a store that fails at random, while sessions go on from memory
    writers         eight processes on one store
    interleavings   turns and compactions in every order a seed can think of
    wires           random histories with every kind of block; no list that comes out is refused
    native          providers that compact by themselves, other models and keys; nothing is refused or lost
    binding         a server that binds thinking to its exact prefix; it refuses nothing
    postgres        processes and the server killed (bench/replicas.py)

Run them as `python -m bench.torture [--quick] [--only NAME] [--seed N] [--jobs N]` from the root of the
project. Each writes bench/results/torture-NAME.json: how much was tried, what was found wrong, and the
command that does it again. What is tried depends on the seed; when exactly a process is killed also on the
machine. Where nothing is installed, `PYTHONPATH=src:. python -m bench.torture --only NAME` runs kills,
outages, writers, interleavings, wires, native and binding; power needs apsw, faults needs strace, postgres
needs a server.
"""
