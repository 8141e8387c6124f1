// The metrics of a report, their display names, and when to use which.
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
    when: "Start here when a process is too large. Memory that is held at the snapshot, by the code that allocated it.",
  },
  "heap/inuse_objects": {
    title: "Objects in use",
    short: "objects held",
    when: "Look here for many small blocks: caches without a bound, lists that only grow.",
  },
  "heap/alloc_space": {
    title: "Memory allocated",
    short: "bytes allocated",
    when: "Look here if malloc takes much CPU time: all memory ever allocated, including freed memory.",
  },
  "heap/alloc_objects": {
    title: "Allocations",
    short: "allocations",
    when: "The number of allocations: temporary objects in a loop show here first.",
  },
  "peak/peak_space": {
    title: "Memory at the peak",
    short: "bytes at the peak",
    when: "Start here when a process was too large at some moment: memory that was held when most was in use.",
  },
  "peak/peak_objects": {
    title: "Objects at the peak",
    short: "objects at the peak",
    when: "The number of blocks that were held when most memory was in use.",
  },
  "resident/resident_space": {
    title: "Resident memory in use",
    short: "resident",
    when: "Blocks and mappings that take physical memory: the program touched them, and they are not swapped out.",
  },
  "resident/inuse_space": {
    title: "Memory in use, with known resident part",
    short: "in use",
    when: "Compare with the resident memory: a large difference is memory that the program never touched.",
  },
  "resident/swapped_space": {
    title: "Swapped memory in use",
    short: "swapped",
    when: "Blocks and mappings that the kernel has swapped out because nobody touched them for long.",
  },
  "resident/inuse_objects": { title: "Blocks and mappings in use", short: "blocks and mappings", when: "The number of blocks and mappings in use." },
  "holders/held_space": {
    title: "Memory by holder",
    short: "bytes held",
    when: "Start here to see why memory is in use: a box is what its holder retains, and what would become free without it.",
  },
  "holders/held_objects": { title: "Blocks by holder", short: "blocks held", when: "The number of blocks that a holder retains." },
  "unreachable/unreachable_space": {
    title: "Unreachable memory",
    short: "bytes unreachable",
    when: "Memory that leaks: no pointer leads to it, by the code that allocated it.",
  },
  "unreachable/unreachable_objects": { title: "Unreachable blocks", short: "blocks unreachable", when: "The number of blocks to which no pointer leads." },
  "lifetimes/freed_space": {
    title: "Memory freed, by age",
    short: "bytes freed",
    when: "Look here for blocks that live for a moment: colour by cause, or filter by the label age.",
  },
  "lifetimes/freed_objects": {
    title: "Blocks freed, by age",
    short: "blocks freed",
    when: "Look here for temporary objects: filter by the label freed.",
  },
  "lifetimes/lifetime": {
    title: "Total lifetime of freed blocks",
    short: "time lived",
    when: "Divide by the blocks freed for the mean lifetime of a block.",
  },
  "lifetimes/alive_space": {
    title: "Memory in use, by age",
    short: "bytes alive",
    when: "Memory in use by its age: the oldest is often the leak. Filter by the label age.",
  },
  "map/inuse_space": {
    title: "Memory mapped",
    short: "bytes mapped",
    when: "Memory from the kernel without malloc: mmap, shared memory, files.",
  },
  "map/inuse_objects": { title: "Mappings", short: "mappings", when: "Look here for mappings that are never unmapped." },
  "map/alloc_space": { title: "Memory ever mapped", short: "bytes ever mapped", when: "All memory ever mapped, including unmapped memory." },
  "map/alloc_objects": { title: "Calls that mapped", short: "calls that mapped", when: "Each is a system call and causes page faults." },
  "threads/alive": {
    title: "Threads alive",
    short: "threads alive",
    when: "Start here when the number of threads grows: threads that have not exited, by the code that created them.",
  },
  "threads/created": {
    title: "Threads created",
    short: "threads created",
    when: "A thread costs about 20 µs and a stack: code that creates one for each request needs a pool.",
  },
  "exceptions/exceptions": {
    title: "Exceptions thrown",
    short: "exceptions thrown",
    when: "Each costs microseconds, more with a deep stack. Filter by the label type.",
  },
  "cpu/cpu": {
    title: "CPU time",
    short: "CPU time",
    when: "Start here when processors are busy: the code that ran, system calls included.",
  },
  "cpu/samples": {
    title: "CPU samples",
    short: "CPU samples",
    when: "How many samples the CPU time is estimated from.",
  },
  "wall/wall": {
    title: "Time of threads",
    short: "time of threads",
    when: "Where the time of all threads went, running or not. Filter or group by the labels state, thread, lock and holder.",
  },
  "block/delay": {
    title: "Time waited",
    short: "time waited",
    when: "Start here when threads are slow and processors are idle: the code that waited, and how long.",
  },
  "block/contentions": {
    title: "Waits",
    short: "waits",
    when: "Look here for many short waits: they take more time with more threads.",
  },
  "mutex/delay": {
    title: "Time others waited for a holder",
    short: "delay caused",
    when: "Look here for the cause of waits: code that held a lock while others waited is charged with their time.",
  },
  "mutex/contentions": {
    title: "Holds that others waited for",
    short: "contended holds",
    when: "The number of holds during which another thread waited.",
  },
};

