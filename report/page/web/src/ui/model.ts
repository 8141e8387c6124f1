// Data for views, computed once for each choice: values, tree, tables. Keys are the parts of the state that matter.
import { objectName, originsOf, origins, type Origin } from "../core/classify";
import { biggestHolder, biggestOwner, type Biggest } from "../core/owners";
import type { Report } from "../core/data";
import { courseByOwner, type OwnerCourse } from "../core/course";
import { callerTree, callerTreeSteps, functionTable, functionTableSteps, occurrences, type FunctionRow } from "../core/functions";
import { findLeaks, type Growth, type Leak } from "../core/leaks";
import { matchFunctions, patternError } from "../core/match";
import { defaultMetric, findMetric, isMemory, metricsOf, programNames, type Metric } from "../core/metrics";
import { isExactSeries } from "../core/exact";
import { averagedOver, companionColumn, hasError, isChosen, isProcessKey, momentsOf, passes, processKeys, processLabel, totalHalfWidth, totalsOverTime, valuesFor, varianceColumn, type Choice, type Values } from "../core/select";
import { sizeBins, type SizeBin } from "../core/sizes";
import { comparesAs, initialState, oneSide, type ColourMode, type Names, type State } from "../core/state";
import type { Steps } from "../core/steps";
import { collapseRuns, type Runs } from "../core/runs";
import { nodeBelow, type FlameTree } from "../core/tree";
import { buildTree, buildTreeSteps, type StackFilter, type TreeOptions } from "../core/tree_build";
import { hasUnheld, waitsOf, type Waits } from "../core/waits";
import { causesOf, type Causes } from "./causes";

/** Callers below this fraction of the total are not computed; only with very many stacks. */
export const leastOf = (tree: FlameTree): number => (tree.size > 100_000 ? 0.0004 : 0);

export class Model {
  readonly metrics: Metric[];
  readonly hasBase: boolean;
  readonly labelValues: Map<string, string[]>; // of string labels, for the filter
  private usual: "package" | "function" | null = null;
  private memory = new Map<string, { key: string; value: unknown }[]>();
  private numbers: Map<string, number> | null = null;
  readonly names: Names = {
    of: (func) => this.report.names[func]!,
    find: (name) => (this.numbers ??= new Map(this.report.names.map((text, i) => [text, i]))).get(name) ?? -1,
  };

  constructor(readonly report: Report) {
    this.metrics = metricsOf(report);
    this.hasPlumbing = report.framePlumbing.includes(1);
    this.hasInlined = report.frameInlined.includes(1);
    this.hasBase = report.series.some((series) => series.base) && report.series.some((series) => !series.base);
    const values = new Map<string, Set<string>>();
    for (const set of report.labelSets) {
      for (const { key, text } of set) {
        if (key === "bytes") continue; // sizes: thousands of values, which nobody chooses by
        const known = values.get(key);
        if (known === undefined) values.set(key, new Set([text]));
        else known.add(text);
      }
    }
    for (const key of processKeys) {
      const texts = report.series.filter((series) => !series.base).map((series) => processLabel(report, series, key));
      const known = new Set(texts.filter((text) => text !== ""));
      if (known.size > 1) values.set(key, known);
    }
    this.labelValues = new Map(
      [...values].map(([key, texts]) => [key, [...texts].sort((a, b) => Number(a) - Number(b) || (a < b ? -1 : 1))]),
    );
  }

  private memo<T>(name: string, key: string, compute: () => T, keep = 2): T {
    const known = this.memory.get(name) ?? [];
    const found = known.find((entry) => entry.key === key);
    if (found !== undefined) return found.value as T;
    const value = compute();
    this.memory.set(name, [{ key, value }, ...known].slice(0, keep));
    return value;
  }

  private *memoSteps<T>(name: string, key: string, steps: () => Steps<T>): Steps<void> {
    if (this.memory.get(name)?.some((entry) => entry.key === key) === true) return;
    const value = yield* steps();
    this.memo(name, key, () => value);
  }

  /** Whether there are enough stacks that a state is prepared in steps before it is shown. */
  get isLarge(): boolean {
    return this.report.parent.length > 200_000;
  }

