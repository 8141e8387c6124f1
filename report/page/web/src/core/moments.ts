// Combines moments of a running program into one report. Each answer of the server is a report of one moment. Here they become one
// tree with one time axis, so that all views work as they do on files.
//
//   answer 1: main → parse → alloc      2 MiB  ┐   main → parse → alloc   2, 3 MiB
//   answer 2: main → parse → alloc      3 MiB  ┴─► main → load            0, 1 MiB      series.snapshots: 2
//             main → load               1 MiB
//
// Stacks, functions and rows keep their first numbers; the output for views is sorted as the tool sorts it. Of each moment only the
// changes are kept, as in a file. There are at most `mostMoments`: beyond that, every second moment of the older half is dropped,
// so that the history reaches back to the first look and is finest at its end.
import { addColumn, type Label, type LockPair, type LockRow, type Report, type Series } from "./data";
import { encodeColumn } from "./encode";
import type { Growth } from "./leaks";

export const mostMoments = 240;

interface Row {
  node: number;
  labels: number;
}
interface Known {
  series: Series; // of the newest answer, with the answer's numbers
  locks: LockRow[]; // with our numbers
  pairs: LockPair[];
  rows: Row[];
  ranks: number[];
  rowOf: Map<number, number>;
  now: Float64Array[]; // by metric and row
  columns: Uint8Array[];
  snapshots: Series["snapshots"];
}

/** Assigns numbers to keys, in the order of first use. */
class Numbers<K> {
  readonly of = new Map<K, number>();
  number(key: K): number {
    let number = this.of.get(key);
    if (number === undefined) this.of.set(key, (number = this.of.size));
    return number;
  }
}

const labelKey = (set: Label[]): string => JSON.stringify(set.map(({ key, text, unit, number }) => [key, text, unit, Number.isNaN(number)]));
const same = (a: Int32Array, b: Int32Array): boolean => {
  if (a.length !== b.length) return false;
  for (let i = 0; i < a.length; ++i) if (a[i] !== b[i]) return false;
  return true;
};
const sameTexts = (a: string[], b: string[]): boolean => a.length === b.length && a.every((text, i) => text === b[i]);
const grown = (column: Float64Array, length: number): Float64Array => {
  if (column.length >= length) return column;
  const larger = new Float64Array(Math.max(length, column.length * 2));
  larger.set(column);
  return larger;
};

/** Maps the numbers of an answer to ours. */
interface Ours {
  funcs: Int32Array;
  nodes: Int32Array;
  labels: Int32Array;
}

export class Moments {
  private readonly functions = new Numbers<string>();
  private readonly about: { short: string; file: string; startLine: number; object: number; pack: string; origin: number }[] = [];
  private readonly objects = new Numbers<string>();
  private readonly objectTexts: Report["objects"] = [];
  private readonly frames = new Numbers<string>();
  private readonly frameTexts: { func: number; line: number; object: number; inlined: number; system: number; plumbing: number }[] = [];
  private readonly nodes = new Numbers<number>();
  private readonly parents: number[] = [0];
  private readonly nodeFrames: number[] = [-1];
  private readonly labels = new Numbers<string>();
  private readonly labelSets: Label[][] = [];
  private readonly series: Known[] = [];
  private before: { answer: Report; ours: Ours } | null = null;
  private shape: Omit<Report, "series" | "growths" | "sources" | "waiting" | "version"> | null = null;
  private numbers: { func: Int32Array; node: Int32Array } = { func: new Int32Array(0), node: new Int32Array(1) };
  private newest: Report | null = null;
  private growths: Growth[] = []; // of the newest answer, with our functions

  /** The newest moment in milliseconds since 1970; −1: none yet. */
  get ms(): number {
    return Math.max(-1, ...this.series.map(({ snapshots }) => snapshots[snapshots.length - 1]!.ms));
  }

  /** The process of these moments. */
  get process(): string {
    return this.series[0]?.series.process ?? "";
  }

