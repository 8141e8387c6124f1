"""scripts/bench: see there."""

import argparse
import datetime
import os
import platform
import re
import subprocess
import sys
import time

import page
import report
import results as kept
from configurations import all_configurations, least_locks
from measure import measure, say
from works import needed_programs, works_by_name


def machine():
    with open("/proc/cpuinfo") as info:
        model = next((line.split(":")[1].strip() for line in info if line.startswith("model name")), platform.machine())
    with open("/etc/os-release") as release:
        system = next((line.split("=")[1].strip().strip('"') for line in release if line.startswith("PRETTY_NAME")), "Linux")
    return f"{model}, {os.cpu_count()} cores; {system}, glibc {platform.libc_ver()[1]}, Linux {platform.release()}"


def commit(top):
    said = subprocess.run(["git", "-C", top, "describe", "--always", "--dirty"], capture_output=True, text=True)
    return said.stdout.strip() or "no commit"


def arguments_or_exit():
    parser = argparse.ArgumentParser(prog="scripts/bench")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", default="", metavar="REGEX")
    parser.add_argument("--configurations", default="", metavar="REGEX")
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--build", default="build/release")
    arguments = parser.parse_args()
    if arguments.write and (arguments.quick or arguments.configurations):
        parser.error("--write puts figures into the documents beside those of whole runs. Leave out --quick and --configurations, or --write.")
    for name in ("only", "configurations"):
        try:
            re.compile(getattr(arguments, name))
        except re.error as error:
            parser.error(f"--{name} '{getattr(arguments, name)}' is no regular expression: {error}")
    return arguments


def main():
    arguments = arguments_or_exit()
    top = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
    build = os.path.abspath(arguments.build)
    path = os.path.join(build, "bench/results.json")
    if missing := needed_programs():
        say(f"missing: {', '.join(missing)}. scripts/deps bench installs them.")
        return 3
    here, begin = machine(), time.monotonic()
    earlier = kept.load(path, here)
    if arguments.write and arguments.only and earlier is None:
        say(f"--only with --write adds to the figures of a whole run, and {path} has none of this machine. Run scripts/bench --write first, or leave out --write.")
        return 2
    all_of_them, remarks = all_configurations(build)
    configurations = [c for c in all_of_them if c.name == "bare" or re.search(arguments.configurations, c.name)]
    results = kept.none(here)
    measure(results, top, build, configurations, arguments.quick, lambda name: re.search(arguments.only, name) is not None)
    kept.dated(results, f"{datetime.date.today()} ({commit(top)})")
    if not results["dates"] and not results["failures"]:
        say(f"nothing is called '{arguments.only}'. scripts/bench --help lists what can be asked for.")
        return 2
    say(f"all together {time.monotonic() - begin:.0f} s")

    command = "scripts/bench"
    if arguments.write:
        results = kept.merged(earlier, results) if arguments.only else results
        kept.save(results, path)
        command += " --write"
    else:
        kept.save(results, os.path.join(build, "bench/last.json"))
        command += (" --quick" if arguments.quick else "") + (f" --only '{arguments.only}'" if arguments.only else "")
        command += f" --configurations '{arguments.configurations}'" if arguments.configurations else ""
    names = works_by_name(build, arguments.quick)
    verdicts, picture = page.verdicts(results, names, command), page.plot(results, names, all_of_them)
    text = page.tables(results, names, all_of_them, least_locks(build), remarks, command)
    if arguments.write:
        report.replace_between(os.path.join(top, "docs/performance.md"), "scripts/bench: bounds", verdicts)
        report.replace_between(os.path.join(top, "docs/performance.md"), "scripts/bench: tables", text)
        report.replace_between(os.path.join(top, "README.md"), "scripts/bench: cost", page.cost_table(results))
        with open(os.path.join(top, "docs/performance.svg"), "w") as out:
            out.write(picture or "")
        say(f"wrote docs/performance.md, docs/performance.svg and README.md; all figures are in {path}")
        return 0
    print(verdicts)
    print(text)
    if picture:
        with open(os.path.join(build, "bench/performance.svg"), "w") as out:
            out.write(picture)
        say(f"the plot is {build}/bench/performance.svg, all figures are in last.json beside it")
    return 0


sys.exit(main())
