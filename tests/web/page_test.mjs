// The HTML report as people use it, in a real browser: each interaction does what it says, the numbers are those of
// `holdfast top`, nothing is asked of the network, and names of any kind are text and nothing else.
import assert from "node:assert/strict";
import { execFileSync, spawnSync } from "node:child_process";
import { mkdirSync, readFileSync, readdirSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { axeSource, core, folder, open, report, tool, top } from "./browser.mjs";
import { heap, randomStacks, shared, writeProfile } from "./pprof.mjs";

const sharedReport = report([{ samples: shared }]);

const minute = (i) => 1_700_000_000_000 + i * 60_000;
const growth = [0, 1, 2, 3, 4, 5].map((i) => ({
  ms: minute(i),
  samples: [heap(["main", "serve", "leak"], 1000 + i * 500, 10 + i * 5), { stack: ["main", "serve", "cache"], values: [100 * (i + 1), 10_000 * (i + 1), 50, 5000], labels: { bytes: 100 } }],
}));

// ---- Numbers ----

/** Runs a test program; gives the files of its profiles by kind. */
function profiled(program, ...options) {
  const out = join(folder, program);
  execFileSync(tool, ["run", "-q", "-o", out, ...options, "--", join(process.env.HOLDFAST_PROGRAMS, program)], { stdio: "ignore" });
  const names = readdirSync(out);
  return Object.fromEntries(["heap", "mutex", "block"].map((kind) => [kind, names.filter((name) => name.endsWith(`.${kind}.pb.gz`)).map((name) => join(out, name))]));
}
const libraries = profiled("uses_libraries", "--heap-interval", "4KiB");
const locked = profiled("named_locks", "--heap-interval", "1", "--lock-interval", "1ns");
const plain = (text) => text.replace(/,/g, ""); // counts are grouped on the page

test("Every row of every metric equals holdfast top: heap, mutex and block, of real programs", async () => {
  const random = writeProfile(join(folder, "random.heap.pb.gz"), { samples: randomStacks(1500, 5, 200) });
  const metrics = { heap: ["alloc_objects", "alloc_space", "inuse_objects", "inuse_space"], mutex: ["contentions", "delay"], block: ["contentions", "delay"] };
  for (const files of [{ heap: libraries.heap }, locked, { heap: [random] }]) {
    const { page, close, rows, total } = await open(report(Object.values(files).flat()), "#view=functions&fold=0");
    for (const [kind, [file]] of Object.entries(files)) {
      assert.notEqual(file, undefined, `no ${kind} profile was written`);
      for (const metric of metrics[kind]) {
        await page.getByTestId("metric").selectOption(`${kind}/${metric}`);
        const expected = top(metric, [file]);
        assert.ok(expected.rows.length > 0 || metric.startsWith("inuse"), `${file} ${metric}: rows were compared`);
        const width = expected.rows[0]?.length;
        const shown = (await rows("functions")).map((row) => row.slice(0, width).map((cell) => plain(cell.split("\n")[0])));
        assert.deepEqual(shown, expected.rows.map((row) => row.map(plain)), `${file} ${metric}`);
        assert.equal(plain(await total()), expected.total);
      }
      // As a page opens: with plumbing folded.
      const metric = metrics[kind].at(-1);
      const expected = top(metric, [file], "--fold", "plumbing");
      await page.keyboard.press("s");
      const shown = (await rows("functions")).map((row) => row.slice(0, expected.rows[0]?.length).map((cell) => plain(cell.split("\n")[0])));
      assert.deepEqual(shown, expected.rows.map((row) => row.map(plain)), `${file} ${metric}, folded`);
      await page.keyboard.press("s");
    }
    await close();
  }
});

test("The owner, its name, and how to get missing names", async () => {
  const full = "app::Table<std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char> > >::Grow()";
  const nameless = { name: "libx.so!0x1234", object: "/opt/libx.so" };
  const file = report([{ samples: [heap(["main", "serve", full, "zmalloc"], 700), heap(["main", "serve", "load", "zmalloc"], 300)] }]);
  const { page, close, text, rows } = await open(file, "#view=functions");
  assert.match(await text(".findings"), /Biggest\s+700B, 70% held by app::Table<std::string>::Grow/);
  assert.ok((await rows("functions")).some((row) => row[4].split("\n")[0] === "app::Table<std::string>::Grow"), "by a name that can be read");
  assert.ok(!(await text(".findings")).includes("Names"), "nothing is missing");
  await page.getByTestId("functions").locator("tr", { hasText: "Grow" }).getByRole("button").first().click();
  assert.equal(await text("[data-testid=inspector] h2"), "app::Table<std::string>::Grow");
  assert.equal(await text("[data-testid=whole-name]"), full);
  await close();
  const missing = await open(report([{ samples: [heap(["main", nameless], 1)] }]));
  assert.match(await missing.text(".findings"), /Names\s+100% is in code of libx\.so without function names\. To name it: .*holdfast symbolize /);
  await missing.close();
});

test("Of a program that has freed everything the page shows what it allocated, and says so", async () => {
  const { page, close, text, total } = await open(report([{ samples: [{ stack: ["main", "load"], values: [10, 1000, 0, 0], labels: { bytes: 100 } }] }]));
  assert.equal(await page.getByTestId("metric").inputValue(), "heap/alloc_space");
  assert.equal(await total(), "1000B");
  assert.match(await text(".summary"), /nothing is in use any more, so this shows all allocations/);
  assert.match(await text(".findings"), /Biggest\s+1000B, 100% allocated by load/);
  await close();
});

test("Of a folder the page shows what there was before the exit handlers, and says so; a named file as it is", async () => {
  const ended = join(folder, "ended");
  mkdirSync(ended);
  const at = (number, ms, moment, kept) => writeProfile(join(ended, `app.42.000${number}.heap.pb.gz`), { ms, comments: moment === "" ? [] : [`moment: ${moment}`], samples: [{ stack: ["main", "load"], values: [10, 1000, 10, kept], labels: { bytes: 100 } }] });
  at(1, minute(0), "", 400);
  at(2, minute(1), "before exit handlers", 1000);
  const after = at(3, minute(1) + 1000, "after exit handlers", 0);
  const file = join(folder, "ended.html");
  execFileSync(tool, ["html", "-o", file, ended]);
  const { page, close, text, total } = await open(file);
  assert.equal(await page.getByTestId("metric").inputValue(), "heap/inuse_space");
  assert.equal(await total(), "1000B");
  const clock = (ms) => page.evaluate((time) => new Date(time).toLocaleTimeString(undefined, { hour: "2-digit", minute: "2-digit", second: "2-digit" }), ms);
  assert.equal(await text("[data-testid=freed-at-exit]"), `Shown: ${await clock(minute(1))}, before the program freed memory at exit, ${await clock(minute(1) + 1000)}`);
  const printed = JSON.parse(execFileSync(tool, ["top", "--format", "json", ended], { encoding: "utf8" }));
  assert.deepEqual([printed.total, printed.freed_at_exit], [1000, 1]);
  await close();
  const named = await open(report([after]));
  assert.equal(await named.page.getByTestId("metric").inputValue(), "heap/alloc_space");
  assert.equal(await named.page.getByTestId("freed-at-exit").count(), 0);
  await named.close();
});

test("A process that ended before the others is not in the total, and the page says so", async () => {
  const out = join(folder, "earlier");
  mkdirSync(out);
  const at = (pid, ms, kept) => writeProfile(join(out, `app.${pid}.0001.heap.pb.gz`), { pid, ms, samples: [heap(["main", "load"], kept)] });
  at(1, minute(9), 1000);
  at(2, minute(1), 5000);
  const file = join(folder, "earlier.html");
  execFileSync(tool, ["html", "-o", file, out]);
  const { page, close, text, total } = await open(file);
  assert.equal(await total(), "1000B");
  assert.equal(await text("[data-testid=ended]"), "1 more process exited earlier with 4.88KiB in use, not included in the total");
  await page.getByTestId("process").selectOption("box/1/2/7/0");
  assert.equal(await total(), "4.88KiB");
  assert.equal(await page.getByTestId("ended").count(), 0);
  await close();
});

test("Locks and who waited for whom equal holdfast locks, on a real program", async () => {
  const printed = (...options) => JSON.parse(execFileSync(tool, ["locks", "--format", "json", "-n", "0", ...options, ...locked.mutex], { encoding: "utf8" })).rows;
  const { page, close, rows, hash, text } = await open(report([...locked.heap, ...locked.mutex, ...locked.block]), "#view=flame");
  const waited = printed().reduce((sum, row) => sum + row.delay_ns, 0); // and not for the join
  assert.ok((await text(".findings")).includes(`${core.formatValue(waited, "nanoseconds")} waited for locks that others held`), `${waited} ns: ${await text(".findings")}`);
  await page.locator(".findings").getByRole("button", { name: /^Locks/ }).click();
  assert.equal(await page.getByRole("tab", { selected: true }).innerText(), "Locks");
  const time = (ns) => core.formatValue(ns, "nanoseconds");
  const name = (cell) => cell.split("\n")[0];
  const shown = (await rows("lock-list")).map(([lock, delay, waits, , p50, p90, p99, longest, kind, holder, waiter]) => [delay, plain(waits), p50, p90, p99, longest, kind, name(holder), name(waiter), lock]);
  const both = (row, key) => `${core.formatRough(row[`${key}_ns`])}\n${core.formatRough(row[`held_${key}_ns`])}`;
  const locks = printed();
  assert.equal(locks.length, 2);
  assert.deepEqual(shown, locks.map((row) => [time(row.delay_ns), String(row.contentions), ...["p50", "p90", "p99", "longest"].map((key) => both(row, key)), row.kind, row.top_holder, row.top_waiter, row.name]));
  assert.deepEqual(shown.map((row) => row[7]), ["queue_culprit", "table_culprit"]);
  const pairs = printed("--holder", ".");
  assert.equal(pairs.length, 2);
  assert.deepEqual(
    (await rows("lock-pairs")).map(([lock, delay, count, waiter, , holder]) => [delay, plain(count), name(waiter), name(holder), lock]),
    pairs.map((row) => [time(row.delay_ns), row.contentions.toFixed(0), row.waiter, row.holder, row.lock]),
  );
  // Both sides, and what is nobody's fault: docs/locks.md says that they add up.
  const [, holders, gaps] = /holders account for ([\d.]+)%, the delay .* for ([\d.]+)%/.exec(await page.locator(".lead").innerText());
  assert.ok(Math.abs(Number(holders) + Number(gaps) - 100) < 0.02);
  for (const [kind, side] of [["block", "locks-block"], ["mutex", "locks-mutex"]]) {
    const expected = top("delay", locked[kind]);
    assert.deepEqual((await rows(side)).map((row) => row[0]), expected.rows.map((row) => row.at(-5)).filter((self) => self !== "0"));
  }
  await close();
});

test("Of files that do not say how they were sampled nothing is claimed, nor when", async () => {
  const { page, close, text } = await open(report([{ kind: "cpu", interval: 0, ms: 0, samples: [{ stack: ["main", "burn"], values: [10, 1000] }] }]));
  assert.match(await text(".timeline"), /One snapshot, at an unknown time/);
  assert.doesNotMatch(await text(".summary"), /exact|±|alloc/);
  assert.match(await text(".summary"), /of burn/);
  await page.keyboard.press("2");
  await page.getByTestId("functions").getByRole("button", { name: "burn" }).click();
  assert.doesNotMatch(await text("[data-testid=inspector]"), /±/);
  await close();
});

test("The interval of the whole is that of the file", async () => {
  const { page, close } = await open(report([{ interval: 524288, samples: shared, comments: ["total inuse_space: 1500 ± 700"] }]));
  assert.equal(await page.getByTestId("half-width").innerText(), "± 700B (95 %)");
  await close();
});

test("holdfast run --html writes a report of its own files, as private as they are", () => {
  const out = join(folder, "run");
  const run = (...options) => spawnSync(tool, ["run", "-o", out, ...options, "--", join(process.env.HOLDFAST_PROGRAMS, "uses_libraries")], { encoding: "utf8" });
  const first = run("--html", "--heap-interval", "1");
  const reports = readdirSync(out).filter((name) => name.endsWith(".html"));
  assert.equal(reports.length, 1);
  assert.match(reports[0], /^uses_libraries\.\d+\.html$/);
  assert.equal(statSync(join(out, reports[0])).mode & 0o777, 0o600);
  assert.match(first.stderr, new RegExp(`HTML report:\n +\\S+${reports[0]}`));
  assert.match(readFileSync(join(out, reports[0]), "utf8"), /<title>uses_libraries/);
  const both = run("--html", "--exec");
  assert.deepEqual([both.status, /--exec/.test(both.stderr)], [125, true]);
});

test("What cannot be done is one line that says what to do", () => {
  const html = (...args) => spawnSync(tool, ["html", ...args], { encoding: "utf8", env: { ...process.env, PATH: "/nowhere" } });
  const file = writeProfile(join(folder, "one.heap.pb.gz"), { samples: shared });
  const fails = (status, pattern, ...args) => {
    const result = html(...args);
    assert.equal(result.status, status, args.join(" "));
    assert.match(result.stderr, pattern);
    assert.match(result.stderr, /^holdfast: [^\n]+\n$/);
    assert.equal(result.stdout, "");
  };
  fails(2, /html: FILE is missing/);
  fails(3, /no_such_file/, join(folder, "no_such_file"));
  fails(3, /is not an HTML report, so it was not replaced/, file, "-o", file);
  fails(3, /not a regular file/, file, "-o", folder);
  fails(3, /could not write \(No such file/, file, "-o", join(folder, "missing", "x.html"));
  fails(2, /--embed: "much" is not a size/, file, "--embed", "much", "-o", join(folder, "x.html"));
  const cpu = writeProfile(join(folder, "one.cpu.pb.gz"), { kind: "cpu", samples: [{ stack: ["main"], values: [1, 10] }] });
  fails(3, /one\.cpu\.pb\.gz: has no metric in common with .*one\.heap\.pb\.gz\. Compare profiles of one kind\./, file, "--base", cpu, "-o", join(folder, "x.html"));
  const bytes = writeProfile(join(folder, "bytes.heap.pb.gz"), { encoding: "latin1", samples: [heap(["main", "caf\u00e9"], 5)] });
  fails(3, /bytes\.heap\.pb\.gz: damaged or not a pprof profile \(string \d+ is not UTF-8 \(byte 0xe9 at 3\)\)/, bytes, "-o", join(folder, "x.html"));
  fails(3, /could not start a browser/, file, "--open", "-o", join(folder, "x.html"));
  assert.match(html(file, "-o", "-").stdout, /^<!doctype html>/);
  const twice = html(file, file, "-o", join(folder, "x.html"));
  assert.equal(twice.status, 0);
  const broken = join(folder, "broken");
  mkdirSync(broken);
  writeProfile(join(broken, "a.heap.pb.gz"), { samples: shared });
  writeFileSync(join(broken, "b.heap.pb.gz"), "no profile");
  const partly = html(broken, "-o", join(folder, "x.html"));
  assert.equal(partly.status, 0);
  assert.match(partly.stderr, /b\.heap\.pb\.gz/);
});

// ---- The flame graph ----

test("Hover: name, total, self, and their parts", async () => {
  const { page, close, at } = await open(sharedReport);
  await page.mouse.move(...(await at(3, 0.05))); // parse_json: 500 of 1500, the first child by name
  const tip = page.getByRole("tooltip");
  assert.equal(await tip.locator("b").innerText(), "parse_json");
  assert.match(await tip.innerText(), /total\s+500B\s+33\.33%\s+self\s+200B\s+13\.33%/);
  await page.mouse.move(...(await at(3, 0.97))); // what handle_request has itself: no child covers it
  assert.equal(await tip.count(), 0);
  await close();
});

test("A double click zooms and changes no filter; root, Esc and Back restore", async () => {
  const { page, close, at, hash, total, text } = await open(sharedReport);
  const zoomTo = async () => {
    await page.mouse.dblclick(...(await at(3, 0.5)));
    assert.match(await hash(), /zoom=/);
  };
  await zoomTo();
  assert.equal(await total(), "1.46KiB");
  assert.equal(await text("[data-testid=inspector] h2"), "process_data");
  await page.mouse.move(...(await at(4, 0.1))); // apply is 500 of 900 and comes first
  assert.equal(await page.getByRole("tooltip").locator("b").innerText(), "apply");
  await page.mouse.move(...(await at(2, 0.99))); // an ancestor over the full width
  assert.equal(await page.getByRole("tooltip").locator("b").innerText(), "handle_request");
  await page.goBack();
  assert.equal(await hash(), "#frame=main;handle_request;process_data&fn=process_data", "what the first click chose");
  await page.goForward();
  assert.match(await hash(), /zoom=/);
  await page.keyboard.press("Escape");
  assert.doesNotMatch(await hash(), /zoom=/);
  await page.goBack();
  await page.mouse.click(...(await at(0, 0.5)));
  assert.doesNotMatch(await hash(), /zoom=/);
  await close();
});

test("Small frames are drawn as one and can be reached", async () => {
  const samples = [heap(["main", "large"], 1_000_000)];
  for (let i = 0; i < 300; ++i) samples.push(heap(["main", `tiny_${String(i).padStart(3, "0")}`], 10 + i / 100));
  const { page, close, at, hash, text } = await open(report([{ samples }]));
  await page.mouse.move(...(await at(2, 0.9985)));
  assert.match(await page.getByRole("tooltip").innerText(), /^300 small frames/);
  await page.mouse.click(...(await at(2, 0.9985)));
  const list = page.getByRole("dialog", { name: "300 small frames" });
  await list.getByRole("button", { name: /tiny_290/ }).click();
  assert.match(await hash(), /zoom=/);
  assert.equal(await text("[data-testid=inspector] h2"), "tiny_290");
  await close();
});

test("A key that brings another tree finds the mouse, the cursor and the list of small frames at rest", async () => {
  const samples = [heap(["main", "large"], 1_000_000)];
  for (let i = 0; i < 300; ++i) samples.push(heap(["main", `tiny_${String(i).padStart(3, "0")}`], 10 + i / 100));
  const { page, close, at, total } = await open(report([{ samples }]), "#fn=large"); // large
  await page.mouse.click(...(await at(2, 0.9985)));
  await page.getByRole("dialog").getByRole("button", { name: /tiny_290/ }).click(); // the cursor is there
  await page.mouse.dblclick(...(await at(1, 0.9985)));
  await page.mouse.move(...(await at(2, 0.9985)));
  assert.equal(await page.getByRole("tooltip").count(), 1);
  await page.evaluate(() => (location.hash = "#fn=large&focus==large")); // three frames are left
  await page.waitForFunction(() => document.querySelector("[data-testid=chips]") !== null);
  assert.equal(await total(), "976.56KiB");
  assert.equal(await page.getByRole("tooltip").count(), 0);
  assert.equal(await page.getByRole("dialog").count(), 0);
  await close();
});

test("Icicle and flame, callers below, largest first", async () => {
  const { page, close, at, hash } = await open(sharedReport);
  const tip = page.getByRole("tooltip").locator("b");
  await page.getByText("Drawing", { exact: true }).click();
  await page.getByRole("button", { name: "Largest first" }).click();
  await page.keyboard.press("Escape");
  await page.mouse.move(...(await at(3, 0.05)));
  assert.equal(await tip.innerText(), "process_data");
  await page.keyboard.press("i");
  assert.match(await hash(), /flame=1/);
  await page.mouse.move(...(await at(4, 0.99))); // five rows: the root is the lowest
  assert.equal(await tip.innerText(), "app (pid 42) · Memory in use · 1.46KiB");
  await page.keyboard.press("i");
  await page.keyboard.press("b");
  await page.mouse.move(...(await at(1, 0.01))); // the one with the most of its own
  assert.equal(await tip.innerText(), "apply");
  await page.mouse.move(...(await at(2, 0.01)));
  assert.equal(await tip.innerText(), "process_data");
  await close();
});

test("Keyboard and the tree for screen readers follow the same frame", async () => {
  const { page, close, hash } = await open(sharedReport);
  const tree = page.getByRole("tree", { name: "Flame graph" });
  await tree.focus();
  const spoken = async () => page.locator(`#${await tree.getAttribute("aria-activedescendant")}`).innerText();
  assert.match(await spoken(), /^all: total 1\.46KiB, 100%/);
  for (const [key, name] of [["ArrowDown", "main"], ["ArrowDown", "handle_request"], ["ArrowDown", "process_data"], ["ArrowLeft", "parse_json"], ["ArrowRight", "process_data"], ["ArrowUp", "handle_request"], ["Home", "all"], ["ArrowDown", "main"]]) {
    await page.keyboard.press(key);
    assert.match(await spoken(), new RegExp(`^${name}: total`), key);
  }
  await page.keyboard.press("Enter");
  assert.match(await hash(), /zoom=/);
  const item = page.locator(`#${await tree.getAttribute("aria-activedescendant")}`);
  assert.equal(await item.getAttribute("role"), "treeitem");
  assert.equal(await item.getAttribute("aria-level"), "2");
  await close();
});

// ---- Filters ----

test("Focus, show from, show only, hide: as chips in the address, undone by Back", async () => {
  const { page, close, hash, total } = await open(sharedReport, "#fn=parse_json");
  const inspector = page.getByTestId("inspector");
  assert.equal(await inspector.locator("h2").innerText(), "parse_json");
  assert.match(await page.getByTestId("inspector-sizes").innerText(), /up to 256B\s+200B\s+40%\s+up to 512B\s+300B\s+60%/);
  await inspector.getByRole("button", { name: "Focus" }).click();
  assert.equal(await total(), "500B");
  assert.match(await hash(), /focus==parse_json/);
  assert.match(await page.getByTestId("chips").innerText(), /through\s+parse_json/);
  await page.keyboard.press("r");
  assert.match(await hash(), /from==parse_json/);
  await page.goBack();
  await page.goBack();
  assert.equal(await total(), "1.46KiB");
  assert.equal(await page.getByTestId("chips").count(), 0);
  await page.goForward();
  assert.equal(await total(), "500B");
  await page.getByTestId("chips").getByRole("button", { name: /Remove the filter/ }).click();
  assert.equal(await total(), "1.46KiB");
  await page.keyboard.press("x");
  assert.equal(await total(), "1000B");
  await page.keyboard.press("Backspace");
  await close();
  const again = await open(sharedReport, "#view=functions&hide=" + encodeURIComponent("/^(apply|validate)$/"));
  assert.equal(await again.total(), "700B");
  await again.close();
});

test("Search highlights, counts, and becomes a filter", async () => {
  const { page, close, total } = await open(sharedReport);
  await page.keyboard.press("/");
  await page.keyboard.type("pars");
  assert.equal(await page.getByTestId("found").innerText(), "1 function, 500B, 33.33%");
  assert.equal(await total(), "1.46KiB");
  await page.getByRole("group", { name: "Found" }).getByRole("button", { name: "Hide" }).click();
  assert.equal(await total(), "1000B");
  await page.getByRole("searchbox").fill("/[/");
  assert.equal(await page.getByRole("searchbox").getAttribute("aria-invalid"), "true");
  await close();
});

test("A filter that nothing passes says so and offers the way out", async () => {
  const { page, close, go, total } = await open(sharedReport);
  for (const view of ["flame", "functions", "topdown", "bottomup", "graph"]) {
    await go(`#view=${view}&only=nothing_like_it`);
    assert.match(await page.locator(".empty").innerText(), /Nothing to show/);
    await page.getByRole("button", { name: "Remove all filters" }).click();
    assert.equal(await total(), "1.46KiB");
  }
  await close();
});

test("Folding system frames, and inlined functions", async () => {
  const libc = "/usr/lib/x86_64-linux-gnu/libc.so.6";
  const file = report([{ samples: [heap([{ name: "_start" }, { name: "__libc_start_main", object: libc }, "main", { name: "outer", inlined: ["inner"] }, { name: "std::vector<int>::grow()" }], 100)] }]);
  const { page, close } = await open(file, "#view=functions&fold=0");
  const names = async () => (await page.getByTestId("functions").locator("tbody tr").evaluateAll((rows) => rows.map((row) => row.dataset.fn))).sort();
  assert.deepEqual(await names(), ["__libc_start_main", "_start", "inner", "main", "outer", "std::vector<int>::grow()"]);
  await page.getByLabel("fold plumbing").check();
  assert.deepEqual(await names(), ["inner", "main", "outer"]);
  await page.getByLabel("inlined").uncheck();
  assert.deepEqual(await names(), ["main", "outer"]);
  assert.equal(await page.getByTestId("functions").locator("tr[data-fn=outer] td").first().innerText(), "100B");
  await close();
});

test("Labels and processes filter", async () => {
  const process = (host, pid, wait) => ({ kind: "block", pid, process: `${host}/1/${pid}/7/0`, samples: wait.map(([name, label, delay]) => ({ stack: ["main", name], values: [1, delay], labels: { wait: label } })) });
  const file = report([process("one", 1, [["a", "mutex", 100], ["b", "futex", 200]]), process("two", 2, [["c", "mutex", 4000]])]);
  const { page, close, total, hash, tab, rows } = await open(file);
  assert.equal(await total(), "4.30us");
  const choose = (key, text) => page.getByTestId("label").selectOption(JSON.stringify([key, text]));
  await choose("wait", "mutex");
  assert.equal(await total(), "4.10us");
  assert.match(await hash(), /label=wait:mutex/);
  await tab("Functions");
  assert.deepEqual((await rows("functions")).map((row) => row[4].split("\n")[0]), ["c", "a", "main"], "every view has the filter");
  await page.getByTestId("process").selectOption({ index: 2 }); // the largest comes first
  assert.equal(await total(), "100ns");
  await page.getByTestId("process").selectOption("");
  await choose("host", "one");
  assert.equal(await total(), "100ns", "of each key");
  await page.getByTestId("chips").getByRole("button", { name: "Remove the filter wait mutex" }).click();
  assert.equal(await total(), "300ns");
  await choose("host", "two");
  assert.equal(await total(), "4.30us", "any value of one key");
  await page.getByTestId("chips").getByRole("button", { name: "Remove all" }).click();
  await choose("pid", "2");
  assert.equal(await total(), "4us");
  await page.goBack();
  assert.equal(await total(), "4.30us");
  await close();
});

test("Labels are those of the shown kind, and an address may name a metric alone", async () => {
  const file = report([
    { samples: ["a", "b"].map((tenant) => ({ stack: ["main", tenant], values: [1, 100, 1, 100], labels: { tenant } })) },
    { kind: "block", samples: ["mutex", "futex"].map((wait) => ({ stack: ["main", wait], values: [1, 300], labels: { wait } })) },
  ]);
  const { page, close, text } = await open(file);
  const labels = () => page.getByTestId("label").innerText();
  assert.match(await labels(), /a\s+b/);
  assert.doesNotMatch(await labels(), /mutex/);
  await page.evaluate(() => (location.hash = "#metric=delay"));
  await page.waitForFunction(() => document.querySelector("[data-testid=label]")?.innerText.includes("mutex"));
  assert.doesNotMatch(await labels(), /a\s+b/);
  assert.ok(!(await text("body")).includes("the metric"), "nothing was left out");
  await close();
});

// ---- Time ----

test("Brushing a range changes every view: differences of counters, states of what is in use", async () => {
  const { page, close, total, hash } = await open(report(growth));
  assert.equal(await total(), "8.30KiB"); // 3500 + 5000
  const plot = page.getByTestId("timeline");
  const box = await plot.boundingBox();
  const drag = async (from, to) => {
    await page.mouse.move(box.x + box.width * from, box.y + 10);
    await page.mouse.down();
    await page.mouse.move(box.x + box.width * to, box.y + 10, { steps: 4 });
    await page.mouse.up();
  };
  await drag(0.22, 0.7); // snapshots lie at 0, 0.2 … 1
  const [from, to] = /range=(\d+):(\d+)/.exec(await hash()).slice(1).map(Number);
  assert.ok(from > minute(1) && from < minute(1.3) && to > minute(3.4) && to < minute(3.6), await hash());
  assert.equal(await total(), "7.32KiB"); // the state at snapshot 3: 2500 + 5000
  await page.getByTestId("metric").selectOption("heap/alloc_space");
  assert.equal(await total(), "20.51KiB"); // 2 × (500 + 10,000)
  await page.getByTestId("metric").selectOption("heap/inuse_space");
  await page.getByRole("button", { name: /Timeline/ }).click();
  await page.getByLabel("mean").check();
  assert.equal(await total(), "6.84KiB"); // mean of 6500, 7000, 7500
  assert.doesNotMatch(await page.locator(".summary").innerText(), / of 6\.84KiB/);
  await page.getByRole("button", { name: "Whole time" }).click();
  await page.getByLabel("mean").uncheck();
  const weigh = async (name) => {
    await page.getByTestId("weight").selectOption({ label: name });
    return total();
  };
  assert.equal(await weigh("the heaviest tenth"), "8.30KiB"); // the last snapshot
  assert.equal(await weigh("the lightest half"), "6.35KiB"); // the mean of 6000, 6500, 7000
  assert.match(await page.locator(".summary").innerText(), /averaged over 3 profiles/);
  assert.match(await hash(), /weight=6000:7000/);
  await page.getByTestId("metric").selectOption("heap/alloc_space");
  await page.getByTestId("metric").selectOption("heap/inuse_space");
  assert.equal(await weigh("all snapshots"), "8.30KiB");
  await page.keyboard.press("[");
  assert.equal(await total(), "7.81KiB");
  await close();
});

test("A lane for each thread of a real program, coloured by what it did, can be brushed", async () => {
  const out = join(folder, "known_wall");
  execFileSync(tool, ["run", "-q", "--wall", "-o", out, "--", join(process.env.HOLDFAST_PROGRAMS, "known_wall"), "3", "2"], { stdio: "ignore" });
  const files = readdirSync(out).filter((name) => name.endsWith(".wall.pb.gz")).map((name) => join(out, name));
  const threads = JSON.parse(execFileSync(tool, ["threads", "--each", "--count", "0", "--json", ...files], { encoding: "utf8" })).rows;
  const { page, close, hash } = await open(report(files));
  const lanes = page.getByTestId("lanes");
  const names = await lanes.locator(".lanes-names span").allInnerTexts();
  assert.deepEqual([...names].sort(), threads.map(({ thread }) => thread).sort());
  assert.ok(names[0].startsWith("worker-"), `threads that run or wait for locks come first: ${names}`);
  // Each state that a lane has is in the key, in the same colour, and in words.
  const states = ["on a CPU", "wants a CPU", "lock", "io", "sleep", "other call", "stopped", "not seen"];
  const runs = await lanes.locator("rect").evaluateAll((all) => all.map((rect) => ({ state: Number(rect.getAttribute("class").slice("lane-".length)), fill: getComputedStyle(rect).fill, text: rect.textContent.trim() })));
  const key = await lanes.locator(".lanes-key span").evaluateAll((all) => all.map((span) => [span.innerText.trim(), getComputedStyle(span.querySelector("i")).backgroundColor]));
  const shown = [...new Set(runs.map(({ state }) => state))].sort();
  assert.ok(shown.length >= 2, `states: ${shown}`);
  assert.deepEqual(key.map(([text]) => text), shown.map((state) => states[state - 1]));
  assert.equal(new Set(key.map(([, colour]) => colour)).size, key.length, "each state has its own colour");
  for (const { state, fill, text } of runs) {
    assert.equal(fill, new Map(key).get(states[state - 1]), text);
    assert.match(text, new RegExp(`^\\S+: mostly ${states[state - 1]}, `));
  }
  const box = await lanes.locator(".lanes-runs").boundingBox();
  const drag = async (from, to) => {
    await page.mouse.move(box.x + box.width * from, box.y + 5);
    await page.mouse.down();
    await page.mouse.move(box.x + box.width * to, box.y + 5, { steps: 4 });
    await page.mouse.up();
  };
  await drag(0.25, 0.75);
  const [from, to] = /range=(\d+):(\d+)/.exec(await hash()).slice(1).map(Number);
  assert.ok(to - from > 1000 && to - from < 3000, `half of about 3 s: ${to - from} ms`);
  const brush = await lanes.locator(".brush").boundingBox();
  assert.ok(Math.abs(brush.x - (box.x + 0.25 * box.width)) < 3 && Math.abs(brush.width - 0.5 * box.width) < 5, "the range is shown");
  await drag(0.5, 0.5);
  assert.doesNotMatch(await hash(), /range=/);
  await close();
});

test("Leaks: the rows of holdfast leaks, and the way to each stack", async () => {
  const files = growth.map((profile, i) => writeProfile(join(folder, `grows.42.000${i}.heap.pb.gz`), profile));
  const table = spawnSync(tool, ["leaks", "--all", "-n", "0", "--format", "json", ...files], { encoding: "utf8" });
  assert.equal(table.status, 1, table.stderr);
  const expected = JSON.parse(table.stdout).rows.map((row) => [row.class, core.formatSigned(row.slope, "bytes"), core.formatValue(row.slope_error, "bytes"), String(row.object_slope), core.formatValue(row.in_use, "bytes"), String(row.objects_in_use)]);
  const { page, close, rows, hash, text } = await open(report(files), "#view=leaks");
  assert.deepEqual((await rows("leaks")).map((row) => row.slice(0, 6)), expected);
  assert.deepEqual(expected[0].slice(0, 2), ["growing", "+29.30KiB"]); // 500 bytes a minute
  assert.match(await text(".lead"), /One stack grows all the time by \+29\.30KiB an hour/);
  await page.getByTestId("leaks").getByRole("button", { name: /leak/ }).click();
  assert.match(await hash(), /zoom=/);
  assert.equal(await text("[data-testid=inspector] h2"), "leak");
  await close();
});

// ---- The other views ----

test("Top-down and bottom-up: open, close, parts of the top and of the whole", async () => {
  const { page, close, tab } = await open(sharedReport, "#view=topdown");
  const table = page.getByRole("treegrid");
  const row = (name) => table.locator("tr").filter({ has: page.locator(".fn-name", { hasText: new RegExp(`^${name}$`) }) });
  assert.deepEqual((await row("process_data").locator("td").allInnerTexts()).slice(0, 4).map((t) => t.trim()), ["900B", "60%", "400B", "500B"]);
  await row("process_data").getByRole("button", { name: "Open" }).or(row("process_data").getByRole("button", { name: "Close" })).click();
  const open1 = await row("apply").count();
  await row("process_data").locator(".fn").focus();
  await page.keyboard.press(open1 === 1 ? "ArrowLeft" : "ArrowRight");
  assert.equal(await row("apply").count(), 1 - open1);
  await tab("Bottom-up");
  const firstOf = async () => (await table.locator("tbody tr").first().locator(".fn-name").innerText());
  assert.equal(await firstOf(), "apply");
  await page.getByRole("button", { name: "Total ↓" }).click();
  assert.equal(await firstOf(), "handle_request");
  await page.getByRole("button", { name: "Total ↑" }).click();
  assert.deepEqual((await row("apply").locator("td").allInnerTexts()).slice(0, 3).map((t) => t.trim()), ["500B", "33.33%", "100%"]);
  await row("apply").locator(".fn").first().focus();
  await page.keyboard.press("ArrowRight");
  assert.ok((await row("process_data").count()) >= 2, "as a function of its own and as a caller");
  await close();
});

test("Callers and callees of one function, and what goes along each edge", async () => {
  const { page, close } = await open(sharedReport, "#view=sandwich&fn=handle_request");
  const list = (title) => page.getByRole("region", { name: title, exact: true }).locator("tr").allInnerTexts();
  assert.deepEqual((await list("Callers")).map((t) => t.replace(/\s+/g, " ").trim()), ["1.46KiB 100% main app"]);
  assert.deepEqual((await list("Callees")).map((t) => t.replace(/\s+/g, " ").trim()), ["900B 60% process_data app", "500B 33.33% parse_json app"]);
  await page.getByRole("region", { name: "Callees", exact: true }).getByRole("button", { name: "process_data" }).click();
  assert.equal(await page.locator(".sandwich h2").innerText(), "process_data");
  await close();
});

test("Call graph: nodes can be chosen, cuts cut", async () => {
  const { page, close, go, text } = await open(sharedReport, "#view=graph");
  const nodes = page.locator(".graph .node");
  assert.equal(await nodes.count(), 6);
  assert.equal(await page.locator(".graph .node.heaviest").count(), 4);
  assert.equal(await page.locator(".graph .edge").count(), 5);
  assert.equal(await page.locator(".graph .edge.heaviest").count(), 3);
  // No text leaves its box.
  assert.ok(await nodes.evaluateAll((all) => all.every((node) => [...node.querySelectorAll("text")].every((text) => text.getBBox().x + text.getBBox().width <= node.querySelector("rect").getBBox().width))));
  await page.getByRole("button", { name: /main.*1\.46KiB/ }).focus();
  await page.keyboard.press("Enter");
  assert.equal(await text("[data-testid=inspector] h2"), "main");
  await page.getByRole("button", { name: /validate.*300B/ }).click();
  assert.equal(await text("[data-testid=inspector] h2"), "validate");
  await go("#view=graph&focus==validate");
  assert.equal(await nodes.count(), 1, "of the selection: a chain is one box");
  assert.match((await nodes.evaluate((node) => [...node.querySelectorAll("text")].map((text) => text.textContent).join(" "))).replace(/\s+/g, " "), /^main ⋮ 2 more validate 300B · 20%/);
  await close();
  const rest = heap(["main", "small"], 20);
  const cut = await open(report([{ samples: [heap(["main", "large"], 1000), rest] }]), "#view=graph");
  assert.equal(await cut.page.locator(".graph .node").count(), 3);
  await cut.page.getByLabel("at least").selectOption("0.05");
  assert.equal(await cut.page.locator(".graph .node").count(), 2);
  assert.match(await cut.text(".graph-cut"), /1 smaller function is not drawn/);
  await cut.close();
});

test("Source lines beside the source, where it is there", async () => {
  const source = join(folder, "work.cc");
  writeFileSync(source, Array.from({ length: 40 }, (_, i) => `line ${i + 1} <b>"bold"</b>`).join("\n"));
  const f = (name, line) => ({ name, file: source, line });
  const samples = [heap(["main", f("work", 12)], 300), heap(["main", f("work", 20), f("leaf", 30)], 500)];
  const { page, close } = await open(report([{ samples }]), "#view=source&fn=work");
  const line = (n) => page.locator(`tr[data-line="${n}"] td`).allInnerTexts();
  assert.deepEqual((await line(12)).map((t) => t.trim()), ["300B", "300B", "12", 'line 12 <b>"bold"</b>']);
  assert.deepEqual((await line(20)).slice(0, 2).map((t) => t.trim()), ["", "500B"]);
  assert.match((await line(15))[3], /line 15/);
  await close();
  const without = readFileSync(report([{ samples }], { options: ["--no-source"] }));
  assert.ok(without.length > 0);
  const { page: bare, close: closeBare } = await open(report([{ samples }], { options: ["--no-source"] }), "#view=source&fn=work");
  assert.deepEqual((await bare.locator('tr[data-line="12"] td').allInnerTexts()).map((t) => t.trim()), ["300B", "300B", "12", ""]);
  await closeBare();
});

test("A profile cannot bring in files that are no source", async () => {
  const secret = join(folder, "id_rsa");
  writeFileSync(secret, "the secret\n".repeat(20));
  const { page, close } = await open(report([{ samples: [heap(["main", { name: "work", file: secret, line: 3 }], 10)] }]), "#view=source&fn=work");
  assert.doesNotMatch(await page.locator("body").innerText(), /the secret/);
  await close();
});

test("Locks: waiters against holders, their mean, and the other side", async () => {
  const { page, close, rows, hash } = await open(
    report([
      { kind: "block", samples: [{ stack: ["main", "victim"], values: [10, 9000], labels: { wait: "mutex" } }, { stack: ["main", "other"], values: [5, 1000], labels: { wait: "futex" } }] },
      { kind: "mutex", samples: [{ stack: ["main", "culprit"], values: [3, 8000], labels: { lock: "mutex" } }] },
    ]),
    "#view=locks",
  );
  assert.deepEqual((await rows("locks-block")).map((row) => row.slice(0, 4)), [["9us", "90%", "10", "900ns"], ["1us", "10%", "5", "200ns"]]);
  assert.deepEqual((await rows("locks-mutex")).map((row) => row.slice(0, 4)), [["8us", "100%", "3", "2.67us"]]);
  assert.match(await page.getByRole("region", { name: "Locks" }).innerText(), /holders account for 80%/);
  await page.getByRole("searchbox").fill("vict");
  assert.deepEqual((await rows("locks-block")).map((row) => row[0]), ["9us"]);
  await page.getByRole("group", { name: "Found" }).getByRole("button", { name: "Hide" }).click();
  assert.deepEqual((await rows("locks-block")).map((row) => row[0]), ["1us"], "filters hold here, too");
  await page.goBack();
  await page.getByRole("searchbox").fill("");
  await page.getByTestId("locks-block").getByRole("button", { name: "victim" }).click();
  assert.match(await hash(), /metric=block\/delay|fn=/);
  const other = page.getByRole("region", { name: "The other side" });
  assert.match(await other.innerText(), /Who held a lock meanwhile[^]*culprit/);
  await other.getByRole("button", { name: "culprit" }).click();
  assert.match(await hash(), /metric=mutex\/delay/);
  await close();
});

test("Locks: single ones, and who waited for whom, from the file's own comments", async () => {
  const comments = [
    "gap_ns: 1000",
    "lock 1: mutex 0x55d2c0a81040 contentions 120 delay_ns 9000 longest_ns 900 holds 80 hold_ns 8000",
    "lock 1 wait_times: 64:90 224:27 768:3",
    "lock 1 hold_times: held_ns 4000 longest_ns 300 32:1 96:79",
    "lock site 1 mutex wait_times: longest_ns 900 64:9.50 768:3",
    "lock site 2 mutex hold_times: longest_ns 300 224:40",
    "lock 1 name: queue_mutex (app)",
    "lock stack 1: 0x10000001 0x10000002",
    "lock stack 2: 0x10000003 0x10000002",
    "lock pair 1: lock 1 holder 2 waiter 1 contentions 12.50 delay_ns 7000",
    "lock pair 2: lock 9 holder 77 waiter - contentions nan delay_ns x",
  ];
  const samples = [{ stack: ["main", "victim"], values: [10, 9000], labels: { wait: "mutex" } }, { stack: ["main", "culprit"], values: [1, 10], labels: { wait: "mutex" } }];
  const { page, close, rows } = await open(
    report([{ kind: "block", samples, comments }, { kind: "mutex", samples: [{ stack: ["main", "culprit"], values: [3, 8000], labels: { lock: "mutex" } }], comments: ["gap_ns: 1000"] }]),
    "#view=locks&metric=block/delay",
  );
  assert.deepEqual((await rows("lock-list")).map((row) => row.join(" ")), ["queue_mutex (app) 9us 120 waited\nheld 71ns\n100ns 240ns\n100ns 830ns\n300ns 900ns\n300ns mutex culprit\napp "]);
  const [first] = await rows("lock-pairs");
  assert.match(first.join(" ").replace(/\s+/g, " "), /^queue_mutex \(app\) 7us 13 victim app 900ns culprit app 300ns$/);
  assert.match(await page.locator(".lead").innerText(), /By exact counts, threads waited 9us for locks: holders account for 88\.89%, the delay .* for 11\.11%/);
  await page.getByTestId("locks-block").getByRole("button", { name: "victim" }).click();
  assert.match(await page.getByRole("region", { name: "The other side" }).innerText(), /from sampled pairs:\s*100%\s*culprit/);
  await close();
});

test("Comparison: removed frames are drawn, errors are grey, the table and the sides", async () => {
  const big = (stack, bytes) => heap(stack, bytes, bytes / 1000);
  const file = report([{ interval: 1000, samples: [big(["main", "same"], 1_000_000), big(["main", "grown"], 3_000_000), big(["main", "new_one"], 500_000)] }], {
    base: [{ interval: 1000, samples: [big(["main", "same"], 1_010_000), big(["main", "grown"], 1_000_000), big(["main", "old_one"], 800_000)] }],
  });
  const { page, close, at, tab, rows, hash } = await open(file);
  const tip = page.getByRole("tooltip");
  await page.mouse.move(...(await at(2, 0.75))); // grown 3,000,000, new_one 500,000, old_one 800,000, same 1,010,000
  assert.equal(await tip.locator("b").innerText(), "old_one");
  assert.match(await tip.innerText(), /total\s+0\s+0%[^]*was\s+781\.25KiB\s+−781\.25KiB/);
  assert.match(await page.locator(".compare-title").innerText(), /^holdfast-page-\w+ · app · pid 42 · .+ → holdfast-page-\w+ · app · pid 42 · /);
  await page.getByRole("group", { name: "Side" }).getByRole("button", { name: "Head" }).click();
  await page.mouse.move(...(await at(2, 0.75)));
  assert.equal(await tip.locator("b").innerText(), "new_one");
  await tab("Compare");
  const changes = Object.fromEntries((await rows("compare-table")).map((row) => row[5].split("\n")).map((names) => [names[0], names.at(-1)]));
  assert.deepEqual(changes, { grown: "more", main: "more", new_one: "added", old_one: "removed" });
  await page.getByRole("button", { name: "1 within the error" }).click();
  assert.ok((await rows("compare-table")).some((row) => row[5].startsWith("same")));
  await page.getByLabel("colour-blind-safe").check();
  assert.match(await hash(), /safe=1/);
  await page.getByTestId("compare").selectOption("");
  assert.match(await hash(), /compare=off/);
  assert.match(await page.locator(".empty").innerText(), /Choose what to compare/);
  await close();
});

test("A base that has not all kinds is compared where it can be", async () => {
  const block = { kind: "block", samples: [{ stack: ["main", "victim"], values: [10, 9000], labels: { wait: "mutex" } }] };
  const { page, close, go, total, text } = await open(report([{ samples: shared }, block], { base: [{ ms: minute(0), samples: shared.slice(1) }] }));
  assert.match(await text(".summary"), /Change\s+\+100B/);
  assert.equal(await page.getByTestId("metric").locator("option[value='block/delay']").count(), 0, "only what both sides have");
  await go("#metric=block/delay"); // as a link may
  assert.match(await text("#view"), /The base has no values of this kind/);
  assert.equal(await total(), "9us");
  assert.doesNotMatch(await text(".summary"), /Change/);
  await page.getByTestId("metric").selectOption("heap/inuse_space");
  assert.match(await text(".summary"), /Change\s+\+100B/);
  await close();
});

test("Two moments compare, absolute and normalised", async () => {
  const { page, close, text } = await open(report(growth), "#view=compare");
  await page.getByTestId("compare").selectOption("time");
  assert.match(await text(".lead"), /^\+2\.44KiB/);
  assert.match(await text(".lead"), /from 5\.86KiB to 8\.30KiB/);
  await page.getByLabel("normalise").check();
  assert.match(await text(".lead"), /^Base scaled by 1\.42, from 5\.86KiB to 8\.30KiB/);
  await close();
});

test("Two values of a label compare: both are chosen, each view shows both", async () => {
  const wait = (name, label, delay) => ({ stack: ["main", name], values: [1, delay], labels: { wait: label } });
  const file = report([{ kind: "block", samples: [wait("a", "mutex", 1000), wait("b", "mutex", 300), wait("a", "rwlock:read", 1500), wait("c", "rwlock:read", 700), wait("d", "sleep", 9999)] }]);
  const { page, close, text, rows, hash, tab, at, total } = await open(file, "#view=compare");
  await page.getByTestId("compare").selectOption("label:wait");
  await page.getByLabel("base", { exact: true }).selectOption("mutex");
  await page.getByLabel("head", { exact: true }).selectOption("rwlock:read");
  assert.match(await hash(), /compare=label:wait:mutex:rwlock%3Aread/);
  assert.match(await text(".lead"), /^\+900ns: from 1\.30us to 2\.20us \(69\.23% more\)/);
  const changes = Object.fromEntries((await rows("compare-table")).map((row) => [row[5].split("\n")[0], [...row.slice(0, 3), row[5].split("\n").at(-1)]]));
  assert.deepEqual(changes, { main: ["1.30us", "2.20us", "+900ns", "more"], a: ["1us", "1.50us", "+500ns", "more"], b: ["300ns", "0", "−300ns", "removed"], c: ["0", "700ns", "+700ns", "added"] });
  await tab("Flame graph");
  await page.mouse.move(...(await at(2, 0.65))); // widths: a 1500, b 300, c 700
  assert.match(await page.getByRole("tooltip").innerText(), /^b\s[^]*was\s+300ns\s+−300ns/);
  await tab("Functions");
  assert.equal(await total(), "2.20us");
  await page.goBack();
  await page.goBack();
  assert.match(await text(".lead"), /\+900ns/);
  await close();
  const again = await open(file, "#compare=label:wait:rwlock%253Aread:mutex&view=compare"); // as a copied address has it
  assert.match(await again.text(".lead"), /^−900ns/);
  await again.close();
});

test("Colour modes change what is drawn and have a legend", async () => {
  const file = report([{ samples: [...shared, heap(["main", { name: "std::sort(int*)" }, { name: "memcpy", object: "/usr/lib/libc.so.6" }], 900), heap(["main", "net::Read()"], 300)] }]);
  const { page, close } = await open(file, "#fold=0");
  await page.getByText("Drawing", { exact: true }).click();
  const picture = () => page.getByTestId("flame-canvas").evaluate((canvas) => canvas.toDataURL());
  const seen = new Set();
  for (const mode of ["package", "origin", "function", "cause"]) {
    await page.getByTestId("colour").selectOption(mode);
    seen.add(await picture());
  }
  assert.equal(seen.size, 4);
  assert.match(await page.locator(".legend").innerText(), /growing/);
  await page.getByTestId("colour").selectOption("origin");
  assert.match(await page.locator(".legend").innerText(), /user[^]*library[^]*system/);
  await close();
});

test("The inspector: this frame and the function, ± and mean size, the way to it, what is mine", async () => {
  const library = (name) => ({ name, object: "/opt/libmine.so" });
  const samples = [heap(["main", "a", library("grow")], 1_000_000, 1000), heap(["main", "b", library("grow")], 500_000, 250), heap(["main", "b"], 250_000, 250)];
  const { page, close, text, hash, at } = await open(report([{ interval: 1000, samples }]), "#colour=origin");
  const inspector = page.getByTestId("inspector");
  await page.mouse.click(...(await at(3, 0.2))); // grow below a
  const cells = async (id) => (await page.getByTestId(id).locator("tr").allInnerTexts()).map((t) => t.replace(/\s+/g, " ").trim());
  assert.deepEqual(await cells("inspector-frame"), ["total 976.56KiB ± 46.17KiB 57.14%", "self 976.56KiB ± 46.17KiB 57.14%", "objects 1,000", "mean size 1000B"]);
  const [total, self, objects, mean] = await cells("inspector-function");
  assert.match(total, /^total 1\.43MiB ± [\d.]+KiB 85\.71%$/);
  assert.match(self, /^self 1\.43MiB/);
  assert.deepEqual([objects, mean], ["objects 1,250", "mean size 1.17KiB"], "of the function, wherever it stands");
  assert.deepEqual(await page.getByRole("region", { name: "Called by" }).locator(".fn-name").allInnerTexts(), ["a", "main"]);
  assert.match(await inspector.innerText(), /origin\s+library, package libmine\.so/);
  const picture = () => page.getByTestId("flame-canvas").evaluate((canvas) => canvas.toDataURL());
  const before = await picture();
  await inspector.getByRole("button", { name: "count as mine" }).click();
  assert.match(await hash(), /mine=libmine\.so/);
  assert.match(await inspector.innerText(), /origin\s+user/);
  assert.notEqual(await picture(), before);
  await page.getByRole("region", { name: "Called by" }).getByRole("button", { name: /^a/ }).click();
  assert.equal(await text("[data-testid=inspector] h2"), "a");
  for (const [name, expected] of [["Show from here", /from==a/], ["Highlight", /search==a/], ["Callers & callees", /view=sandwich/], ["Source", /view=source/]]) {
    await inspector.getByRole("button", { name, exact: true }).click();
    assert.match(await hash(), expected);
  }
  await close();
});

test("Threads in the top-down tree, and each sample's share of its own thread", async () => {
  const of = (thread, name, bytes) => heap(["main", name], bytes, 1, 1, { thread });
  const { page, close, total, hash } = await open(report([{ samples: [of("io", "read", 300), of("worker", "parse", 100), of("worker", "apply", 300)] }]), "#view=topdown");
  await page.getByRole("combobox", { name: /^thread/ }).selectOption("worker");
  assert.equal(await total(), "400B");
  assert.match(await hash(), /label=thread:worker/);
  const row = page.getByRole("treegrid").locator("tr").filter({ hasText: "apply" });
  assert.deepEqual((await row.locator("td").allInnerTexts()).slice(0, 2).map((t) => t.trim()), ["300B", "75%"]);
  await page.getByRole("combobox", { name: /^thread/ }).selectOption("");
  assert.equal(await total(), "700B");
  await close();
});

test("Differences need no red and green: each box has a sign", async () => {
  const { page, close } = await open(report([{ samples: [heap(["main", "more"], 900), heap(["main", "less"], 100)] }], { base: [{ samples: [heap(["main", "more"], 300), heap(["main", "less"], 500)] }] }));
  const colours = () => page.locator(".legend i").evaluateAll((all) => all.map((i) => getComputedStyle(i).backgroundColor.match(/\d+/g).map(Number)));
  // As a deuteranope sees them (Viénot 1999): red and green become one.
  const seen = ([r, g, b]) => [0.293 * r + 0.707 * g, 0.293 * r + 0.707 * g, -0.022 * r + 0.022 * g + b];
  const distance = (x, y) => Math.hypot(...seen(x).map((v, i) => v - seen(y)[i]));
  await page.getByLabel("colour-blind-safe").check();
  for (const scheme of ["light", "dark"]) {
    const [more, less, added, removed, same] = await colours();
    for (const [x, y] of [[more, less], [added, removed], [more, same], [less, same], [more, removed], [added, less]]) assert.ok(distance(x, y) > 30, `${scheme}: ${x} and ${y}`);
    await page.keyboard.press("t");
  }
  const tree = page.getByRole("tree", { name: "Flame graph" });
  assert.match(await tree.innerText(), /main: total/);
  await close();
});

// ---- The page ----

test("Each key of the list does something", async () => {
  const { page, close, hash } = await open(report([...growth]), "#fn=cache");
  const changes = async (key) => {
    const before = [await hash(), await page.evaluate(() => document.documentElement.dataset.theme + document.querySelectorAll("[role=dialog]").length + document.activeElement.tagName)].join("|");
    await page.keyboard.press(key);
    await page.waitForTimeout(20);
    const now = [await hash(), await page.evaluate(() => document.documentElement.dataset.theme + document.querySelectorAll("[role=dialog]").length + document.activeElement.tagName)].join("|");
    return before !== now;
  };
  for (const key of ["2", "3", "4", "5", "6", "7", "8", "9", "0", "1", "m", "M", "f", "Backspace", "r", "Backspace", "x", "Backspace", "h", "Escape", "i", "b", "v", "c", "k", "s", "n", "[", "]", "}", "{", "l", "l", "e", "w", "w", "t", "t", "?", "Escape", "a", "Escape", "/"]) {
    assert.ok(await changes(key), `key ${key}`);
  }
  await page.keyboard.press("Escape");
  assert.ok(await changes("u"), "undo");
  assert.ok(await changes("U"), "redo");
  await page.evaluate(() => Object.defineProperty(navigator, "clipboard", { value: { writeText: async (text) => (window.copied = text) } }));
  await page.keyboard.press("1");
  await page.evaluate(() => (location.hash = "#fn=cache"));
  await page.keyboard.press("y");
  assert.equal(await page.evaluate(() => window.copied), "cache");
  await page.evaluate(() => (window.print = () => (window.printed = true)));
  await page.keyboard.press("p");
  assert.equal(await page.evaluate(() => window.printed), true);
  await close();
});

test("Download gives back the profile, byte for byte", async () => {
  const file = writeProfile(join(folder, "app.42.0001.heap.pb.gz"), { samples: shared });
  const { page, close } = await open(report([file]));
  const [got] = await Promise.all([page.waitForEvent("download"), page.keyboard.press("d")]);
  assert.equal(got.suggestedFilename(), "app.42.0001.heap.pb.gz");
  assert.deepEqual(readFileSync(await got.path()), readFileSync(file));
  await close();
  const none = await open(report([file], { options: ["--embed", "0"] }));
  await none.page.keyboard.press("d");
  assert.match(await none.page.locator(".note").innerText(), /This report does not contain the profiles/);
  await none.close();
});

const hostile = [
  `<script>alert(1)</script>`,
  `</script><img src=x onerror="alert(2)">`,
  `"quotes" 'and' \`ticks\` & &amp; ]]> -->`,
  `std::_Rb_tree<std::pair<${"std::map<int, std::vector<std::string> >, ".repeat(60)}int>, void>::_M_insert_(int&&)`,
  `λ::функция<日本語>(emoji 🦀, العربية)`,
  `@@DATA@@ {{CODE}} $& \\0 %s`,
  `operator<< <char>`,
  ` \u202e right to left \u0000 \u0007 \u2028`,
];

test("Names of any kind are shown as they are and inject nothing", async () => {
  const samples = hostile.map((name, i) => heap(["main", { name, file: `/src/${name.slice(0, 40)}.cc`, line: i + 1, object: `/opt/${name.slice(0, 30).replace(/\//g, "")}` }], 1000 + i));
  const file = report([{ samples, program: `<b>"p"</b>`, comments: [`command: <img src=x onerror=alert(3)>`], kind: "heap" }]);
  assert.doesNotMatch(readFileSync(file, "utf8"), /<img|<b>/);
  const { page, close, go } = await open(file);
  for (const view of ["functions&fold=0", "flame", "topdown", "bottomup", "sandwich", "graph", "source", "compare"]) {
    await go(`#view=${view}&fn=main&search=${encodeURIComponent("</script><b>x")}&hide=${encodeURIComponent("<i>")}`);
    if (view.startsWith("functions")) {
      await page.getByRole("searchbox").fill("");
      const names = await page.getByTestId("functions").locator("tbody tr").evaluateAll((rows) => rows.map((row) => row.dataset.fn));
      for (const name of hostile) assert.ok(names.includes(name.replace("\u202e", "[U+202E]")), name);
    }
    assert.equal(await page.locator("#app img, #app b b, #app i i, #app script").count(), 0);
  }
  await page.getByRole("searchbox").blur();
  await page.keyboard.press("a");
  assert.match(await page.getByRole("dialog").innerText(), /<img src=x onerror=alert\(3\)>/);
  assert.match(await page.title(), /^<b>"p"<\/b>/);
  await close();
});

test("The policy forbids every request, also to code that got in", async () => {
  const { page, problems } = await open(sharedReport);
  const results = await page.evaluate(async () => {
    const tried = {};
    const image = new Image();
    tried.image = await new Promise((done) => ((image.onload = () => done("loaded")), (image.onerror = () => done("refused")), (image.src = "http://127.0.0.1:9/x.png")));
    tried.fetch = await fetch("http://127.0.0.1:9/").then(() => "loaded", () => "refused");
    const script = document.createElement("script");
    script.textContent = "window.got = 1";
    document.head.append(script);
    tried.script = window.got === undefined ? "refused" : "ran";
    return tried;
  });
  assert.deepEqual(results, { image: "refused", fetch: "refused", script: "refused" });
  assert.ok(problems.every((text) => /Content Security Policy|Refused|violates/i.test(text) || text.includes("127.0.0.1:9")));
  await page.context().close();
});

test("Empty, tiny and single: no samples, one frame, a stack without frames, one snapshot", async () => {
  for (const samples of [[], [heap(["alone"], 7)], [heap([], 5)], [heap(["main"], 0, 1, 0)]]) {
    const file = report([{ samples }]);
    const { page, close, tab } = await open(file);
    for (const view of ["Flame graph", "Functions", "Top-down", "Bottom-up", "Callers & callees", "Call graph", "Source", "Leaks", "Locks", "Compare"]) {
      await tab(view);
      assert.ok((await page.locator("#view").innerText()).length > 0 || (await page.locator("#view canvas").count()) > 0, view);
      assert.match(await page.locator(".timeline").innerText(), /One snapshot/);
    }
    await close();
  }
});

test("Addresses that mean nothing here are taken as they come", async () => {
  const { page, close, go, rows } = await open(sharedReport, "#fn=zzzz");
  for (const hash of ["#zoom=zz;zz;1&metric=no/such", "#range=900:1000", "#view=flame&process=gone&weight=9:1", "#compare=files", "#compare=label:a:b:c", "#%E0%A4%A&=&&"]) {
    await go(hash);
    assert.equal(await page.getByRole("main").count(), 1, hash);
    await go("#view=functions");
    assert.equal((await rows("functions")).length, 6, `after ${hash}`);
  }
  await close();
});

test("axe finds nothing serious, in any view, in light and dark", async () => {
  const resident = growth.map((one, i) => ({ ...one, comments: [`resident_bytes: ${20_000 + i}`] }));
  const file = report([...resident, { kind: "block", ms: minute(5), samples: [{ stack: ["main", "victim"], values: [10, 9000], labels: { wait: "mutex" } }] }]);
  const real = report([...locked.heap, ...locked.mutex, ...locked.block]);
  const views = ["flame", "functions", "topdown", "bottomup", "sandwich", "graph", "source", "leaks", "locks", "compare&compare=time&fn=cache", "flame&compare=time&side=base&course=1", "functions&search=main&focus=main", "flame&search=/[/&fn=gone"];
  for (const colorScheme of ["light", "dark"]) {
    const addresses = views;
    const { page, close, go } = await open(file, "", { colorScheme });
    await page.evaluate(axeSource());
    for (const address of addresses) {
      await go(`#view=${address}`);
      if (address === "flame") await page.keyboard.press("?");
      const found = await page.evaluate(() => window.axe.run(document, { resultTypes: ["violations"] }));
      const serious = found.violations.filter((v) => v.impact === "serious" || v.impact === "critical");
      assert.deepEqual(serious.map((v) => `${v.id}: ${v.nodes[0].html} ${v.nodes[0].failureSummary}`), [], `${address} ${colorScheme}`);
      if (address === "flame") await page.keyboard.press("Escape");
    }
    await close();
    // Locks that were held, drawn; what lies over the page; on a phone.
    for (const [width, address, key] of [[1400, "locks"], [1400, "flame", "Shift+F10"], [1400, "flame", "d"], [1400, "functions"], [375, "flame"], [375, "locks"], [375, "functions"], [375, "sandwich&fn=main"]]) {
      const shown = await open(real, `#view=${address}`, { colorScheme, width });
      await shown.page.evaluate(axeSource());
      if (key === "Shift+F10") await shown.page.keyboard.press("ArrowDown");
      if (key !== undefined) await shown.page.keyboard.press(key);
      const found = await shown.page.evaluate(() => window.axe.run(document, { resultTypes: ["violations"] }));
      const serious = found.violations.filter((v) => v.impact === "serious" || v.impact === "critical");
      assert.deepEqual(serious.map((v) => `${v.id}: ${v.nodes[0].html} ${v.nodes[0].failureSummary}`), [], `${width} ${address} ${key} ${colorScheme}`);
      await shown.close();
    }
  }
});

test("Printing leaves out the controls and keeps the picture", async () => {
  const { page, close } = await open(sharedReport);
  await page.emulateMedia({ media: "print" });
  assert.equal(await page.getByRole("tablist").isVisible(), false);
  assert.equal(await page.getByTestId("flame-canvas").isVisible(), true);
  assert.equal(await page.getByTestId("total").isVisible(), true);
  assert.ok((await page.pdf()).length > 10_000);
  await close();
});

test("Values below zero, of a profile that is a difference: signs, and the largest change either way", async () => {
  const samples = [{ stack: ["main", "less"], values: [0, 0, -5, -5000] }, { stack: ["main", "more"], values: [0, 0, 3, 3000] }, { stack: ["main", "nothing"], values: [0, 0, 0, 0] }];
  const { page, close, total, text, at, rows } = await open(report([{ samples }]));
  assert.equal(await total(), "-1.95KiB");
  assert.match(await text(".findings"), /−4\.88KiB in less/);
  assert.deepEqual((await page.getByTestId("beside").locator("tbody tr").allInnerTexts()).slice(0, 2).map((t) => t.replace(/\s+/g, " ").trim()), ["less −4.88KiB −4.88KiB", "more +2.93KiB +2.93KiB"]);
  await page.mouse.move(...(await at(2, 0.5))); // as wide as it changed: 5000 of 8000
  assert.match(await page.getByRole("tooltip").innerText(), /^less\s[^]*total\s+-4\.88KiB/);
  await page.keyboard.press("2");
  assert.ok((await rows("functions")).every((row) => !row[4].startsWith("nothing")));
  await close();
});

test("Whatever is pressed and clicked, nothing breaks", async () => {
  let state = 7;
  const random = (below) => Math.floor(((state = (Math.imul(state, 1664525) + 1013904223) >>> 0) / 2 ** 32) * below);
  const keys = [..."1234567890mMfroxhicvbkusn[]{}ewta?U", "Escape", "Backspace", "ArrowDown", "ArrowUp", "ArrowRight", "Enter", "Home"];
  const moved = (by) => growth[5].samples.map(({ stack, ...rest }) => ({ ...rest, stack: [...stack, `more_${by}`] }));
  const block = { kind: "block", ms: minute(5), samples: [{ stack: ["main", "victim"], values: [10, 9000], labels: { wait: "mutex" } }] };
  for (const file of [report([...growth, block]), report([{ samples: [...shared, ...moved(1)] }, block], { base: [{ ms: minute(0), samples: [...shared.slice(2), ...moved(2)] }] })]) {
    const { page, close, problems, hash } = await open(file);
    for (let i = 0; i < 120; ++i) {
      if (random(3) === 0) await page.mouse.click(20 + random(1350), 60 + random(900));
      else await page.keyboard.press(keys[random(keys.length)]);
      assert.deepEqual(problems, [], `step ${i}: ${await hash()}`);
    }
    assert.equal(await page.getByRole("main").count(), 1);
    await close();
  }
});

test("Stacks of 1,500 frames, names of 10 KB, text from right to left", async () => {
  const deep = Array.from({ length: 1500 }, (_, i) => `level_${i}`);
  const name = `std::${"map<std::vector<int>, ".repeat(480)}x>::insert(العربية, 🦀)`;
  const samples = [heap(deep, 1000), heap(["main", ...Array(1200).fill("recursion")], 700), heap(["main", name], 800)];
  const { page, close, go, rows, text } = await open(report([{ samples }]), "#fold=0&runs=0");
  const scroll = page.getByRole("tree", { name: "Flame graph" });
  assert.ok((await scroll.evaluate((element) => element.scrollHeight)) >= 1500 * 20);
  await scroll.evaluate((element) => (element.scrollTop = element.scrollHeight));
  await page.keyboard.press("b");
  await go("#view=functions&fold=0");
  assert.deepEqual((await rows("functions")).slice(0, 3).map((row) => row[0]), ["1000B", "800B", "700B"]);
  assert.deepEqual((await page.getByTestId("functions").locator("tbody tr").evaluateAll((all) => all.map((row) => row.dataset.fn))).slice(0, 3), ["level_1499", name, "recursion"]);
  for (const view of ["flame", "topdown", "bottomup", "sandwich", "graph", "source", "compare"]) {
    await go(`#view=${view}&fn=${encodeURIComponent(name)}`);
    assert.equal(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), true, view);
  }
  assert.equal(await text("[data-testid=whole-name]"), name);
  await close();
});

test("Narrow and low windows keep everything reachable", async () => {
  for (const [width, height] of [[380, 700], [800, 480], [1024, 700], [2560, 1300]]) {
    const { page, close } = await open(sharedReport, "#fn=handle_request", { width, height });
    assert.equal(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), true, `${width}`);
    await page.getByTestId("inspector").scrollIntoViewIfNeeded();
    await close();
  }
});
