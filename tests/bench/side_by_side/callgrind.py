"""What a callgrind file says: who executed how many instructions, and how often the library was called."""

import collections
import re


class Counted:
    """total; own: (object, function) → instructions of its own; calls: wrapper → calls of it from outside the library."""

    def __init__(self):
        self.total, self.own, self.calls = 0, collections.Counter(), collections.Counter()

    def library(self, name="libholdfast.so"):
        """Instructions that the library executed itself."""
        return sum(cost for (where, _), cost in self.own.items() if where.endswith(name))


def wrapper(function):
    # Entry points have two names each, and callgrind takes either.
    function = re.sub(r"^holdfast_own_?", "", function.split("'")[0])
    return "_" + function if function.startswith("Z") else function


def read(path, library="libholdfast.so"):
    """callgrind's format: `ob=` and `fn=` begin a function's own costs; `calls=` says that the next line is a callee's.
    Names stand there once, as `(number) name`."""
    counted, names = Counted(), {}

    def named(text, kind):
        number, _, name = text.partition(" ")
        if name:
            names[kind, number] = name
        return names.get((kind, number), "")

    where = callee_where = function = callee = ""
    of_callee = False
    with open(path, errors="replace") as file:
        for line in file:
            first = line[0]
            if first.isdigit() or first in "+-*":
                if not of_callee:
                    counted.own[where, function] += int(line.split()[1])
                of_callee = False
            elif line.startswith("fn="):
                function, callee_where = named(line[3:-1], "fn"), where
            elif line.startswith("calls="):
                if callee_where.endswith(library) and not where.endswith(library):
                    counted.calls[wrapper(callee)] += int(line[6:].split()[0])
                of_callee, callee_where = True, where
            elif line.startswith("cfn="):
                callee = named(line[4:-1], "fn")
            elif line.startswith("cob="):
                callee_where = named(line[4:-1], "ob")
            elif line.startswith("ob="):
                where = callee_where = named(line[3:-1], "ob")
    counted.total = sum(counted.own.values())
    return counted