  /** Computes everything slow that a state needs. If it is cancelled, nothing is kept. */
  *prepare(state: State): Steps<void> {
    const { columns } = this.values(state);
    yield;
    const key = this.treeKey(state);
    const side = this.sideOf(state);
    const build = (options: Partial<TreeOptions>) => () => buildTreeSteps(this.report, columns, { ...this.treeOptions(state), ...options });
    yield* this.memoSteps("tree undefined", key, build({}));
    const tree = this.tree(state);
    if (side !== undefined) yield* this.memoSteps(`tree ${side}`, key, build({ side }));
    const top = this.top(state);
    if (state.view === "flame" && !state.inverted && top !== null) yield* this.memoSteps(`flame ${side}`, key, build({ top, ...(side === undefined ? {} : { side }) }));
    yield* this.memoSteps("functions", key, () => functionTableSteps(tree));
    const isInverted = state.inverted || state.view === "bottomup";
    if (isInverted) yield* this.memoSteps("inverted", key, () => callerTreeSteps(tree, null, state.byValue, leastOf(tree)));
  }

  private sideOf(state: State): number | undefined {
    return state.compare === null || state.side === "both" ? undefined : state.side === "head" ? 0 : 1;
  }

  metricOf(state: State): string {
    return findMetric(this.report, state.metric) !== undefined ? state.metric : defaultMetric(this.report, this.metrics[0]?.kind);
  }

  metric(state: State): Metric {
    return findMetric(this.report, this.metricOf(state)) ?? { kind: "", name: "", unit: "count", isCounter: true };
  }

  choice(state: State): Choice {
    const { from, to, mean, weight, process, labels, compare, normalise, base } = state;
    return { metric: this.metricOf(state), from, to, mean, weight, process, labels, compare, normalise, ...(base ? { base } : {}) };
  }

  moments(state: State): number[] {
    return momentsOf(this.report, this.metric(state).kind, state.process);
  }

  timeline(state: State): number[] {
    return totalsOverTime(this.report, this.metric(state), state.process, this.moments(state));
  }

  /** What the total is made of over the snapshots. */
  parts(state: State, most: number): OwnerCourse[] {
    const metric = this.metric(state);
    const { process, labels } = state;
    return this.memo("parts", JSON.stringify([metric, process, labels, most]), () => courseByOwner(this.report, metric, { process, labels }, this.moments(state), most));
  }

  /** The processes with the values that are shown: "app (pid 42)", or "app and 2 more". */
  programs(state: State): string {
    const { kind, name } = this.metric(state);
    const shown = this.report.series.filter((s) => s.kind === kind && s.base === state.base && (state.base || state.process === "" || s.process === state.process));
    const names = programNames(shown, name);
    if (names.length === 0) return "all";
    if (names.length > 1) return `${names[0]} and ${names.length - 1} more`;
    const processes = new Set(shown.map((s) => s.process)).size;
    return processes > 1 ? `${names[0]}, ${processes} processes` : names[0]! + (shown[0]!.pid === "" ? "" : ` (pid ${shown[0]!.pid})`);
  }

  /** Returns "averaged over 4 profiles" if that applies. */
  averaged(state: State): string {
    if (this.metric(state).isCounter) return "";
    const count = averagedOver(this.report, this.choice(state));
    return count > 1 ? `averaged over ${count} profiles` : "";
  }

  /** Whether the other side has files for what is shown. */
  baseHas(state: State): boolean {
    const metric = this.metric(state);
    return this.report.series.some((s) => s.base && s.kind === metric.kind && s.metrics.some(([name]) => name === metric.name));
  }

  /** Metrics that can be shown: in comparisons of files those that both sides have. */
  metricsFor(state: State): Metric[] {
    if (state.compare?.type !== "files") return this.metrics;
    const has = (base: boolean, { kind, name }: Metric) => this.report.series.some((s) => s.base === base && s.kind === kind && s.metrics.some(([one]) => one === name));
    return this.metrics.filter((metric) => has(false, metric) && has(true, metric));
  }

  /** What a view shows of a comparison: both sides, or one of them as if nothing was compared. */
  sided(state: State): State {
    if (state.compare === null || state.view === "flame") return state;
    const as = comparesAs[state.view];
    if (as === "both" && (state.side === "both" || state.view === "compare")) return state;
    return oneSide(state, as !== "head" && state.side === "base" ? "base" : "head", this.moments(state)[0] ?? 0);
  }

  /** Values below zero: the profile is a difference itself. */
  hasNegative(state: State): boolean {
    const tree = this.tree(state);
    return tree.total.length === 1 && tree.weight[0]! > tree.total[0]![0]! * (1 + 1e-9);
  }

