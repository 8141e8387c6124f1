// The metrics of a report, their names for people, and when to use which.
import type { Report, Series } from "./data";

export interface MetricHelp {
  title: string;
  short: string;
  when: string;
}

const help: Record<string, MetricHelp> = {
  "heap/inuse_space": {
    title: "Memory in use",
    short: "bytes held",
    when: "Start here when a process is too large. What is held at the moment of the snapshot, by the code that allocated it.",
  },
  "heap/inuse_objects": {
    title: "Objects in use",
    short: "objects held",
    when: "Many small blocks that each cost little: caches without a bound, lists that only grow.",
  },
  "heap/alloc_space": {
    title: "Memory allocated",
    short: "bytes allocated",
    when: "CPU time spent in malloc, or pressure on the allocator: everything ever allocated, also what is free again.",
  },
  "heap/alloc_objects": {
    title: "Allocations",
    short: "allocations",
    when: "The number of calls: temporary objects in a loop show here first.",
  },
  "block/delay": {
    title: "Time waited",
    short: "time waited",
    when: "Start here when threads are slow and processors idle: which code waited, and how long.",
  },
  "block/contentions": {
    title: "Waits",
    short: "waits",
    when: "Many short waits that add up to little time now, and to more with more threads.",
  },
  "mutex/delay": {
    title: "Time others waited for a holder",
    short: "delay caused",
    when: "Who is to blame: the code that held a lock while others waited: their time is attributed to it.",
  },
  "mutex/contentions": {
    title: "Holds that others waited for",
    short: "contended holds",
    when: "How often a hold was in somebody's way.",
  },
};

export function metricHelp(kind: string, name: string): MetricHelp {
  // The kind of other writers' files is the list of their values: nothing to be told twice.
  return help[`${kind}/${name}`] ?? { title: kind.split("/").includes(name) ? name : `${name} (${kind})`, short: name, when: "A value of this profile, as its writer named it." };
}

export const kindTitle = (kind: string): string =>
  ({ heap: "Memory", block: "Lock waits", mutex: "Lock holders" })[kind] ?? kind;

export interface Metric {
  kind: string;
  name: string;
  unit: string;
  isCounter: boolean; // grows only: differences make sense, levels do not
}

export const metricKey = (metric: { kind: string; name: string }): string => `${metric.kind}/${metric.name}`;

/** Every metric of every kind, heap first; the default of its kind is marked by `defaultMetric`. */
export function metricsOf(report: Report): Metric[] {
  const metrics: Metric[] = [];
  const order = ["heap", "block", "mutex"];
  const rank = (kind: string) => (order.includes(kind) ? order.indexOf(kind) : order.length);
  for (const series of [...report.series].sort((a, b) => rank(a.kind) - rank(b.kind))) {
    for (const [name, unit] of series.metrics) {
      if (!metrics.some((metric) => metric.kind === series.kind && metric.name === name)) {
        metrics.push({ kind: series.kind, name, unit, isCounter: !name.startsWith("inuse_") });
      }
    }
  }
  return metrics;
}

/** Whether all that was allocated is freed by now: then what was allocated is what there is to look at. */
export function allWasFreed(report: Report): boolean {
  const sum = (name: string): number =>
    report.series.reduce((all, series) => {
      const m = series.base || series.kind !== "heap" ? -1 : series.metrics.findIndex(([metric]) => metric === name);
      return all + (m < 0 ? 0 : series.snapshots[series.snapshots.length - 1]!.totals[m]!);
    }, 0);
  return sum("inuse_space") === 0 && sum("alloc_space") > 0;
}

export function defaultMetric(report: Report, kind?: string): string {
  const metrics = metricsOf(report);
  const first = kind ?? metrics[0]?.kind;
  const series = report.series.find((s) => s.kind === first);
  if (series === undefined) return "";
  const name = series.metrics[series.default]![0];
  return metricKey({ kind: series.kind, name: name === "inuse_space" && allWasFreed(report) ? "alloc_space" : name });
}

/** Which column of a series a metric is; −1: it has none. */
export function metricIn(series: Series, metric: { kind: string; name: string }): number {
  return series.kind === metric.kind ? series.metrics.findIndex(([name]) => name === metric.name) : -1;
}

export function findMetric(report: Report, key: string): Metric | undefined {
  return metricsOf(report).find((metric) => metricKey(metric) === key);
}
