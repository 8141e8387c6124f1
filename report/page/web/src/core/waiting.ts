// The waiting threads at the newest moment, as the tool reported them (StuckJson in report/analysis/locks/stuck.h): deadlocks first, then locks by
// their longest wait, then events. Idle threads are only counted.

export interface WaitingThread {
  tid: number;
  number: number; // 1 is main; 0: unknown
  name: string;
  ended?: boolean;
  does?: string;
  stack?: string[];
}
export interface WaitingNow {
  deadlocks: { since_ns: number; threads: number[] }[];
  waits: {
    thread: WaitingThread | null;
    kind: string;
    lock: string;
    address: string;
    waiting_ns: number;
    stack?: string[]; // whole names, innermost first
    calls?: string[]; // as `holdfast stuck` prints them
    idle: boolean;
    holder_known: string;
    holder: WaitingThread | null;
    readers?: number;
  }[];
  unknown?: string; // why nobody could look into the process
}

/** A lock, or another object that threads wait for. */
export interface Waited {
  kind: string;
  lock: string;
  isHeld: boolean; // it has a holder, or it is a lock
  longest: number; // nanoseconds
  behind: number; // threads
  waiter: WaitingThread | null; // who has waited longest
  calls: string[];
  holder: WaitingThread | null;
  known: string; // how the holder is known
  readers: number;
}

export interface Circle {
  since: number;
  threads: { thread: WaitingThread; holds: string; waitsFor: string; calls: string[] }[];
}

export interface WaitingSummary {
  deadlocks: Circle[];
  waited: Waited[];
  idle: number;
}

const locks = /^(mutex|rwlock|spin|futex)/;

export function threadName(thread: WaitingThread): string {
  const number = thread.number === 1 ? "main" : thread.number > 0 ? `T${thread.number}` : "";
  const name = thread.name === "" || thread.name === number ? "" : thread.name;
  return [number, name].filter((text) => text !== "").join(" ") || `tid ${thread.tid}`;
}

const callsOf = ({ calls, stack }: WaitingNow["waits"][0]): string[] => calls ?? stack?.slice(0, 3) ?? [];

export function waitingSummary(now: WaitingNow | undefined): WaitingSummary {
  const summary: WaitingSummary = { deadlocks: [], waited: [], idle: 0 };
  if (now === undefined) return summary;
  const waitOf = (tid: number) => now.waits.find(({ thread }) => thread?.tid === tid);
  const stuck = new Set<number>();
  for (const { since_ns, threads } of now.deadlocks) {
    const rows = threads.flatMap((tid, i) => {
      stuck.add(tid);
      const wait = waitOf(tid);
      const behind = waitOf(threads[(i + threads.length - 1) % threads.length]!);
      return wait === undefined || wait.thread === null ? [] : [{ thread: wait.thread, holds: behind?.lock ?? "?", waitsFor: wait.lock, calls: callsOf(wait) }];
    });
    summary.deadlocks.push({ since: since_ns, threads: rows });
  }
  const all = new Map<string, Waited>();
  for (const wait of now.waits) {
    if (wait.idle) {
      ++summary.idle;
      continue;
    }
    const kind = wait.kind.startsWith("rwlock") ? "rwlock" : wait.kind;
    const key = `${kind} ${wait.kind === "join" ? (wait.holder?.tid ?? "") : wait.address}`;
    const known = all.get(key);
    if (known === undefined || known.longest < wait.waiting_ns) {
      const waited = { kind, lock: wait.lock, isHeld: false, longest: wait.waiting_ns, waiter: wait.thread, calls: callsOf(wait), holder: wait.holder ?? known?.holder ?? null, known: wait.holder_known, readers: wait.readers ?? 0 };
      all.set(key, { ...waited, behind: (known?.behind ?? 0) + 1 });
    } else ++known.behind;
  }
  summary.waited = [...all.values()]
    .map((one) => ({ ...one, isHeld: one.holder !== null ? one.kind !== "join" : locks.test(one.kind) && (one.kind !== "futex" || one.behind > 1) }))
    .filter((one) => one.behind > 1 || one.waiter === null || !stuck.has(one.waiter.tid))
    .sort((a, b) => Number(b.isHeld) - Number(a.isHeld) || b.longest - a.longest);
  return summary;
}
