"""Ratios of what was measured in the same rounds, and how sure they are."""

import dataclasses
import random
import statistics

from report import over_bare_by_round


@dataclasses.dataclass
class Estimate:
    """The median (or another figure) of the rounds, and the interval in which it lies in 99 of 100 such measurements (in some fewer where more
    rounds were run until it lay on one side of a bound)."""

    middle: float
    low: float
    high: float

    def __str__(self):
        return f"{self.low:.3f}–{self.high:.3f}"


def estimate(rounds, figure=statistics.median, resamples=2000):
    """Of the rounds' `figure`, by the bootstrap: that of as many rounds drawn from these. None without any."""
    if not rounds:
        return None
    drawn = random.Random(1)
    figures = sorted(figure(drawn.choices(rounds, k=len(rounds))) for _ in range(resamples))
    return Estimate(figure(rounds), figures[int(0.005 * resamples)], figures[int(0.995 * resamples)])


def lower_quartile(values):
    return statistics.quantiles(values, n=4)[0]


def more_at_the_lower_quartile(pairs):
    """Of (one, other) of the same rounds."""
    return lower_quartile([one for one, _ in pairs]) - lower_quartile([other for _, other in pairs])


def over_bare(results, work, configuration, measure):
    return estimate(list(over_bare_by_round(results, work, configuration, measure).values()))


def over_other(results, one, other, measure):
    """The ratio to bare of one (work, configuration) over that of another that was run in the same rounds."""
    ones, twos = (over_bare_by_round(results, *of, measure) for of in (one, other))
    return estimate([ones[turn] / twos[turn] for turn in ones if turn in twos])
