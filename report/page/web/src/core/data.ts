// Reads the data of a report (format "HFR1", written by report/page/report_builder.cc) into typed arrays.
//
// A stack is a node of one tree: `parent` and `frame` of each node in preorder; node 0 is the root and has no frame. A series is
// one process and kind; its rows are (node, set of labels). The values of a snapshot are columns over the rows. They stay encoded
// until they are needed (otherwise a report of 100 snapshots would take gigabytes).

import type { Growth, Shape } from "./leaks";
import type { Records } from "./records";
import type { WaitingNow } from "./waiting";

export interface Snapshot {
  file: string;
  ms: number; // since 1970
  totals: number[];
  halfWidths: (number | null)[]; // half of the 95 % interval of each total
  resident?: number; // bytes of the whole process, as counted by the kernel; if known
  account?: AccountLine[]; // where all of it was (report/observe/memory/account.h)
}

/** `error`: half of the 95 % interval. The lines add up to the resident memory. */
export type AccountLine = [what: string, bytes: number, error: number, more: string];

export interface Series {
  base: boolean;
  kind: string;
  process: string;
  program: string;
  folder: string; // that its newest file is in; "" for none
  pid: string;
  sampling: string;
  period: number;
  // Milliseconds since 1970. Set if exit handlers had freed memory by then, so that the newest snapshot is the one before them.
  freedAtExit?: number;
  heldLockDelay?: number; // nanoseconds waited for locks that others held
  lockTrouble?: boolean; // that is too long for the time that the process ran (report/analysis/opening.h)
  ended?: boolean; // its process ended before the others: what it held is not in sums (report/analysis/profiles/live_processes.h)
  olderBlocks?: string; // of a process that was attached: how much is in use from before (report/observe/memory/account_text.h)
  default: number;
  metrics: [name: string, unit: string][];
  snapshots: Snapshot[];
  comments: string[];
  records: Records;
  deadlocks: string; // in words; "": none
  lockNames: string; // what provides the names of locks without one; "": all have names
  names: string; // what provides missing names, in words; "": none are missing
  losses: string[];
  locks: LockRow[];
  pairs: LockPair[];
  rows: number;
  node: Int32Array;
  labels: Int32Array;
  rank: Uint8Array; // of waits: 0 lock with a holder, 1 event, 2 idle (report/analysis/locks/wait_rank.h)
  columns: Uint8Array[]; // [snapshot × metrics + metric]
}

/** A single lock. Functions as in `holdfast locks`; −1: unknown. */
export type LockRow = [
  number: number,
  name: string,
  kind: string,
  contentions: number,
  delay: number,
  longest: number,
  holds: number,
  hold: number,
  topHolder: number,
  topWaiter: number,
  rank: number, // 0: has a holder, 1: an event, 2: only idle threads wait for it
  // The lengths of waits and holds: p50, p90, p99, longest; −1: unknown. Then the number of threads that waited at the snapshot,
  // and how long so far.
  ...lengths: number[],
];
/** Who waited for whom: nodes of the report (0: unknown), and the most informative function of each. */
export type LockPair = [
  lock: number,
  holder: number,
  waiter: number,
  contentions: number,
  delay: number,
  holderFunction: number,
  waiterFunction: number,
  heldP99: number, // at the call sites of these functions
  waitedP99: number,
];

export interface Label {
  key: string;
  text: string; // a number as "64"
  unit: string;
  number: number; // NaN for text
}

export interface Report {
  version: string;
  names: string[]; // of functions, sorted
  shortNames: string[]; // for display: report/analysis/profiles/short_name.h
  files: string[]; // of functions; "" = unknown
  startLines: Int32Array;
  frameFunction: Int32Array;
  frameLine: Int32Array;
  frameObject: Int32Array; // 0: unknown, else 1 + index into `objects`
  frameSystem: Uint8Array; // 1: of libc, the loader, a language's own library …: folding adds it to its caller
  framePlumbing: Uint8Array; // 1: code that every program is built on, including system code (report/analysis/profiles/plumbing.h)
  frameInlined: Uint8Array;
  // called: the name with which the program was started, if its file has a different one.
  objects: [path: string, buildId: string, called?: string][];
  functionObject: Int32Array; // the first object that contains the function, as in frameObject
  functionPackage: string[]; // namespace, else object, else folder of the source file
  functionPlumbing: Uint8Array;
  functionOrigin: Uint8Array; // the owner of the code, as in `origins` (classify.ts)
  parent: Int32Array;
  frame: Int32Array; // −1 at the root
  labelSets: Label[][];
  series: Series[];
  growths: Growth[];
  // The first view, if it is not memory in use (report/analysis/opening.h): a metric and the reason, or the view of locks.
  opens?: { metric?: string; why?: string; view?: "locks" };
  waiting?: WaitingNow; // of a running program; not there: nobody waits, or nobody asked
  sources: Map<string, Map<number, string>>;
}

