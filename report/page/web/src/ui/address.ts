// Reads addresses from anywhere: other reports, older ones, people. Omits and reports what does not exist here.
import { patternError } from "../core/match";
import { metricKey } from "../core/metrics";
import { fromHash, type State } from "../core/state";
import type { Model } from "./model";

/** `missing`: what was left out, in the user's words. */
export function readAddress(hash: string, model: Model, initial: State): { state: State; missing: string[] } {
  const { state, unknown } = fromHash(hash, model.names, initial);
  const { report } = model;
  // A name without a kind, as `holdfast top --metric` accepts it, means the first kind that has it.
  if (state.metric !== "" && !state.metric.includes("/")) {
    const named = model.metrics.find(({ name }) => name === state.metric);
    if (named !== undefined) state.metric = metricKey(named);
  }
  const missing = [...new Set(unknown)].map((name) => `the function “${name}”`);
  const next = { ...state };
  const leaveOut = (change: Partial<State>, what: string) => {
    Object.assign(next, change);
    missing.push(what);
  };

  const knows = (key: string, texts: string[]) => texts.every((text) => model.labelValues.get(key)?.includes(text) === true);
  const { compare } = state;
  if (compare?.type === "files" && !model.hasBase) leaveOut({ compare: initial.compare }, "files to compare with");
  if (compare?.type === "label" && !knows(compare.key, [compare.base, compare.head])) {
    leaveOut({ compare: initial.compare }, `values of the label “${compare.key}” to compare`);
  }
  if (state.process !== "" && !report.series.some((series) => series.process === state.process)) {
    leaveOut({ process: "" }, `the process “${state.process}”`);
  }
  if (state.metric !== "" && model.metricOf(state) !== state.metric) leaveOut({ metric: "" }, `the metric “${state.metric}”`);
  const labels = state.labels.filter(({ key, text }) => knows(key, [text]));
  const lost = state.labels.filter((label) => !labels.includes(label));
  if (lost.length > 0) leaveOut({ labels }, lost.map(({ key, text }) => `the label ${key} “${text}”`).join("; "));
  const chips = state.chips.filter(({ pattern }) => patternError(pattern) === "");
  for (const { pattern } of state.chips) {
    if (patternError(pattern) !== "") leaveOut({ chips }, `the filter ${pattern}, which is not a valid expression`);
  }
  for (const { pattern } of chips) {
    if (pattern.startsWith("=") && model.names.find(pattern.slice(1)) < 0) missing.push(`the function “${pattern.slice(1)}” of a filter`);
  }
  const times = report.series.filter((series) => !series.base).flatMap((series) => series.snapshots.map(({ ms }) => ms));
  const [first, last] = [Math.min(...times), Math.max(...times)];
  if ((state.to >= 0 && state.to < first) || state.from > last) leaveOut({ from: -1, to: -1 }, "the range of time");
  return { state: next, missing: [...new Set(missing)] };
}
