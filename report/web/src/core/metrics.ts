// What a report says about metrics: their names for people, and when to use which.
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
    title: "Time waited for locks",
    short: "time waited",
    when: "Start here when threads are slow and processors idle: which code waited, and how long.",
  },
  "block/contentions": {
    title: "Waits for locks",
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