  /** Adds the answer of a later moment. Returns false if it is not later. */
  add(answer: Report): boolean {
    const times = answer.series.map(({ snapshots }) => snapshots[snapshots.length - 1]!.ms);
    if (times.length === 0 || Math.max(...times) <= this.ms) return false;
    const ours = this.oursOf(answer);
    const seen = new Set<Known>();
    for (const series of answer.series) seen.add(this.addSeries(series, ours));
    // A kind that is missing from the answer has no values any more, such as waits in progress.
    for (const known of this.series) if (!seen.has(known)) this.addNothing(known, Math.max(...times));
    this.newest = answer;
    this.growths = answer.growths.map((growth) => ({
      ...growth,
      answer: { ...growth.answer, largest: growth.answer.largest.map((func) => ours.funcs[func]!) },
      stacks: growth.stacks.map((leak) => ({ ...leak, stack: leak.stack.map((func) => ours.funcs[func]!) })),
    }));
    this.thin();
    return true;
  }

  /** Records that nothing has changed until then. */
  repeat(ms: number): void {
    if (ms <= this.ms) return;
    for (const { series, snapshots, columns } of this.series) {
      snapshots.push({ ...snapshots[snapshots.length - 1]!, ms });
      for (let m = 0; m < series.metrics.length; ++m) columns.push(new Uint8Array(0));
    }
    this.thin();
  }

  /** Returns the whole report. Parts that did not change are the same objects as before. */
  report(): Report {
    const shape = (this.shape ??= this.sorted());
    const { func, node } = this.numbers;
    const functionOf = (number: number) => (number < 0 ? -1 : func[number]!);
    return {
      ...shape,
      version: this.newest?.version ?? "",
      growths: this.growths.map((growth) => ({
        ...growth,
        answer: { ...growth.answer, largest: growth.answer.largest.map(functionOf) },
        stacks: growth.stacks.map((leak) => ({ ...leak, stack: leak.stack.map(functionOf) })),
      })),
      sources: this.newest?.sources ?? new Map(),
      ...(this.newest?.opens?.view === undefined ? {} : { opens: { view: this.newest.opens.view } }), // a live page shows what is in use now
      ...(this.newest?.waiting === undefined ? {} : { waiting: this.newest.waiting }),
      series: this.series.map((known) => ({
        ...known.series,
        rows: known.rows.length,
        node: Int32Array.from(known.rows, (row) => node[row.node]!),
        labels: Int32Array.from(known.rows, (row) => row.labels),
        rank: Uint8Array.from(known.ranks),
        columns: known.columns.slice(),
        snapshots: known.snapshots.slice(),
        locks: known.locks.map((lock) => {
          const copy: LockRow = [...lock];
          copy[8] = functionOf(lock[8]);
          copy[9] = functionOf(lock[9]);
          return copy;
        }),
        pairs: known.pairs.map(([lock, holder, waiter, count, delay, holds, waits, held, waited]): LockPair => [
          lock, node[holder]!, node[waiter]!, count, delay, functionOf(holds), functionOf(waits), held, waited,
        ]),
      })),
    };
  }

  private oursOf(answer: Report): Ours {
    const before = this.before;
    if (
      before !== null && same(before.answer.parent, answer.parent) && same(before.answer.frame, answer.frame) && same(before.answer.frameFunction, answer.frameFunction) &&
      same(before.answer.frameLine, answer.frameLine) && same(before.answer.frameObject, answer.frameObject) && sameTexts(before.answer.names, answer.names) &&
      sameTexts(before.answer.files, answer.files) && sameTexts(before.answer.objects.map(String), answer.objects.map(String)) &&
      sameTexts(before.answer.labelSets.map(labelKey), answer.labelSets.map(labelKey))
    ) {
      this.before = { answer, ours: before.ours };
      return before.ours;
    }
    this.shape = null;
    const objects = [0, ...answer.objects.map((object) => {
      const number = this.objects.number(`${object[0]}\n${object[1]}`);
      this.objectTexts[number] = object;
      return number + 1;
    })];
    const funcs = Int32Array.from(answer.names, (name, i) => {
      const number = this.functions.number(name);
      const known = this.about[number];
      const file = answer.files[i]! === "" && known !== undefined ? known.file : answer.files[i]!;
      const startLine = answer.files[i]! === "" && known !== undefined ? known.startLine : answer.startLines[i]!;
      this.about[number] = { short: answer.shortNames[i]!, file, startLine, object: objects[answer.functionObject[i]!]!, pack: answer.functionPackage[i]!, origin: answer.functionOrigin[i]! };
      return number;
    });
    const frames = Int32Array.from(answer.frameFunction, (fn, i) => {
      const frame = { func: funcs[fn]!, line: answer.frameLine[i]!, object: objects[answer.frameObject[i]!]!, inlined: answer.frameInlined[i]!, system: answer.frameSystem[i]!, plumbing: answer.framePlumbing[i]! };
      const number = this.frames.number(`${frame.func} ${frame.line} ${frame.object} ${frame.inlined}`);
      this.frameTexts[number] = frame;
      return number;
    });
    const nodes = new Int32Array(answer.parent.length);
    for (let i = 1; i < nodes.length; ++i) {
      const parent = nodes[answer.parent[i]!]!;
      const frame = frames[answer.frame[i]!]!;
      const number = this.nodes.number(parent * 2 ** 26 + frame) + 1; // the root is 0
      nodes[i] = number;
      this.parents[number] = parent;
      this.nodeFrames[number] = frame;
    }
    const labels = Int32Array.from(answer.labelSets, (set) => {
      const number = this.labels.number(labelKey(set));
      this.labelSets[number] = set;
      return number;
    });
    const ours = { funcs, nodes, labels };
    this.before = { answer, ours };
    return ours;
  }

