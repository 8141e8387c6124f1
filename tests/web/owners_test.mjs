// The owner of memory and of waits: the page names the same function as the line `biggest` of `holdfast top`, for profiles of real
// programs in C, C++ and Rust. Without a browser; run by ctest with HOLDFAST_TOOL, HOLDFAST_WEB and HOLDFAST_PROGRAMS set.
import assert from "node:assert/strict";
import { execFileSync, spawnSync } from "node:child_process";
import { mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { inflateRawSync } from "node:zlib";

const core = await import(join(process.env.HOLDFAST_WEB, "core.mjs"));
const tool = process.env.HOLDFAST_TOOL;
const folder = mkdtempSync(join(tmpdir(), "holdfast-owners-"));
after(() => rmSync(folder, { recursive: true }));
const choice = { from: -1, to: -1, mean: false, weight: null, process: "", labels: [], compare: null, normalise: false };
const none = { filters: [], fold: null, byValue: false };

function profile(name, command, options = {}) {
  const out = join(folder, name);
  const run = spawnSync(tool, ["run", "-q", "-o", out, "--seed", "1", "--heap-interval", "1", "--lock-interval", "1ns", "--", ...command], { encoding: "utf8", timeout: 60_000, ...options });
  assert.equal(run.status, 0, run.stderr);
  // On a busy machine the exporter leaves lines out, of one process and not of another; which of them a sum has is by chance.
  execFileSync(tool, ["symbolize", out], { stdio: "ignore" });
  return out;
}

function reportOf(out, options, cwd) {
  const html = execFileSync(tool, ["html", "-o", "-", ...options, out], { encoding: "utf8", maxBuffer: 1 << 28, cwd });
  return core.parseReport(new Uint8Array(inflateRawSync(Buffer.from(/id="data">([^<]*)</.exec(html)[1], "base64"))));
}

/** { name, value, mostly } as the page has it. */
function onPage(report, metric) {
  const tree = (most) => core.buildTree(report, core.valuesFor(report, { ...choice, metric, ...most }).columns, none);
  const whole = tree({}).total[0][0];
  const biggest = core.biggestOwner(report, tree({ mostRank: 0 }), whole, metric.startsWith("heap/"));
  return biggest === null ? null : { name: biggest.name, value: biggest.value, mostly: biggest.other === "" ? "" : `${biggest.isBranch ? "by" : /^(block|mutex)\//.test(metric) ? "called by" : "for"} ${biggest.other}` };
}

/** The same on the terminal; of the first row where that says it. */
function onTerminal(out, metric, options, cwd) {
  const [kind, name] = metric.split("/");
  const unit = name === "delay" ? "ns" : "bytes";
  const top = ["top", "--kind", kind, "--metric", name, "--unit", unit, ...options, out];
  const text = execFileSync(tool, top, { encoding: "utf8", cwd });
  const line = /^biggest  (.*): (\d+)(?:ns|B)?(?: for locks)?, [<\d.]+%(?:, mostly (.*))?$/m.exec(text);
  if (line !== null) return { name: line[1], value: Number(line[2]), mostly: line[3] ?? "" };
  const [row] = JSON.parse(execFileSync(tool, [...top, "--format", "json"], { encoding: "utf8", cwd })).rows;
  return { first: row.function };
}

function same(out, options = [], cwd = folder) {
  const report = reportOf(out, options, cwd);
  const kinds = new Set(readdirSync(out).map((file) => file.split(".").at(-3)));
  const answers = {};
  let compared = 0;
  for (const metric of ["heap/inuse_space", "heap/alloc_space", "block/delay", "mutex/delay"]) {
    if (!kinds.has(metric.split("/")[0])) continue;
    const there = onTerminal(out, metric, options, cwd);
    const here = onPage(report, metric);
    if (there.first !== undefined) {
      if (here !== null) assert.equal(report.names.includes(there.first) && here.name, report.shortNames[report.names.indexOf(there.first)], metric);
    } else {
      assert.deepEqual(here, there, `${out} ${metric}`);
      ++compared;
    }
    answers[metric] = here?.name;
  }
  assert.ok(compared > 0, "the terminal says it of some metric");
  return answers;
}

const longNames = () => profile("long_names", [join(process.env.HOLDFAST_PROGRAMS, "long_names")], { input: "line\n".repeat(4) });

test("A C++ program: page and terminal name the same function, by a name that can be read", () => {
  const answers = same(longNames());
  assert.match(answers["heap/inuse_space"], /ReplicatedHashTable<std::string, .*>::InsertOrAssignWithRetries/);
});

test("A Rust program: page and terminal name the same function", () => {
  same(profile("rust", [join(process.env.HOLDFAST_PROGRAMS, "rust_waits")]));
});

test("redis-server: page and terminal name the same function", (t) => {
  if (spawnSync("redis-server", ["--version"]).status !== 0) return t.skip("no redis-server");
  const socket = join(folder, "redis.sock");
  const script = `redis-server --port 0 --unixsocket "$1" --save "" >/dev/null & until redis-cli -s "$1" ping >/dev/null 2>&1; do sleep 0.05; done; redis-benchmark -s "$1" -q -n 5000 -r 5000 -d 200 -t set,hset,lpush >/dev/null; redis-cli -s "$1" shutdown nosave; wait`;
  const out = profile("redis", ["sh", "-c", script, "sh", socket]);
  for (const file of readdirSync(out)) if (!file.startsWith("redis-server.")) rmSync(join(out, file));
  // The owner is a command, not the strings and tables that all commands use.
  const answers = same(out);
  assert.match(answers["heap/inuse_space"], /^(hset|set|lpush|pushGeneric)Command$/);
});

test("--plumbing and .holdfast hold on both, also of two processes", () => {
  const out = longNames(); // beside those of the first test
  const before = same(out)["heap/inuse_space"];
  const pattern = "InsertOrAssignWithRetries";
  const given = same(out, ["--plumbing", pattern])["heap/inuse_space"];
  assert.match(given, /FlushConfigurationChangesTo/);
  assert.notEqual(given, before);
  const project = mkdtempSync(join(folder, "project-"));
  writeFileSync(join(project, ".holdfast"), `plumbing ${pattern}\n`);
  assert.equal(same(out, [], project)["heap/inuse_space"], given);
  const wrong = spawnSync(tool, ["html", "-o", "-", "--plumbing", "(", out], { encoding: "utf8" });
  assert.equal(wrong.status, 2);
  assert.match(wrong.stderr, /^holdfast: --plumbing /);
});
