"""A format under test, with what its tests call: one message in, one item out, the rules that a list breaks."""

from dataclasses import replace

from refold import formats


def open_format(name):
    """The format, and functions of it: parse, render, one, touched, rules."""
    wire = formats.get(name)

    def one(item):
        """The message of one item."""
        (message,) = wire.parse([item])
        return message

    def touched(message, *parts, **changes):
        """The item of a message that has other parts now."""
        (item,) = wire.render([replace(message, parts=parts, **changes)])
        return item

    def rules(*items):
        """Where a provider would refuse these items, and by which rule."""
        return [(problem.index, problem.rule) for problem in wire.check(wire.parse(items))]

    return wire, wire.parse, wire.render, one, touched, rules
