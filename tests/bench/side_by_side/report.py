"""The figures as Markdown tables and an SVG plot."""

import math
import statistics


def ratio_cell(ratios):
    """The median of the rounds' ratios, and half their spread."""
    if not ratios:
        return "–"
    ratio = statistics.median(ratios)
    spread = (max(ratios) - min(ratios)) / 2 * 100
    return f"{ratio:.{3 if ratio < 9.995 else 1}f}" + (f" ±{spread:.0f} %" if len(ratios) > 1 else "")


def table(rows, columns, cell, first):
    lines = ["| " + " | ".join([first] + columns) + " |", "|" + "---|" * (len(columns) + 1)]
    lines += ["| " + " | ".join([row] + [cell(row, column) for column in columns]) + " |" for row in rows]
    return "\n".join(lines) + "\n"


def of(results, work, configuration, measure):
    return [run[measure] for run in results.get(work, {}).get(configuration, []) if measure in run]


def over_bare_by_round(results, work, configuration, measure):
    """Round → its ratio to the bare run of the same round: what slows the machine for a while slows both."""
    def by_round(name):
        runs = enumerate(results.get(work, {}).get(name, []))
        return {run.get("round", i): run[measure] for i, run in runs if measure in run}

    bare = by_round("bare")
    return {turn: value / bare[turn] for turn, value in by_round(configuration).items() if bare.get(turn, 0) > 0}


def ratios(results, works, configurations, measure, first, bare_text):
    """The bare column in its own unit, the others as ratios to it."""
    def cell(work, configuration):
        values = of(results, work, configuration, measure)
        if configuration == "bare":
            return bare_text(statistics.median(values)) if values else "–"
        return ratio_cell(list(over_bare_by_round(results, work, configuration, measure).values()))

    return table(works, configurations, cell, first)


def plain(results, works, configurations, measure, first, text):
    def cell(work, configuration):
        values = of(results, work, configuration, measure)
        return text(statistics.median(values)) if values else "–"

    return table(works, configurations, cell, first)


def kib(value):
    return f"{value / 1024:.1f} MiB"


def size(value):
    return "0" if value == 0 else f"{value / 1024:.1f} KiB" if value < 1 << 20 else f"{value / (1 << 20):.1f} MiB"


# ---- The plot: CPU time of each program over bare, a dot for each configuration, on a logarithmic scale ----

COLORS = {"idle": "#9ecae1", "default": "#08519c", "64KiB": "#3182bd", "every": "#6baed6", "jemalloc": "#c7c7c7", "jemalloc-prof": "#2ca02c",
          "tcmalloc": "#dbdb8d", "tcmalloc-sampling": "#bcbd22", "gperftools-heap": "#d62728", "heaptrack": "#ff7f0e"}


def plot(results, works, configurations, measure, title):
    configurations = [c for c in configurations if c != "bare"]
    left, top, row, width = 130, 60, 34, 560
    height = top + row * len(works) + 40 + 18 * math.ceil(len(configurations) / 4)
    points = []
    for work in works:
        of_rounds = [(c, over_bare_by_round(results, work, c, measure).values()) for c in configurations]
        points.append([(c, statistics.median(ratios) if ratios else None) for c, ratios in of_rounds])
    every = [value for line in points for _, value in line if value]
    low, high = min(every + [0.7]), max(every + [2])
    scale = lambda value: left + width * (math.log(value) - math.log(low)) / (math.log(high) - math.log(low))
    svg = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{left + width + 40}" height="{height}" font-family="sans-serif" font-size="12">',
           f'<rect width="100%" height="100%" fill="white"/><text x="{left}" y="24" font-size="14">{title}</text>']
    for tick in (0.5, 0.7, 1, 1.5, 2, 3, 5, 10, 20, 50, 100):
        if low <= tick <= high:
            x = scale(tick)
            svg.append(f'<line x1="{x:.1f}" y1="{top - 14}" x2="{x:.1f}" y2="{top + row * len(works) - 14}" stroke="{"#333" if tick == 1 else "#ddd"}"/>'
                       f'<text x="{x:.1f}" y="{top - 18}" text-anchor="middle" fill="#555">{tick:g}×</text>')
    for i, (work, line) in enumerate(zip(works, points)):
        y = top + row * i + 4
        svg.append(f'<text x="{left - 10}" y="{y + 4}" text-anchor="end">{work}</text>')
        for configuration, value in line:
            if value:
                svg.append(f'<circle cx="{scale(value):.1f}" cy="{y}" r="{6 if configuration == "default" else 4.5}" fill="{COLORS.get(configuration, "#555")}" '
                           f'fill-opacity="0.85"><title>{work}, {configuration}: {value:.3f}×</title></circle>')
    for i, configuration in enumerate(configurations):
        x, y = left + 150 * (i % 4) - 100, top + row * len(works) + 18 + 18 * (i // 4)
        svg.append(f'<circle cx="{x}" cy="{y - 4}" r="4.5" fill="{COLORS.get(configuration, "#555")}"/><text x="{x + 10}" y="{y}">{configuration}</text>')
    return "\n".join(svg) + "\n</svg>\n"


def replace_between(path, mark, text):
    """Puts `text` between the two comments that carry `mark`; everything else in the file stays."""
    begin, end = f"<!-- {mark}: begin -->\n", f"<!-- {mark}: end -->"
    with open(path) as file:
        old = file.read()
    first, last = old.find(begin), old.find(end)
    if first < 0 or last < first:
        raise SystemExit(f"bench: {path} has no place marked '{mark}'. Put the lines '{begin.strip()}' and '{end}' into it.")
    with open(path, "w") as file:
        file.write(old[:first + len(begin)] + text + old[last:])
