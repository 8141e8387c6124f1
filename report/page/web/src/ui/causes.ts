// Colours by cause: why each node of a tree has its memory or its waits.
import { nodesOf } from "../core/leaks";
import { companionColumn, valuesFor } from "../core/select";
import type { State } from "../core/state";
import type { FlameTree } from "../core/tree";
import type { Model } from "./model";

export interface Causes {
  names: string[];
  of: Uint8Array; // by node: the cause of most of its value
}

export function causesOf(model: Model, state: State, tree: FlameTree): Causes {
  const metric = model.metric(state);
  const { columns } = model.values(state);
  const value = columns[0]!;
  const names: string[] = [];
  const parts: Float64Array[] = [];
  if (metric.kind === "heap") {
    names.push("growing", "large (128 KiB and more)", "short-lived", "kept, small");
    const growing = nodesOf(model.report, model.leaks(state).filter((leak) => leak.kind === "heap" && leak.leaks));
    const choice = model.choice({ ...state, compare: null });
    const space = companionColumn(model.report, choice, "alloc_space");
    const objects = companionColumn(model.report, choice, "alloc_objects");
    const inuse = companionColumn(model.report, choice, "inuse_space");
    for (const _ of names) parts.push(new Float64Array(tree.size));
    for (let i = 0; i < value.length; ++i) {
      const node = tree.viewOf[i]!;
      if (node < 0 || value[i] === 0) continue;
      const allocated = space?.[i] ?? 0;
      const cause = growing[i] === 1
        ? 0
        : allocated > 0 && allocated / Math.max(1, objects?.[i] ?? 1) >= 131072
          ? 1
          : allocated > 0 && (inuse?.[i] ?? 0) < 0.1 * allocated
            ? 2
            : 3;
      parts[cause]![node]! += Math.abs(value[i]!);
    }
  } else if (metric.kind === "lifetimes") {
    names.push("short-lived (up to 1 ms)", "up to 1 s", "longer");
    for (const _ of names) parts.push(new Float64Array(tree.size));
    for (const text of model.labelValues.get("age") ?? []) {
      const part = parts[Number(text) <= 1e6 ? 0 : Number(text) <= 1e9 ? 1 : 2]!;
      const column = valuesFor(model.report, { ...model.choice(state), compare: null, labels: [...state.labels, { key: "age", text }] }).columns[0]!;
      for (let i = 0; i < column.length; ++i) if (tree.viewOf[i]! >= 0) part[tree.viewOf[i]!]! += Math.abs(column[i]!);
    }
    const unknown = new Float64Array(tree.size);
    for (let i = 0; i < value.length; ++i) if (tree.viewOf[i]! >= 0) unknown[tree.viewOf[i]!]! += Math.abs(value[i]!);
    for (let i = 0; i < unknown.length; ++i) for (const part of parts) unknown[i]! -= part[i]!;
    if (unknown.some((bytes) => bytes > 0.5)) {
      names.push("age unknown");
      parts.push(unknown);
    }
  } else {
    const ofKind: Record<string, string> = { exceptions: "type", map: "mapping", mutex: "lock" };
    const key = ofKind[metric.kind] ?? (model.labelValues.has("wait") ? "wait" : "lock");
    for (const text of model.labelValues.get(key) ?? []) {
      const part = new Float64Array(tree.size);
      const column = valuesFor(model.report, { ...model.choice(state), compare: null, labels: [...state.labels, { key, text }] }).columns[0]!;
      for (let i = 0; i < column.length; ++i) if (tree.viewOf[i]! >= 0) part[tree.viewOf[i]!]! += Math.abs(column[i]!);
      names.push(text);
      parts.push(part);
    }
    if (names.length === 0) {
      names.push("not known");
      parts.push(new Float64Array(tree.size));
    }
  }
  const of = new Uint8Array(tree.size);
  for (const part of parts) for (let i = tree.size - 1; i > 0; --i) part[tree.parent[i]!]! += part[i]!;
  for (let i = 0; i < tree.size; ++i) {
    for (let k = 1; k < parts.length; ++k) if (parts[k]![i]! > parts[of[i]!]![i]!) of[i] = k;
  }
  return { names, of };
}