  private addSeries(series: Series, ours: Ours): Known {
    const types = String(series.metrics);
    let known = this.series.find((one) => one.series.kind === series.kind && one.series.process === series.process && String(one.series.metrics) === types);
    if (known === undefined) {
      known = { series, locks: [], pairs: [], rows: [], ranks: [], rowOf: new Map(), now: series.metrics.map(() => new Float64Array(64)), columns: [], snapshots: [] };
      this.series.push(known);
    }
    const { rows, rowOf, ranks } = known;
    const places = new Int32Array(series.rows);
    for (let i = 0; i < series.rows; ++i) {
      const node = ours.nodes[series.node[i]!]!;
      const labels = ours.labels[series.labels[i]!]!;
      const key = node * 2 ** 21 + labels;
      let row = rowOf.get(key);
      if (row === undefined) {
        rowOf.set(key, (row = rows.length));
        rows.push({ node, labels });
      }
      ranks[row] = series.rank[i]!;
      places[i] = row;
    }
    const functionOf = (number: number) => (number < 0 ? -1 : ours.funcs[number]!);
    known.series = series;
    known.locks = series.locks.map((lock) => {
      const copy: LockRow = [...lock];
      copy[8] = functionOf(lock[8]);
      copy[9] = functionOf(lock[9]);
      return copy;
    });
    known.pairs = series.pairs.map(([lock, holder, waiter, count, delay, holds, waits, held, waited]): LockPair => [
      lock, ours.nodes[holder]!, ours.nodes[waiter]!, count, delay, functionOf(holds), functionOf(waits), held, waited,
    ]);
    const last = series.snapshots.length - 1;
    known.snapshots.push(series.snapshots[last]!);
    for (let m = 0; m < series.metrics.length; ++m) {
      const there = new Float64Array(series.rows);
      for (let s = 0; s <= last; ++s) addColumn(series.columns[s * series.metrics.length + m]!, there);
      const next = new Float64Array(rows.length);
      for (let i = 0; i < there.length; ++i) next[places[i]!]! += there[i]!;
      this.push(known, m, next);
    }
    return known;
  }

  private addNothing(known: Known, ms: number): void {
    const { series, snapshots, rows } = known;
    known.locks = known.pairs = [];
    known.series = { ...series, deadlocks: "" };
    snapshots.push({ file: "", ms, totals: series.metrics.map(() => 0), halfWidths: series.metrics.map(() => 0) });
    for (let m = 0; m < series.metrics.length; ++m) this.push(known, m, new Float64Array(rows.length));
  }

  private push(known: Known, m: number, next: Float64Array): void {
    const now = (known.now[m] = grown(known.now[m]!, next.length));
    const change = new Float64Array(next.length);
    for (let row = 0; row < next.length; ++row) {
      change[row] = next[row]! - now[row]!;
      now[row] = next[row]!;
    }
    known.columns.push(encodeColumn(change));
  }

  private thin(): void {
    const times = [...new Set(this.series.flatMap(({ snapshots }) => snapshots.map(({ ms }) => ms)))].sort((a, b) => a - b);
    if (times.length <= mostMoments) return;
    const gone = new Set(times.slice(0, times.length >> 1).filter((_, i) => i % 2 === 1));
    for (const known of this.series) {
      const count = known.series.metrics.length;
      const columns: Uint8Array[] = [];
      const snapshots: Series["snapshots"] = [];
      let waiting: Float64Array[] | null = null; // sum of the changes of dropped moments
      known.snapshots.forEach((snapshot, s) => {
        const own = known.columns.slice(s * count, (s + 1) * count);
        const drops = gone.has(snapshot.ms) && s + 1 < known.snapshots.length;
        if (drops || waiting !== null) {
          waiting ??= own.map(() => new Float64Array(known.rows.length));
          own.forEach((column, m) => addColumn(column, waiting![m]!));
        }
        if (drops) return;
        snapshots.push(snapshot);
        columns.push(...(waiting === null ? own : waiting.map(encodeColumn)));
        waiting = null;
      });
      known.columns = columns;
      known.snapshots = snapshots;
    }
  }

