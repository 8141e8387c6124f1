"""All figures of scripts/bench, as they were measured, and how those of a later run take the place of earlier ones.

runs: work → configuration → its rounds. instructions: program → configuration → what callgrind counted. paths, units: name →
figure. resident, peaks, redis memory, snapshots, agent: see processes.py. dates: work, "PROGRAM, instructions", or one of these names → the
day, and the commit. failures: by the same names, what could not be run. machine: where."""

import json
import os

GROUPS = ("runs", "instructions")  # whose entries are measured one by one
WHOLE = ("paths", "units", "resident", "peaks", "redis memory", "snapshots", "agent")


def none(machine):
    return {"machine": machine, "dates": {}, "failures": {}, **{name: {} for name in GROUPS + WHOLE}}


def dated_as(group, name):
    return f"{name}, instructions" if group == "instructions" else name


def dated(results, day):
    """Says of everything in `results` that it was measured then: a day and a commit."""
    for group in GROUPS:
        for name in results[group]:
            results["dates"][dated_as(group, name)] = day
    for name in WHOLE:
        if results[name]:
            results["dates"][name] = day
    return results


def merged(old, new):
    """Everything of `old` but what `new` measured again. What it tried to in vain, as bare or we failed, is said beside the
    old figures."""
    found = json.loads(json.dumps(old))
    for group in GROUPS:
        for name, figures in new[group].items():
            if {"bare", "default"} <= figures.keys():
                found[group][name] = figures
                found["dates"][dated_as(group, name)] = new["dates"][dated_as(group, name)]
    for name in WHOLE:
        if new[name]:
            found[name], found["dates"][name] = new[name], new["dates"][name]
    found["failures"] = {name: said for name, said in old["failures"].items() if name not in new["dates"]} | new["failures"]
    return found


def load(path, machine):
    """None where there are none, or those of another machine."""
    if not os.path.exists(path):
        return None
    with open(path) as file:
        found = json.load(file)
    return {**none(machine), **found} if found.get("machine") == machine else None


def save(results, path):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path + ".new", "w") as out:
        json.dump(results, out, indent=1)
    os.replace(path + ".new", path)
