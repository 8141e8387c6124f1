// A live page's moments put together are what `holdfast html` makes of the same snapshots at once; and they go into a file and back.
// Without a browser; run by ctest with HOLDFAST_TOOL and HOLDFAST_WEB set.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { inflateRawSync } from "node:zlib";
import { heap, randomStacks, writeProfile } from "./pprof.mjs";

const core = await import(join(process.env.HOLDFAST_WEB, "core.mjs"));
const folder = mkdtempSync(join(tmpdir(), "holdfast-moments-"));
after(() => rmSync(folder, { recursive: true }));
const choice = { metric: "heap/inuse_space", from: -1, to: -1, mean: false, weight: null, process: "", labels: [], compare: null, normalise: false };
const second = (i) => 1_700_000_000_000 + i * 1000;
let made = 0;

const write = (profile) => writeProfile(join(folder, `${++made}.${profile.kind ?? "heap"}.pb.gz`), profile);
function read(...files) {
  const html = execFileSync(process.env.HOLDFAST_TOOL, ["html", "-o", "-", ...files], { encoding: "utf8", maxBuffer: 1 << 28 });
  return core.parseReport(new Uint8Array(inflateRawSync(Buffer.from(/id="data">([^<]*)</.exec(html)[1], "base64"))));
}
function together(answers) {
  const moments = new core.Moments();
  for (const answer of answers) assert.ok(moments.add(answer));
  return moments.report();
}

/** Rows as people know them: stack, labels, values of all snapshots. */
function rowsOf(report, kind) {
  const series = report.series.find((one) => one.kind === kind);
  const name = (node) => {
    const names = [];
    for (let i = node; i > 0; i = report.parent[i]) {
      const f = report.frame[i];
      names.push(`${report.names[report.frameFunction[f]]}:${report.frameLine[f]}@${report.objects[report.frameObject[f] - 1]?.[0]}`);
    }
    return names.join("<");
  };
  const rows = new Map();
  for (let s = 0; s < series.snapshots.length; ++s) {
    const coefficients = series.snapshots.map((_, i) => (i === s ? 1 : 0));
    for (let m = 0; m < series.metrics.length; ++m) {
      core.combine(series, m, coefficients).forEach((value, row) => {
        const key = `${name(series.node[row])} ${JSON.stringify(report.labelSets[series.labels[row]])}`;
        if (value !== 0) rows.set(`${key} ${s} ${series.metrics[m][0]}`, value);
      });
    }
  }
  return [...rows].sort(([a], [b]) => (a < b ? -1 : 1));
}

const growing = (i) => randomStacks(300 + 150 * i, 7).map((sample, k) => ({ ...sample, values: sample.values.map((value) => value * (1 + ((i * k) % 5))) }));
const files = [0, 1, 2, 3, 4, 5].map((i) => write({ ms: second(i), samples: growing(i) }));
const waits = [2, 3].map((i) => write({ kind: "block", ms: second(i), samples: [{ stack: ["main", `waits_${i}`], values: [i, 1000 * i], labels: { wait: "mutex" } }] }));
const answers = files.map((file, i) => (i === 2 || i === 3 ? read(file, waits[i - 2]) : read(file)));

test("Moments that came one by one are the report of all snapshots: functions, stacks, labels, values", () => {
  const all = read(...files, ...waits);
  const live = together(answers);
  assert.deepEqual(live.names, all.names);
  assert.deepEqual(live.shortNames, all.shortNames);
  assert.deepEqual(live.parent, all.parent);
  assert.deepEqual([...live.frame].map((f) => live.frameFunction[f]), [...all.frame].map((f) => all.frameFunction[f]));
  assert.deepEqual(live.functionPackage, all.functionPackage);
  assert.deepEqual(live.functionPlumbing, all.functionPlumbing);
  assert.deepEqual(live.series[0].snapshots.map(({ ms, totals }) => [ms, totals]), all.series[0].snapshots.map(({ ms, totals }) => [ms, totals]));
  const rows = rowsOf(all, "heap");
  assert.ok(rows.length > 1000);
  assert.deepEqual(rowsOf(live, "heap"), rows);
  for (const metric of ["heap/inuse_space", "heap/alloc_objects"]) {
    for (const range of [{ from: -1, to: -1 }, { from: second(1), to: second(3) }]) {
      const [a, b] = [all, live].map((report) => core.valuesFor(report, { ...choice, metric, ...range }));
      assert.deepEqual(b.columns, a.columns);
    }
  }
});