  private valuesKey(state: State): string {
    return JSON.stringify(this.choice(state));
  }

  values(state: State): Values {
    return this.memo("values", this.valuesKey(state), () => valuesFor(this.report, this.choice(state)), 3);
  }

  /** What percentages are of: everything, whatever filters leave of it, as in `holdfast top`. */
  whole(state: State): number {
    const labels = state.labels.filter(({ key }) => isProcessKey(key) || key === "thread"); // of a thread, its own time is all
    return this.values(labels.length === state.labels.length ? state : { ...state, labels }).total;
  }

  private treeKey(state: State): string {
    return [this.valuesKey(state), JSON.stringify(state.chips), state.fold, state.inlined, state.byValue].join("|");
  }

  /** Returns everything that is shown, as one tree. */
  tree(state: State, side?: number): FlameTree {
    return this.memo(`tree ${side}`, this.treeKey(state), () => {
      const options = { ...this.treeOptions(state), ...(side === undefined ? {} : { side }) };
      return buildTree(this.report, this.values(state).columns, options);
    });
  }

  /** Returns only waits for locks, or also for events: the waits worth investigating. */
  private waitTree(state: State, mostRank: 0 | 1): FlameTree {
    if (!hasUnheld(this.report, this.metric(state).kind)) return this.tree(state);
    return this.memo(`waits ${mostRank}`, this.treeKey(state), () => buildTree(this.report, valuesFor(this.report, { ...this.choice(state), mostRank }).columns, this.treeOptions(state)));
  }

  /** Returns null if everything shown is for locks. */
  waits(state: State): Waits | null {
    if (state.compare !== null || !hasUnheld(this.report, this.metric(state).kind)) return null;
    return this.memo("waits", this.treeKey(state), () => waitsOf(this.tree(state), this.waitTree(state, 0), this.waitTree(state, 1)));
  }

  /** Returns the largest owner of what is shown. */
  biggest(state: State): Biggest | null {
    if (this.metric(state).kind === "holders") return this.memo("biggest", this.treeKey(state), () => biggestHolder(this.report, this.tree(state)));
    return this.memo("biggest", this.treeKey(state), () => biggestOwner(this.report, this.waitTree(state, 0), this.tree(state).total[0]![0]!, isMemory(this.metric(state).kind)));
  }

  /** Returns filters, folding and order, for all views of stacks. */
  treeOptions(state: State): TreeOptions {
    const filters: StackFilter[] = state.chips.map(({ type, pattern }) => ({ type, matches: matchFunctions(this.report, pattern) }));
    return { filters, fold: this.folded(state), byValue: state.byValue };
  }

  /** Whether a stack of functions passes the filters. */
  passes(state: State, stack: number[]): boolean {
    return this.treeOptions(state).filters.every(({ type, matches }) => stack.some((fn) => matches[fn] === 1) === (type !== "hide"));
  }

  /** Whether folding plumbing, or inlined functions, changes anything. */
  readonly hasPlumbing: boolean;
  readonly hasInlined: boolean;

  folded(state: State): Uint8Array | null {
    if (!(state.fold && this.hasPlumbing) && (state.inlined || !this.hasInlined)) return null;
    const { framePlumbing, frameInlined } = this.report;
    return frameInlined.map((inlined, i) => ((state.fold && framePlumbing[i] === 1) || (!state.inlined && inlined === 1) ? 1 : 0));
  }

  inverted(state: State): FlameTree {
    return this.memo("inverted", this.treeKey(state), () => callerTree(this.tree(state), null, state.byValue, leastOf(this.tree(state))));
  }

  /** Returns the tree that the flame graph draws. */
  flame(state: State): FlameTree {
    if (state.inverted) return this.inverted(state);
    const side = this.sideOf(state);
    const top = this.top(state);
    if (top === null) return this.tree(state, side);
    return this.memo(`flame ${side}`, this.treeKey(state), () => {
      const options: TreeOptions = { ...this.treeOptions(state), top, ...(side === undefined ? {} : { side }) };
      return buildTree(this.report, this.values(state).columns, options);
    });
  }

  /** Returns which frames are folded into the root: system frames, if any are outermost in a stack. */
  private top(state: State): Uint8Array | null {
    const { parent, frame, frameSystem } = this.report;
    if (!state.top || state.fold) return null;
    return this.memo("has top", "", () => parent.some((up, i) => i > 0 && up === 0 && frameSystem[frame[i]!] === 1)) ? frameSystem : null;
  }