export function metricHelp(kind: string, name: string): MetricHelp {
  // For files of other tools, the kind is the list of their values: do not print it twice.
  return help[`${kind}/${name}`] ?? { title: kind.split("/").includes(name) ? name : `${name} (${kind})`, short: name, when: "A value of this profile, under the name that the file gives it." };
}

export const kindTitle = (kind: string): string =>
  ({
    heap: "Memory",
    peak: "Memory at the peak",
    lifetimes: "Lifetimes",
    resident: "Resident memory",
    holders: "Holders",
    unreachable: "Unreachable",
    map: "Mappings",
    block: "Lock waits",
    mutex: "Lock holders",
    threads: "Threads",
    exceptions: "Exceptions",
    cpu: "CPU time",
    wall: "Time of threads",
  })[kind] ?? kind;

export interface Metric {
  kind: string;
  name: string;
  unit: string;
  isCounter: boolean; // only grows: show differences, not levels
}

export const metricKey = (metric: { kind: string; name: string }): string => `${metric.kind}/${metric.name}`;

/** Whether the kind is about blocks and bytes; other kinds are about waits. */
export const isMemory = (kind: string): boolean => kind === "heap" || kind === "peak" || kind === "map" || kind === "lifetimes" || kind === "resident";

/** Returns every metric of every kind, heap first. `defaultMetric` returns the default of a kind. */
export function metricsOf(report: Report): Metric[] {
  const metrics: Metric[] = [];
  const order = ["heap", "peak", "holders", "unreachable", "resident", "map", "block", "mutex", "lifetimes", "threads", "exceptions", "cpu", "wall"];
  const rank = (kind: string) => (order.includes(kind) ? order.indexOf(kind) : order.length);
  for (const series of [...report.series].sort((a, b) => rank(a.kind) - rank(b.kind))) {
    for (const [name, unit] of series.metrics) {
      if (!metrics.some((metric) => metric.kind === series.kind && metric.name === name)) {
        metrics.push({ kind: series.kind, name, unit, isCounter: !name.startsWith("inuse_") && !name.startsWith("resident_") && !name.startsWith("swapped_") && !name.startsWith("peak_") && !name.startsWith("held_") && !name.startsWith("unreachable_") && !name.startsWith("alive") });
      }
    }
  }
  return metrics;
}

export function defaultMetric(report: Report, kind?: string): string {
  const metrics = metricsOf(report);
  const first = kind ?? metrics[0]?.kind;
  const series = report.series.find((s) => s.kind === first);
  if (series === undefined) return "";
  if (series.kind === "heap" && report.opens?.metric !== undefined) return report.opens.metric;
  return metricKey({ kind: series.kind, name: series.metrics[series.default]![0] });
}

/**
 * Returns the peak of the process shown, from the records of its files. Several
 * processes have no common peak.
 */
export function highestPeak(report: Report, isShown: (series: Series) => boolean): { bytes: number; ms: number } | null {
  let highest: { bytes: number; ms: number } | null = null;
  const processes = new Set<string>();
  for (const series of report.series) {
    if (series.base || !isMemory(series.kind) || !isShown(series)) continue;
    processes.add(series.process);
    const { bytes = 0, time_ns = 0 } = series.records.peak ?? {};
    if (bytes > 0 && (highest === null || bytes > highest.bytes)) highest = { bytes, ms: Math.round(time_ns / 1e6) };
  }
  return processes.size === 1 ? highest : null;
}

/** Returns the column of a metric in a series, or −1. */
export function metricIn(series: Series, metric: { kind: string; name: string }): number {
  return series.kind === metric.kind ? series.metrics.findIndex(([name]) => name === metric.name) : -1;
}

export function findMetric(report: Report, key: string): Metric | undefined {
  return metricsOf(report).find((metric) => metricKey(metric) === key);
}

/** Returns the programs of these series, sorted by their value of a metric. */
export function programNames(series: Series[], metric: string): string[] {
  const newest = (one: Series) => {
    const m = one.metrics.findIndex(([name]) => name === metric);
    return m < 0 ? 0 : Math.abs(one.snapshots[one.snapshots.length - 1]!.totals[m]!);
  };
  const sorted = [...series].sort((a, b) => newest(b) - newest(a));
  return [...new Set(sorted.map((one) => one.program || one.snapshots[0]!.file))];
}