test("Stacks are in preorder, siblings by name, as the first look at a report needs them", () => {
  const { parent, frame, frameFunction } = together(answers);
  const last = new Map();
  for (let i = 1; i < parent.length; ++i) {
    assert.ok(parent[i] < i);
    const before = last.get(parent[i]);
    if (before !== undefined) assert.ok(frameFunction[frame[before]] <= frameFunction[frame[i]]);
    last.set(parent[i], i);
  }
});

test("A kind that comes later begins there, and one that has nothing any more is at nothing", () => {
  const live = together(answers);
  const block = live.series.find(({ kind }) => kind === "block");
  assert.deepEqual(block.snapshots.map(({ ms, totals }) => [ms, totals]), [[second(2), [2, 2000]], [second(3), [3, 3000]], [second(4), [0, 0]], [second(5), [0, 0]]]);
  assert.equal(core.valuesFor(live, { ...choice, metric: "block/delay" }).total, 0);
  assert.equal(core.valuesFor(live, { ...choice, metric: "block/delay", to: second(3) }).total, 3000);
});

test("A report goes into a file and comes back as it was", () => {
  const same = (report) => {
    const back = core.parseReport(core.encodeReport(report));
    for (const part of ["names", "shortNames", "files", "startLines", "frameFunction", "frameLine", "frameObject", "frameSystem", "framePlumbing", "frameInlined", "objects", "functionObject", "functionPackage", "functionPlumbing", "functionOrigin", "parent", "frame", "labelSets", "growths", "sources", "version"]) {
      assert.deepEqual(back[part], report[part], part);
    }
    assert.deepEqual(back.series.map(({ node, labels, rank, columns, ...rest }) => rest), report.series.map(({ node, labels, rank, columns, ...rest }) => rest));
    for (const { kind } of report.series) assert.deepEqual(rowsOf(back, kind), rowsOf(report, kind));
  };
  same(together(answers));
  same(read(...files, ...waits)); // with growths, as the tool found them
  const odd = [heap(["main", "naïve<Ωmega>", "日本", "a\u{1f600}b"], 2 ** 45, 3), heap([{ name: "main", file: "/src/a.cc", line: 12, object: "/lib/libodd.so" }, "x"], 1)];
  same(together([read(write({ ms: second(0), samples: odd })), read(write({ ms: second(1), samples: odd.slice(0, 1) }))]));
});

test("Without a change the course goes on; an answer that is not later changes nothing", () => {
  const moments = new core.Moments();
  assert.ok(moments.add(answers[0]));
  assert.equal(moments.add(answers[0]), false);
  const before = moments.report();
  moments.repeat(second(0) + 500);
  moments.repeat(second(0) + 400);
  const live = moments.report();
  assert.deepEqual(live.series[0].snapshots.map(({ ms }) => ms), [second(0), second(0) + 500]);
  assert.deepEqual(core.valuesFor(live, choice).columns, core.valuesFor(before, choice).columns);
  assert.equal(live.names, before.names, "and what did not change is the same");
});

test("A day of moments stays small: the newest 120 as they came, the older ones thinned, the first and all values right", () => {
  const files = [0, 1].map((i) => read(write({ ms: second(i), samples: growing(i) })));
  const moments = new core.Moments();
  const answer = (i) => ({ ...files[i % 2], series: files[i % 2].series.map((one) => ({ ...one, snapshots: [{ ...one.snapshots[0], ms: second(i) }] })) });
  const count = 3000;
  for (let i = 0; i < count; ++i) moments.add(answer(i));
  const live = moments.report();
  const [series] = live.series;
  const times = series.snapshots.map(({ ms }) => (ms - second(0)) / 1000);
  assert.ok(times.length <= core.mostMoments && times.length >= core.mostMoments / 2, `${times.length}`);
  assert.equal(times[0], 0);
  assert.deepEqual(times.slice(-100), Array.from({ length: 100 }, (_, i) => count - 100 + i));
  assert.equal(series.columns.length, times.length * series.metrics.length);
  times.forEach((i) => {
    const wanted = core.valuesFor(files[i % 2], choice).total;
    assert.equal(core.valuesFor(live, { ...choice, to: second(i) }).total, wanted, `${i}`);
  });
});