  /** Sorts functions by name, frames by function, and stacks in preorder, as report/page/encode.cc does. */
  private sorted() {
    const names = [...this.functions.of.keys()];
    const byName = names.map((_, i) => i).sort((a, b) => (names[a]! < names[b]! ? -1 : names[a]! > names[b]! ? 1 : 0));
    const func = new Int32Array(names.length);
    byName.forEach((number, i) => (func[number] = i));
    const about = byName.map((number) => this.about[number]!);
    // If two functions share a short name, use full names.
    const uses = new Map<string, number>();
    for (const { short } of about) uses.set(short, (uses.get(short) ?? 0) + 1);

    const { frameTexts, parents, nodeFrames } = this;
    const byFunction = frameTexts.map((_, i) => i).sort((a, b) => {
      const [x, y] = [frameTexts[a]!, frameTexts[b]!];
      return func[x.func]! - func[y.func]! || x.line - y.line || x.object - y.object || x.inlined - y.inlined;
    });
    const frameNumber = new Int32Array(frameTexts.length);
    byFunction.forEach((number, i) => (frameNumber[number] = i));
    const frameColumn = (of: (frame: (typeof frameTexts)[0]) => number) => byFunction.map((number) => of(frameTexts[number]!));
    const framePlumbing = Uint8Array.from(frameColumn((frame) => frame.plumbing));
    const frameFunction = Int32Array.from(frameColumn((frame) => func[frame.func]!));
    const functionPlumbing = new Uint8Array(names.length).fill(1);
    frameFunction.forEach((fn, i) => framePlumbing[i] === 0 && (functionPlumbing[fn] = 0));

    const count = parents.length;
    const order = Array.from({ length: count - 1 }, (_, i) => i + 1).sort((a, b) => frameNumber[nodeFrames[b]!]! - frameNumber[nodeFrames[a]!]! || b - a);
    const first = new Int32Array(count);
    const next = new Int32Array(count);
    for (const node of order) {
      next[node] = first[parents[node]!]!;
      first[parents[node]!] = node;
    }
    const numbers = new Int32Array(count);
    const parent = new Int32Array(count);
    const frame = new Int32Array(count);
    frame[0] = -1;
    let made = 1;
    for (let node = first[0]!; node !== 0; ) {
      numbers[node] = made;
      parent[made] = numbers[parents[node]!]!;
      frame[made++] = frameNumber[nodeFrames[node]!]!;
      if (first[node] !== 0) node = first[node]!;
      else {
        while (node !== 0 && next[node] === 0) node = parents[node]!;
        if (node !== 0) node = next[node]!;
      }
    }
    this.numbers = { func, node: numbers };
    const old = this.shownNames;
    const sortedNames = byName.map((number) => names[number]!);
    this.shownNames = sameTexts(old, sortedNames) ? old : sortedNames;
    return {
      names: this.shownNames,
      shortNames: about.map(({ short }, i) => (uses.get(short) === 1 ? short : sortedNames[i]!)),
      files: about.map(({ file }) => file),
      startLines: Int32Array.from(about, ({ startLine }) => startLine),
      functionObject: Int32Array.from(about, ({ object }) => object),
      functionPackage: about.map(({ pack }) => pack),
      functionOrigin: Uint8Array.from(about, ({ origin }) => origin),
      functionPlumbing,
      frameFunction,
      frameLine: Int32Array.from(frameColumn((one) => one.line)),
      frameObject: Int32Array.from(frameColumn((one) => one.object)),
      frameSystem: Uint8Array.from(frameColumn((one) => one.system)),
      framePlumbing,
      frameInlined: Uint8Array.from(frameColumn((one) => one.inlined)),
      objects: this.objectTexts.slice(),
      parent,
      frame,
      labelSets: this.labelSets.slice(),
    };
  }
  private shownNames: string[] = [];
}
