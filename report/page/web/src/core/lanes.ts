// Lanes: what each thread did over time, from the records of wall profiles (proto/holdfast.proto, ThreadTimes).
import type { Report, Series } from "./data";

/** By the numbers in a lane, less 1. */
export const laneStates = ["on a CPU", "wants a CPU", "lock", "io", "sleep", "other call", "stopped", "not seen"];

export interface Lane {
  name: string;
  process: string;
  /** Runs of one state; ends are exclusive. Milliseconds since 1970. */
  runs: { state: number; from: number; to: number }[];
  shares: number[]; // of the lifetime, by state
}

function lanesOf(series: Series): Lane[] {
  const times = series.records.thread_times;
  const step = (times?.lane_step_ns ?? 0) / 1e6;
  const start = (times?.lane_start_ns ?? 0) / 1e6;
  if (step <= 0) return [];
  return (times?.thread ?? []).flatMap((thread) => {
    const runs: Lane["runs"] = [];
    (thread.lane ?? []).forEach((state, i) => {
      const last = runs[runs.length - 1];
      const [from, to] = [start + i * step, start + (i + 1) * step];
      if (state === 0) return;
      if (last !== undefined && last.state === state && last.to === from) last.to = to;
      else runs.push({ state, from, to });
    });
    const lived = Math.max(1, thread.lived_ns ?? 0);
    const parts = [thread.cpu_ns, thread.runnable_ns, thread.lock_ns, thread.io_ns, thread.sleep_ns, thread.call_ns, thread.stopped_ns, thread.unknown_ns];
    return runs.length === 0 ? [] : [{ name: thread.name || "?", process: series.process, runs, shares: parts.map((ns) => (ns ?? 0) / lived) }];
  });
}

const wallOf = (report: Report, process: string) => report.series.filter((series) => series.kind === "wall" && !series.base && (process === "" || series.process === process));

/** Returns how many threads have no lane: a profile has lanes for the 256 that lived longest, and none for sums of ended threads. */
export function threadsWithoutLane(report: Report, process: string): number {
  return wallOf(report, process).reduce((sum, { records: { thread_times: times } }) => {
    if ((times?.lane_step_ns ?? 0) <= 0) return sum;
    const without = (times?.thread ?? []).filter(({ lane }) => (lane ?? []).every((state) => state === 0));
    return without.reduce((all, { threads }) => all + (threads ?? 1), sum);
  }, 0);
}

/** Returns the lanes of all threads of the chosen process ("": of all), those first that run or wait for a lock for the longest part. */
export function allLanes(report: Report, process: string): Lane[] {
  const busy = ({ shares: [cpu = 0, runnable = 0, lock = 0, io = 0] }: Lane) => cpu + runnable + lock + io;
  return wallOf(report, process)
    .flatMap(lanesOf)
    .sort((a, b) => busy(b) - busy(a) || a.name.localeCompare(b.name, undefined, { numeric: true }));
}