/** Reads consecutive varints. Numbers above 2^53 lose their last digits. */
export class Cursor {
  at = 0;
  constructor(readonly bytes: Uint8Array) {}
  next(): number {
    const bytes = this.bytes;
    let byte = bytes[this.at++]!;
    if (byte < 0x80) return byte;
    let value = byte & 0x7f;
    let shift = 7;
    while (byte >= 0x80 && shift < 28) {
      byte = bytes[this.at++]!;
      value |= (byte & 0x7f) << shift;
      shift += 7;
    }
    let factor = 2 ** shift;
    while (byte >= 0x80) {
      byte = bytes[this.at++]!;
      value += (byte & 0x7f) * factor;
      factor *= 128;
    }
    return value;
  }
  /** Reads a zigzag varint. Exact up to 2^53, unlike next() with a division. */
  signed(): number {
    const byte = this.bytes[this.at++]!;
    let half = (byte & 0x7f) >> 1;
    if (byte >= 0x80) half += this.next() * 64;
    return (byte & 1) === 1 ? -half - 1 : half;
  }
  column(length: number): Int32Array {
    const column = new Int32Array(length);
    for (let i = 0; i < length; ++i) column[i] = this.next();
    return column;
  }
}

export function parseReport(bytes: Uint8Array): Report {
  const decoder = new TextDecoder();
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  if (decoder.decode(bytes.subarray(0, 4)) !== "HFR1") throw new Error("the data of this report is of another version");
  const metaLength = view.getUint32(4, true);
  const meta = JSON.parse(decoder.decode(bytes.subarray(8, 8 + metaLength)));
  let from = 8 + metaLength;
  const sections: Uint8Array[] = meta.sections.map((length: number) => bytes.subarray(from, (from += length)));
  let next = 0;

  const lengths = new Cursor(sections[next++]!);
  const text = decoder.decode(sections[next++]!);
  const strings: string[] = [];
  for (let at = 0; lengths.at < lengths.bytes.length; ) {
    const length = lengths.next();
    strings.push(text.slice(at, (at += length)));
  }
  const functions: number = meta.functions;
  let cursor = new Cursor(sections[next++]!);
  const files: string[] = [];
  for (let i = 0; i < functions; ++i) {
    const file = cursor.next();
    files.push(file === 0 ? "" : strings[file - 1]!);
  }
  const startLines = cursor.column(functions);
  const functionObject = cursor.column(functions);
  const functionPackage = Array.from(cursor.column(functions), (string) => strings[string]!);
  const functionOrigin = Uint8Array.from(cursor.column(functions));
  // 0: the name itself; odd: another string; even: the beginning of the name.
  const shortNames = Array.from(cursor.column(functions), (code, i) => (code === 0 ? strings[i]! : code % 2 === 1 ? strings[(code - 1) / 2]! : strings[i]!.slice(0, code / 2 - 1)));

  const frames: number = meta.frames;
  cursor = new Cursor(sections[next++]!);
  const frameFunction = cursor.column(frames);
  for (let i = 1; i < frames; ++i) frameFunction[i]! += frameFunction[i - 1]!;
  const frameLine = cursor.column(frames);
  const frameObject = cursor.column(frames);
  const frameSystem = new Uint8Array(frames);
  const frameInlined = new Uint8Array(frames);
  const framePlumbing = new Uint8Array(frames);
  const functionPlumbing = new Uint8Array(functions).fill(1);
  for (let i = 0; i < frames; ++i) {
    frameInlined[i] = frameObject[i]! & 1;
    frameSystem[i] = (frameObject[i]! >> 1) & 1;
    framePlumbing[i] = (frameObject[i]! >> 2) & 1;
    if (framePlumbing[i] === 0) functionPlumbing[frameFunction[i]!] = 0; // plumbing only if it is plumbing everywhere
    frameObject[i]! >>>= 3;
  }

  const nodes: number = meta.nodes;
  const tree = sections[next++]!;
  cursor = new Cursor(tree);
  const parent = new Int32Array(nodes);
  const frame = new Int32Array(nodes);
  frame[0] = -1;
  for (let i = 1; i < nodes; ++i) {
    let above = i - 1;
    for (let climb = cursor.next(); climb > 0; --climb) above = parent[above]!;
    parent[i] = above;
  }
  for (let i = 1; i < nodes; ++i) frame[i] = cursor.next();

  const series: Series[] = meta.series.map((s: Series) => {
    const rows = new Cursor(sections[next++]!);
    const node = rows.column(s.rows);
    for (let i = 1; i < s.rows; ++i) node[i]! += node[i - 1]!;
    const labels = rows.column(s.rows);
    const rank = Uint8Array.from(rows.column(s.rows));
    const count = s.snapshots.length * s.metrics.length;
    // Heap profiles of other tools do not state their kind.
    const kind = s.kind !== "map" && s.kind !== "resident" && s.metrics.some(([name]) => name === "inuse_space") ? "heap" : s.kind;
    return { ...s, folder: s.folder ?? "", kind, node, labels, rank, columns: sections.slice(next, (next += count)) };
  });

  // The JSON stores stacks as lists to be short: report/page/report_builder.cc.
  type Row = [Shape, number, number, number, number, number, number[], number[], string, number, number, number, boolean];
  const growths: Growth[] = meta.growths.map((growth: Omit<Growth, "stacks"> & { stacks: Row[] }) => ({
    ...growth,
    stacks: growth.stacks.map(([shape, slope, halfWidth, objectSlope, now, objectsNow, stack, course, text, halfAge, oldestAge, order, leaks]) => {
      return { process: growth.process, kind: growth.kind, shape, slope, halfWidth, objectSlope, now, objectsNow, stack, course, text, halfAge, oldestAge, order, leaks };
    }),
  }));

  const sources = new Map<string, Map<number, string>>();
  for (const [file, ...chunks] of meta.sources) {
    const lines = new Map<number, string>();
    for (let i = 0; i < chunks.length; i += 2) {
      (chunks[i + 1] as string).split("\n").forEach((line, k) => lines.set(chunks[i] + k, line));
    }
    sources.set(file, lines);
  }
  return {
    version: meta.version,
    names: strings.slice(0, functions),
    shortNames,
    files,
    startLines,
    frameFunction,
    frameLine,
    frameObject,
    frameSystem,
    framePlumbing,
    frameInlined,
    functionPlumbing,
    functionObject,
    functionPackage,
    functionOrigin,
    objects: meta.objects,
    parent,
    frame,
    labelSets: meta.labels.map((set: [string, string | number, string?][]) =>
      set.map(([key, value, unit]) => ({
        key,
        text: String(value),
        unit: unit ?? "",
        number: typeof value === "number" ? value : NaN,
      })),
    ),
    series,
    growths,
    ...(meta.opens === undefined ? {} : { opens: meta.opens }),
    ...(meta.waiting === undefined ? {} : { waiting: meta.waiting }),
    sources,
  };
}

/** Adds the differences in one snapshot's column to `values`, by row. */
export function addColumn(column: Uint8Array, values: Float64Array): void {
  const cursor = new Cursor(column);
  const end = column.length;
  for (let row = 0; cursor.at < end; ) {
    if (column[cursor.at] === 0) {
      ++cursor.at;
      row += cursor.next(); // a run of rows that did not change
      continue;
    }
    values[row]! += cursor.signed();
    ++row;
  }
}

/** Returns the values of one metric as a sum of snapshots: coefficients[i] × snapshot i. */
export function combine(series: Series, metric: number, coefficients: number[]): Float64Array {
  const current = new Float64Array(series.rows);
  const sum = new Float64Array(series.rows);
  coefficients.forEach((coefficient, i) => {
    addColumn(series.columns[i * series.metrics.length + metric]!, current);
    if (coefficient === 0) return;
    for (let row = 0; row < sum.length; ++row) sum[row]! += coefficient * current[row]!;
  });
  return sum;
}
