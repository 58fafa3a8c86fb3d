"""Every public name is still there and takes what it took; what was added since does no harm."""

import inspect

import pytest
import surface_names
from surface_frozen import failure_text, lines

import refold

LINES = lines("signatures.txt")


def test_every_public_name_takes_what_it_took():
    """Each frozen line holds: kinds, bases, fields in order, parameters by place and name, plain defaults, knobs."""
    found = [complaint for line in LINES for complaint in surface_names.complaints(line)]
    assert not found, failure_text(found, "signatures")


def test_no_name_has_left_the_list():
    """`refold.__all__` still has every frozen name."""
    then = {line.removeprefix("async ").split()[0].split("(")[0].split(".")[0] for line in LINES} - {
        "testing"
    }
    assert then <= set(refold.__all__), failure_text(sorted(then - set(refold.__all__)), "signatures")


TRIED = {
    "measure": lambda **options: refold.measure([], **options),
    "compact": lambda **options: refold.compact([], **options),
    "plan": lambda **options: refold.plan([], **options),
    "open": lambda **options: refold.open("a", **{"store": "memory:", **options}).close(),
    "aopen": lambda **options: refold.aopen("a", **{"store": "memory:", **options}),
    "work": lambda **options: refold.work("memory:", **options),
}
SPECIAL = {
    "store": "memory:",
    "redaction": "off",
    "background": False,
    "endpoint": "",
    "with_model": True,
    "seconds": 1.0,
}
"""Values for keywords that do not take None."""


def keywords(name):
    """The keywords of a frozen line."""
    line = next(line for line in LINES if line.startswith(f"{name}("))
    return [word.partition("=")[0] for word in line.removesuffix(")").split("*, ")[1].split(", ")]


@pytest.mark.parametrize("name", TRIED)
def test_every_frozen_keyword_is_accepted(name):
    """A call with any one frozen keyword works, whether the signature tells it or not."""
    found = []
    for word in keywords(name):
        try:
            TRIED[name](**{word: SPECIAL.get(word)})
        except TypeError as error:
            found.append(f"{name}({word}=...): {error}")
    assert not found, failure_text(found, "signatures")


@pytest.mark.parametrize("name", sorted(TRIED.keys() - {"work"}))
def test_a_keyword_that_nobody_knows_is_refused(name):
    """A typing error is a TypeError, never a default."""
    with pytest.raises(TypeError):
        TRIED[name](nothing_like_this=1)


def test_a_knob_that_nobody_knows_is_refused():
    """A policy names the knob that it does not have."""
    for policy in surface_names.POLICIES:
        with pytest.raises(refold.RefoldError, match="nothing_like_this"):
            refold.presets.get(policy, nothing_like_this=1)


@pytest.mark.parametrize("policy", surface_names.POLICIES)
def test_knobs_have_the_defaults_they_had(policy):
    """A policy with every knob at its frozen default counts and triggers as the policy without any."""
    plain = refold.presets.get(policy)
    assert plain.name == policy
    make = getattr(refold.presets, policy)
    known = {
        line.split(" ", 2)[2].partition("=")[0]: line.partition("=")[2]
        for line in LINES
        if line.startswith(f"presets.get {policy} ")
    }
    found = [
        f"{policy}: the default of {name} was {known[name]}, is {parameter.default!r}"
        for name, parameter in inspect.signature(make).parameters.items()
        if name in known and known[name] != repr(parameter.default)
    ]
    assert not found, failure_text(found, "signatures")