  /** Return the zoomed frame of the flame graph, and the frame in the inspector; 0: none. */
  zoomed(state: State): number {
    return nodeBelow(this.flame(state), state.zoom);
  }
  pinned(state: State): number {
    const node = nodeBelow(this.flame(state), state.pinned.length > 0 ? state.pinned : state.zoom);
    return node > 0 && this.flame(state).func[node] === state.selected ? node : 0;
  }

  /** Returns the boxes of the flame graph, with runs as one box if enabled. */
  boxes(state: State, apart: ReadonlySet<number>): Runs | null {
    if (!state.runs || state.inverted) return null; // inverted trees show callers, so even a single one matters
    const tree = this.flame(state);
    return this.memo("boxes", `${this.treeKey(state)} ${state.inverted} ${state.side} ${state.top} ${[...apart].join()}`, () => collapseRuns(tree, apart));
  }

  functions(state: State): FunctionRow[] {
    return this.memo("functions", this.treeKey(state), () => functionTable(this.tree(state)));
  }

  functionRow(state: State, func: number): FunctionRow | undefined {
    return this.memo("rows", this.treeKey(state), () => new Map(this.functions(state).map((row) => [row.func, row]))).get(func);
  }

  /** By function. Null: no pattern, or an invalid one. */
  matches(pattern: string): Uint8Array | null {
    return pattern === "" || patternError(pattern) !== "" ? null : this.memo("matches", pattern, () => matchFunctions(this.report, pattern));
  }

  /** Whether the labels and the chosen process include a process. "" is the process of files that do not state one. */
  hasProcess(state: State, process: string): boolean {
    if (state.process !== "" && process !== state.process) return false;
    const of = this.report.series.filter((series) => !series.base && series.process === process);
    return of.length === 0 || of.some((series) => passes(this.report, series, state.labels));
  }

  /** Whether only a part of the run, or of its samples, is shown: then counts for the whole run do not apply. */
  isPart(state: State): boolean {
    return state.from >= 0 || state.to >= 0 || state.weight !== null || state.labels.some(({ key }) => !isProcessKey(key));
  }

  growths(state: State): Growth[] {
    return this.report.growths.filter((growth) => this.hasProcess(state, growth.process));
  }

  leaks(state: State): Leak[] {
    const growths = this.growths(state);
    return this.memo("leaks", growths.map(({ process, kind }) => `${kind} ${process}`).join("|"), () => findLeaks(growths));
  }

  halfWidth(state: State): number | null {
    return state.chips.length > 0 ? null : totalHalfWidth(this.report, this.choice(state));
  }

  /** Variance of what is shown, over nodes of the report. Null in comparisons, which have a column of their own. */
  private variance(state: State): Float64Array {
    return this.memo("variance", this.valuesKey(state), () => varianceColumn(this.report, this.choice(state), this.metric(state), state.base));
  }

  /** Returns ± (95 %) of the frames below some nodes of the shown tree. `own`: only of their self values. */
  plusMinus(state: State, nodes: number[], own: boolean, tree = this.tree(state)): number | null {
    if (state.compare !== null) {
      let sum = 0;
      for (const node of nodes) sum += own ? tree.self[2]![node]! : tree.total[2]![node]!;
      return 1.96 * Math.sqrt(sum);
    }
    if (!this.isSampled(state)) return null;
    const variance = this.variance(state);
    return 1.96 * Math.sqrt(this.sumBelow(tree, variance, nodes, own));
  }

  /** Whether everything shown states its sampling; files from other tools often do not. */
  isSampled(state: State): boolean {
    const { kind, name } = this.metric(state);
    const shown = this.report.series.filter((series) => series.kind === kind);
    return shown.every((series) => {
      const m = series.metrics.findIndex(([metric]) => metric === name);
      return m < 0 || hasError(series, m);
    });
  }

  /** Whether every event was recorded and nothing was sampled: the files state an interval of 1. */
  isExact(state: State): boolean {
    const shown = this.report.series.filter((series) => series.kind === this.metric(state).kind && (series.base ? state.compare?.type === "files" : isChosen(series, state.process)));
    return shown.length > 0 && shown.every(isExactSeries);
  }

  private sumBelow(tree: FlameTree, column: Float64Array, nodes: number[], own: boolean): number {
    let sum = 0;
    if (own) {
      const wanted = new Set(nodes);
      for (let i = 0; i < column.length; ++i) if (column[i] !== 0 && wanted.has(tree.viewOf[i]!)) sum += column[i]!;
      return sum;
    }
    const covered = new Uint8Array(tree.size);
    for (const node of nodes) covered.fill(1, node, tree.end[node]!);
    for (let i = 0; i < column.length; ++i) {
      const node = tree.viewOf[i]!;
      if (node >= 0 && covered[node] === 1) sum += column[i]!;
    }
    return sum;
  }

  /** Returns another value of the same kind for the same frames: objects beside bytes. */
  companion(state: State, name: string, nodes: number[], tree = this.tree(state)): number | null {
    const column = this.memo(`companion ${name}`, this.valuesKey(state), () =>
      companionColumn(this.report, this.choice(state), name),
    );
    return column === null ? null : this.sumBelow(tree, column, nodes, false);
  }

  /** Returns the sizes of the blocks below some nodes of the shown tree; empty if unknown. */
  sizes(state: State, nodes: number[], tree = this.tree(state)): SizeBin[] {
    if (state.compare !== null || !isMemory(this.metric(state).kind)) return [];
    const covered = new Uint8Array(tree.size);
    for (const node of nodes) covered.fill(1, node, tree.end[node]!);
    return sizeBins(this.report, this.choice(state), (node) => tree.viewOf[node]! >= 0 && covered[tree.viewOf[node]!] === 1);
  }

  placesOf(state: State, func: number): number[] {
    return this.memo("places", this.treeKey(state) + func, () => occurrences(this.tree(state), func));
  }

  /** Returns every occurrence, including recursive ones: all nodes with a self value of the function. */
  allPlacesOf(state: State, func: number): number[] {
    const tree = this.tree(state);
    const places: number[] = [];
    for (let i = 1; i < tree.size; ++i) if (tree.func[i] === func) places.push(i);
    return places;
  }

  /** As people read it, the same everywhere; the whole name is in the inspector. */
  shortName(func: number): string {
    return func < 0 ? "all" : this.report.shortNames[func]!;
  }

  /** The function that is shown by a name; −1: none is. */
  named(short: string): number {
    return this.memo("named", "", () => new Map(this.report.shortNames.map((text, i) => [text, i]))).get(short) ?? -1;
  }

  packageName(func: number): string {
    return func < 0 ? "" : this.report.functionPackage[func]!;
  }

  /** Returns packages by the self values of their functions, the largest first. */
  packagesBySize(state: State): [name: string, size: number][] {
    return this.memo("packages", this.treeKey(state), () => {
      const sizes = new Map<string, number>();
      for (const row of this.functions(state)) {
        const name = this.packageName(row.func);
        sizes.set(name, (sizes.get(name) ?? 0) + Math.abs(row.self[0]!));
      }
      return [...sizes].sort((a, b) => b[1] - a[1]);
    });
  }

  /** By package if there are several; if nearly all is in one, by function. */
  private usualColour(): "package" | "function" {
    this.usual ??= ((): "package" | "function" => {
      const sizes = this.packagesBySize(initialState);
      const all = sizes.reduce((sum, [, size]) => sum + size, 0);
      return sizes.length > 0 && sizes[0]![1] > 0.9 * all ? "function" : "package";
    })();
    return this.usual;
  }

  /** How boxes are coloured: as chosen, else differences in comparisons, else what suits the report. */
  colour(state: State): ColourMode {
    if (state.compare === null) return state.colour === "" || state.colour === "diff" ? this.usualColour() : state.colour;
    return state.colour === "" ? "diff" : state.colour;
  }

  origin(state: State, func: number): Origin {
    const of = this.memo("origins", state.mine.join("/"), () => originsOf(this.report, state.mine));
    return func < 0 ? "user" : origins[of[func]!]!;
  }

  object(func: number): string {
    return func < 0 ? "" : objectName(this.report, func);
  }

  /** "app.cc:42" */
  place(func: number): string {
    if (func < 0 || this.report.files[func] === "") return "";
    const line = this.report.startLines[func]!;
    return this.report.files[func]! + (line > 0 ? `:${line}` : "");
  }

  causes(state: State, tree: FlameTree): Causes {
    return this.memo("causes", `${this.treeKey(state)} ${tree === this.tree(state)}`, () => causesOf(this, state, tree));
  }
}
