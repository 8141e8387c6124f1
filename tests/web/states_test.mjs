// States of the page that once were wrong: ranges of time, parts of the run, figures and what they belong to, patterns that
// cannot be read, addresses of other reports.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { join } from "node:path";
import { test } from "node:test";
import { folder, open, report, tool } from "./browser.mjs";
import { heap, shared, writeProfile } from "./pprof.mjs";

const minute = (i) => 1_700_000_000_000 + i * 60_000;
const wait = (name, label, delay, count = 1) => ({ stack: ["main", name], values: [count, delay], labels: { wait: label } });
const hold = (name, label, delay, count = 1) => ({ stack: ["main", name], values: [count, delay], labels: { lock: label } });

// Heap snapshots each minute, of locks each second minute and a little later; a second process that begins late.
const heapAt = (i, process = "box/1/42/7/0") => ({ ms: minute(i), process, pid: process.split("/")[2], samples: [heap(["main", "serve", "leak"], 1000 * (i + 1)), heap(["main", "serve", "cache"], 500)] });
const blockAt = (i) => ({ kind: "block", ms: minute(i) + 40, samples: [wait("victim", "mutex", 1000 * (i + 1), i + 1), wait("idle", "condition", 100 * (i + 1), i + 1)] });
const mixed = () => report([...[0, 1, 2, 3, 4, 5].map((i) => heapAt(i)), heapAt(4, "box/1/77/9/0"), heapAt(5, "box/1/77/9/0"), ...[0, 2, 4].map(blockAt)]);

async function drag(page, from, to) {
  const box = await page.getByTestId("timeline").boundingBox();
  await page.mouse.move(box.x + box.width * from, box.y + box.height / 2);
  await page.mouse.down();
  await page.mouse.move(box.x + box.width * to, box.y + box.height / 2, { steps: 4 });
  await page.mouse.up();
}
const times = async (hash) => /range=(-?\d+):(-?\d+)/.exec(await hash())?.slice(1).map(Number) ?? null;

test("A brushed range is a range of time: the same in every metric and for every process", async () => {
  const { page, close, hash, total } = await open(mixed());
  await drag(page, 0.22, 0.7); // snapshots of the heap lie at 0, 0.2 … 1, those of locks at 0, 0.4 and 0.8
  const [from, to] = await times(hash);
  assert.ok(Math.abs(from - minute(1.1)) < 3000 && Math.abs(to - minute(3.5)) < 3000, `${from}:${to}`);
  assert.equal(await total(), "4.39KiB"); // 4000 + 500, at minute 3
  await page.getByTestId("metric").selectOption("block/delay");
  assert.deepEqual(await times(hash), [from, to]);
  assert.equal(await total(), "2.20us"); // between minutes 0 and 2: of the third lock snapshot, at minute 4, nothing
  await page.getByTestId("metric").selectOption("heap/inuse_space");
  await page.getByTestId("process").selectOption("box/1/77/9/0");
  assert.deepEqual(await times(hash), [from, to]);
  assert.equal(await total(), "0", "the second process began later");
  await page.getByTestId("process").selectOption("box/1/42/7/0");
  assert.equal(await total(), "4.39KiB");
  await close();
});

test("The brushed range is drawn again after each rebuild: theme, size, metric, address", async () => {
  const { page, close, hash, go } = await open(mixed());
  await drag(page, 0.22, 0.7);
  const address = await hash();
  const drawn = async (what) => {
    const brush = await page.getByTestId("brush").boundingBox();
    const plot = await page.getByTestId("timeline").boundingBox();
    assert.ok(Math.abs((brush.x - plot.x) / plot.width - 0.22) < 0.02 && Math.abs((brush.x + brush.width - plot.x) / plot.width - 0.7) < 0.02, what);
  };
  await drawn("brushed");
  await page.keyboard.press("t");
  await drawn("theme");
  await page.setViewportSize({ width: 900, height: 800 });
  await page.waitForTimeout(50);
  await drawn("size");
  await page.setViewportSize({ width: 1400, height: 1000 });
  await page.getByTestId("metric").selectOption("heap/alloc_space");
  await drawn("metric");
  await go("#");
  assert.equal(await page.getByTestId("brush").count(), 0);
  await go(`#${address.replace(/^#/, "")}`);
  await drawn("address");
  await page.getByRole("button", { name: /Timeline/ }).click();
  await drawn("the large one");
  await close();
});

test("A plain click on the timeline clears the range, and makes none", async () => {
  const { page, close, hash, total } = await open(mixed());
  await page.getByTestId("timeline").click({ position: { x: 30, y: 8 } });
  assert.equal(await times(hash), null);
  await drag(page, 0.22, 0.7);
  assert.notEqual(await times(hash), null);
  await page.getByTestId("timeline").click({ position: { x: 400, y: 8 } });
  assert.equal(await times(hash), null);
  assert.equal(await total(), "12.70KiB");
  await close();
});

test("Resident memory is drawn beside the heap, with a gap where it is not known, and beside nothing else", async () => {
  const at = (i, resident) => ({ ...heapAt(i), comments: resident === null ? [] : [`resident_bytes: ${resident}`] });
  const file = report([at(0, 20_000), at(1, 30_000), at(2, null), at(3, 40_000), at(4, 50_000), blockAt(2), blockAt(4)]);
  const { page, close, go } = await open(file, "#course=1");
  const line = page.locator(".plot .line.resident");
  assert.equal((await line.getAttribute("d")).match(/M/g).length, 2, "two parts, and a gap between them");
  const box = await page.getByTestId("timeline").boundingBox();
  await page.mouse.move(box.x + 0.74 * box.width, box.y + 50);
  assert.match(await page.locator(".plot-value").innerText(), /4\.39KiB[\s\S]*39\.06KiB\s*resident/);
  await page.mouse.move(box.x + 0.5 * box.width, box.y + 50);
  assert.doesNotMatch(await page.locator(".plot-value").innerText(), /resident|NaN/);
  await go("#course=1&metric=heap/alloc_space");
  assert.equal(await line.count(), 0);
  await go("#course=1&metric=block/delay");
  assert.equal(await line.count(), 0);
  await go("#view=leaks&metric=block/delay");
  assert.equal(await line.count(), 1, "leaks are of memory, whatever is chosen");
  await close();
  const without = await open(mixed(), "#course=1");
  assert.equal(await without.page.locator(".plot .line.resident").count(), 0);
  await without.close();
});

test("Waits for what nobody holds are not called the hottest lock", async () => {
  const comments = [
    "lock 1: condition 0x1000 contentions 3 delay_ns 9000 longest_ns 5000 holds 0 hold_ns 0",
    "lock 2: condition 0x2000 contentions 0 delay_ns 0 longest_ns 0 holds 0 hold_ns 0",
  ];
  const samples = [{ stack: ["main", "loop"], values: [3, 9000], labels: { wait: "condition" } }];
  const { page, close, rows, text } = await open(report([{ kind: "block", samples, comments }]), "#view=locks");
  assert.doesNotMatch(await text(".summary"), /Hottest/);
  assert.match(await text(".summary"), /none of it for locks/);
  await page.getByRole("heading", { name: /No thread waited for a lock/ }).waitFor();
  assert.equal((await rows("lock-list")).length, 1);
  await close();
});

test("Locks of a part: each figure follows the label and the range, or says that it is of the whole run", async () => {
  const comments = [
    "gap_ns: 1000", "delay_ns: 9000",
    "lock 1: mutex 0x55d2c0a81040 contentions 120 delay_ns 9000 longest_ns 900 holds 80 hold_ns 8000",
    "lock 1 name: queue_mutex (app)",
    "lock stack 1: 0x10000001 0x10000002",
    "lock stack 2: 0x10000003 0x10000002",
    "lock pair 1: lock 1 holder 2 waiter 1 contentions 12.50 delay_ns 7000",
  ];
  const block = (ms, f) => ({ kind: "block", ms, comments, samples: [wait("victim", "mutex", 6000 * f, 6 * f), wait("other", "rwlock:read", 2000 * f, 4 * f), wait("idle", "condition", 4000 * f, 2 * f)] });
  const mutex = (ms, f) => ({ kind: "mutex", ms, comments, samples: [hold("culprit", "mutex", 5000 * f, 5 * f), hold("writer", "rwlock:read", 1000 * f, f)] });
  const file = report([block(minute(0), 1), block(minute(1), 2), mutex(minute(0), 1), mutex(minute(1), 2)]);
  const { page, close, go, rows, text } = await open(file, "#view=locks&metric=block/delay");
  const side = (title) => page.getByRole("region", { name: title, exact: true });
  const kinds = async (title) => (await side(title).locator(".kinds").innerText()).replace(/\s+/g, " ");
  assert.match(await text(".lead"), /By exact counts/);
  assert.equal(await page.locator(".whole-run").count(), 0);

  // A label of waits: the waiters' side alone has it, so nothing is said of both together.
  await go("#view=locks&metric=block/delay&label=wait:mutex");
  assert.deepEqual((await rows("locks-block")).map((row) => row.slice(0, 2)), [["12us", "100%"]]);
  assert.match(await kinds("Who waited"), /^mutex 12us 100%$/, "no other kind, and of the same total");
  assert.match(await side("Who held").innerText(), /Not filtered by wait/);
  assert.match(await side("Who held").innerText(), /12us/);
  assert.equal(await page.locator(".lead").count(), 0);
  assert.equal(await page.locator(".whole-run").count(), 2);

  // A range: everything but the lists of the whole run follows; headline and sides say the same.
  await go(`#view=locks&metric=block/delay&range=${minute(0)}:${minute(1)}`);
  assert.match(await side("Who waited").innerText(), /12us in 12 waits/);
  assert.match(await side("Who held").innerText(), /6us in 6 holds/);
  assert.match(await text(".lead"), /^Threads waited 8us for locks: holders account for 75%\./);
  assert.equal(await page.locator(".whole-run").count(), 2);

  // A filter: kinds are of the same stacks as the table.
  await go("#view=locks&metric=block/delay&hide==victim");
  assert.match(await kinds("Who waited"), /^condition 8us 66\.67% rwlock:read 4us 33\.33%$/);

  // The head of the page.
  const both = await open(report([heapAt(0), heapAt(1), block(minute(1), 1)]), `#range=${minute(0)}:${minute(1)}`);
  assert.match(await both.text(".findings"), /8us waited for locks that others held, most for queue_mutex \(app\), over the whole run/);
  await both.close();
  await close();
});

test("The headline of waits says that it is about locks, and the tables beside it have the same order", async () => {
  const comments = [
    "lock 1: mutex 0x7f10c0a81040 contentions 3 delay_ns 1000 longest_ns 900 holds 3 hold_ns 1000",
    "lock 2: futex 0x7f10c0a82040 contentions 9 delay_ns 9000 longest_ns 900 holds 9 hold_ns 9000",
    "lock stack 1: 0x10000001 0x10000002",
    "lock stack 2: 0x10000003 0x10000002",
    "lock pair 1: lock 1 holder 1 waiter 2 contentions 3 delay_ns 1000",
    "lock pair 2: lock 2 holder 1 waiter 2 contentions 9 delay_ns 9000",
  ];
  const block = { kind: "block", ms: minute(0), comments, samples: [wait("pool", "condition", 42_000, 3), wait("victim", "mutex", 900, 2), wait("pool", "mutex", 100)] };
  const { page, close, rows, text, tab } = await open(report([block]), "#metric=block/delay");
  const findings = (await text(".findings")).replace(/\s+/g, " ");
  assert.match(findings, /Biggest 900ns for locks, 2\.09% waited by victim/);
  assert.match(findings, /Waits 1us locks, 42us idle/);
  assert.deepEqual((await rows("beside")).slice(0, 2), [["victim", "900ns", "900ns"], ["pool", "100ns", "42.10us"]]);
  await tab("Functions");
  assert.deepEqual((await rows("functions")).slice(0, 2).map((row) => row.slice(0, 2)), [["900ns", "900ns"], ["100ns", "42.10us"]]);
  await tab("Locks");
  assert.match((await page.getByTestId("summary-locks").innerText()).replace(/\s+/g, " "), /^1us waited for locks, 43us with all other waits .*Waits most 900ns by victim/);
  assert.deepEqual((await rows("locks-block")).map((row) => [row[0], row[4]]), [["900ns", "900ns"], ["42.10us", "100ns"]]);
  assert.deepEqual((await rows("lock-list")).map((row) => row[0]), ["0x7f10c0a81040", "0x7f10c0a82040"], "what nobody holds comes after it");
  const drawn = await page.getByRole("region", { name: "Who waited for whom" }).locator("svg").first().textContent();
  assert.ok(drawn.includes("0x7f10c0a81040") && !drawn.includes("0x7f10c0a82040"), drawn);
  assert.match(await text("[data-testid=lock-names]"), /^2 of 2 locks are neither in a file nor in a sampled heap block: a smaller --heap-interval /);
  await close();
});

test("Leaks of a part say that they are of the whole run; a process chosen by a label is chosen here, too", async () => {
  const process = (host, pid) => [0, 1, 2, 3, 4, 5].map((i) => ({ ...heapAt(i, `${host}/1/${pid}/7/0`), samples: [heap(["main", `leak_${pid}`], 1000 * (i + 1), 10 * (i + 1), 1, { thread: "io" }), heap(["main", "b"], 10, 1, 1, { thread: "worker" })] }));
  const { page, close, go, text } = await open(report([...process("one", 1), ...process("two", 2)]), "#view=leaks");
  const names = () => page.getByTestId("leaks").locator(".fn-name").allInnerTexts();
  assert.equal(await page.getByTestId("whole-run").count(), 0);
  assert.match(await text(".lead"), /2 stacks grow/);
  for (const part of [`range=${minute(1)}:${minute(3)}`, "label=thread:io"]) {
    await go(`#view=leaks&${part}`);
    assert.match(await page.getByTestId("whole-run").innerText(), /^This is about the whole run/);
    await go(`#${part}`);
    assert.match(await text(".findings"), /over the whole run/);
  }
  await go("#view=leaks&label=host:two");
  assert.match(await text(".lead"), /One stack grows/);
  assert.deepEqual((await names()).filter((name) => name.startsWith("leak")), ["leak_2"]);
  await close();
});

test("Leaks: as the terminal has them, without plumbing, no two rows alike, and no hour of what was seen for seconds", async () => {
  const way = (last, bytes) => heap(["main", last, "load", "parse", "read", "append", "zmalloc", "zmalloc_usable"], bytes, bytes / 100);
  const files = [0, 1, 2, 3, 4, 5].map((i) => ({ ms: 1_700_000_000_000 + i * 2000, interval: 1, samples: [way("on_open", 1000 * (i + 1)), way("on_close", 2000 * (i + 1)), heap(["main", "cache"], 500)] }));
  const paths = files.map((profile, i) => writeProfile(join(folder, `alike.42.000${i}.heap.pb.gz`), profile));
  const printed = spawnSync(tool, ["leaks", "--width", "0", ...paths], { encoding: "utf8" });
  assert.equal(printed.status, 1, printed.stderr);
  assert.match(printed.stdout, /^in use .*\+1\.46KiB ± \S+ a second \(growing\)$/m);
  const expected = printed.stdout.split("\n").filter((line) => line.includes("append ←")).map((line) => [/\+\S+/.exec(line)[0], /append ←.*/.exec(line)[0]]);
  assert.deepEqual(expected.map(([, stack]) => stack), ["append ← read ← parse ← load ← on_close ← …", "append ← read ← parse ← load ← on_open ← …"]);
  const { page, close, text, rows } = await open(report(paths), "#view=leaks");
  assert.match(await text(".lead"), /2 stacks grow all the time, together by \+1\.46KiB a second/);
  assert.match(await text("[data-testid=summary-leaks]"), /\+1\.46KiB\s+a second, of/);
  const shown = (await rows("leaks")).slice(0, 2).map((row) => [row[1], row[7].replace(/\s+/g, " ")]);
  assert.deepEqual(shown, expected);
  await page.getByTestId("leaks").getByRole("button", { name: /on_open/ }).click();
  assert.equal(await text("[data-testid=inspector] h2"), "append");
  assert.match(await text("[data-testid=inspector]"), /5\.86KiB/);
  await close();
});

test("The inspector's figures of the function are the function's, also where one frame of it is chosen", async () => {
  const grow = (caller, bytes, objects) => heap(["main", caller, "grow"], bytes, objects);
  const { page, close } = await open(report([{ interval: 1, samples: [grow("a", 1_000_000, 1000), grow("b", 500_000, 250)] }]), "#fn=grow&zoom=main;a;grow&top=0&runs=0");
  const cells = async (id) => (await page.getByTestId(id).locator("tr").allInnerTexts()).map((t) => t.replace(/\s+/g, " ").trim());
  assert.deepEqual((await cells("inspector-function")).slice(2, 4), ["objects 1,250", "mean size 1.17KiB"]);
  assert.deepEqual((await cells("inspector-frame")).slice(2, 4), ["objects 1,000", "mean size 1000B"]);
  await close();
});

test("“Exact” is said only where the interval was 1", async () => {
  const huge = [heap(["main", "arena"], 2 ** 40)]; // so large that it is certainly sampled: an error of nothing
  const sampled = await open(report([{ interval: 524288, samples: huge, comments: ["total inuse_space: 1099511627776 ± 0"] }]));
  assert.doesNotMatch(await sampled.text(".summary"), /exact/);
  await sampled.close();
  const exact = await open(report([{ interval: 1, samples: shared }]));
  assert.match(await exact.text(".summary"), /exact: every one was recorded/);
  await exact.close();
});

test("The call graph's parts in a comparison are of the head, as everywhere", async () => {
  const file = report([{ samples: [heap(["main", "kept"], 1000)] }], { base: [{ ms: minute(0), samples: [heap(["main", "kept"], 1000), heap(["main", "gone"], 3000)] }] });
  const { page, close, tab, rows } = await open(file, "#view=graph");
  const kept = page.getByRole("button", { name: /kept.*1000B/ });
  assert.match(await kept.locator(".value").textContent(), /1000B · 100%/);
  await tab("Functions");
  assert.equal((await rows("functions")).find((row) => row.at(-1).startsWith("kept"))[3], "100%");
  await close();
});

test("A normalised comparison speaks of shares, not of a change of 0 ± 0", async () => {
  const file = report([{ samples: shared }], { base: [{ ms: minute(0), samples: shared.slice(1) }] });
  const { close, text } = await open(file, "#normalise=1");
  assert.doesNotMatch(await text(".summary"), /Change\s+0/);
  assert.match(await text(".summary"), /scaled by 1\.07, from 1\.37KiB to 1\.46KiB/);
  await close();
  const same = await open(report([{ samples: shared }], { base: [{ ms: minute(0), samples: shared }] }));
  assert.match(await same.text(".summary"), /Change\s+No change/);
  await same.close();
});

test("An expression that cannot be read is said and not applied", async () => {
  const { page, close, go, total, hash } = await open(report([{ samples: shared }]));
  const all = await page.getByTestId("flame-canvas").evaluate((canvas) => canvas.toDataURL());
  await page.getByRole("searchbox").fill("/[/");
  assert.match(await page.locator("#pattern-error").innerText(), /Not a valid expression: .+\. Nothing is searched/);
  assert.equal(await page.getByTestId("found").count(), 0);
  assert.equal(await page.getByTestId("flame-canvas").evaluate((canvas) => canvas.toDataURL()), all, "nothing fades");
  assert.equal(await page.getByRole("group", { name: "Found" }).getByRole("button", { name: "Focus" }).isDisabled(), true);
  for (const type of ["focus", "hide", "from"]) {
    await go(`#${type}=${encodeURIComponent("/(/")}`);
    assert.equal(await total(), "1.46KiB");
    assert.match(await page.getByRole("alert").innerText(), /the filter \/\(\/, which is not a valid expression/);
    assert.equal(await page.getByTestId("chips").count(), 0);
  }
  assert.match(await hash(), /from=/);
  await close();
});

test("An address carries names, order and filters, and says what another report does not have", async () => {
  const one = report([{ samples: shared }]);
  const { page, close, hash, tab, rows } = await open(one);
  await page.getByRole("tree", { name: "Flame graph" }).focus();
  await tab("Functions");
  await page.getByTestId("functions").getByRole("button", { name: /^parse_json/ }).click();
  await page.getByTestId("functions").getByRole("button", { name: /^Total/ }).click();
  await page.getByTestId("functions").getByRole("button", { name: /^Total/ }).click();
  assert.match(await hash(), /fn=parse_json/);
  assert.match(await hash(), /sort=-total/);
  const shown = await rows("functions");
  assert.match(shown[0].at(-1), /^validate/);
  const address = await hash();
  await close();
  const again = await open(one, address);
  assert.deepEqual(await again.rows("functions"), shown);
  assert.equal(await again.text("[data-testid=inspector] h2"), "parse_json");
  await again.close();

  // In a report where the numbers of functions are others.
  const other = report([{ samples: [heap(["aaa", "main", "handle_request", "zzz"], 100)] }]);
  const elsewhere = await open(other, "#fn=main&zoom=aaa;main;parse_json");
  assert.equal(await elsewhere.text("[data-testid=inspector] h2"), "main");
  assert.match(await elsewhere.page.getByRole("alert").innerText(), /Left out: .*the function “parse_json”/);
  assert.match(await elsewhere.hash(), /parse_json/, "the address stays, to be copied on");
  await elsewhere.page.getByRole("alert").getByRole("button", { name: "Close" }).click();
  assert.equal(await elsewhere.page.getByRole("alert").count(), 0);
  for (const [asked, said] of [["focus==nobody", /the function “nobody” of a filter/], ["process=gone", /the process “gone”/], ["label=wait:mutex", /the label wait “mutex”/], [`range=${minute(-9)}:${minute(-8)}`, /the range of time/], ["compare=files", /files to compare with/]]) {
    await elsewhere.go(`#${asked}`);
    assert.match(await elsewhere.page.getByRole("alert").innerText(), said);
  }
  await elsewhere.close();
});

test("Focus keeps stacks; there is no second button that does the same", async () => {
  const { page, close, total, hash } = await open(report([{ samples: shared }]), "#only==parse_json"); // as older addresses have it
  assert.equal(await total(), "500B");
  assert.match(await page.getByTestId("chips").innerText(), /through\s+parse_json/);
  assert.equal(await page.getByRole("button", { name: "Show only" }).count(), 0);
  await page.getByRole("searchbox").fill("apply");
  await page.getByRole("group", { name: "Found" }).getByRole("button", { name: "Hide" }).click();
  assert.match(await hash(), /focus==parse_json&hide=apply/);
  await close();
});

test("Memory: where all of it was, over time and line by line, as the profiles have it", async () => {
  const MiB = 1 << 20;
  const account = (i, total, allocator) =>
    `memory: total ${total * MiB} allocator ${allocator * MiB} files ${8 * MiB} shared 0 stacks ${MiB} own ${MiB} rest ${(total - allocator - 10) * MiB} live ${(allocator - 20) * MiB} live_variance 0 pages 1 heaps 3 arenas 2 threads 4 sampled 9 name glibc`;
  const at = (i, total, allocator) => ({ ...heapAt(i), comments: total === 0 ? [] : [account(i, total, allocator), `memory file: ${5 * MiB} libbig.so`] });
  const file = report([at(0, 100, 60), at(1, 120, 75), at(2, 0, 0), at(3, 200, 150)]);
  const { page, close, go, text } = await open(file, "#view=memory");
  const row = (what) => page.locator(".account-lines tr", { has: page.getByRole("rowheader", { name: what }) }).innerText();
  assert.match(await text(".memory-view"), /200MiB resident at [\s\S]*\+100MiB in 3min/);
  assert.match(await row("live blocks"), /130MiB\s+65%\s+\+90MiB/);
  assert.match(await row("allocator beyond"), /20MiB\s+10%\s+glibc: 3 mappings, 2 of secondary arenas/);
  assert.match(await row("files"), /8MiB\s+4%\s+libbig\.so 5MiB/);
  assert.match(await row("the rest"), /40MiB\s+20%\s+\+10MiB/);
  assert.equal(await page.locator(".bands .band").count(), 6, "a line that is nothing has none");
  await go(`#view=memory&range=-1:${minute(2)}`);
  assert.match(await text(".memory-view"), /120MiB resident at [\s\S]*\+20MiB in 1min/, "the newest one that has an account");
  await go(`#view=memory&range=${minute(1)}:-1`);
  assert.match(await text(".memory-view"), /\+80MiB in 2min/);
  await close();
  const without = await open(mixed(), "#view=memory");
  assert.match(await without.text("#view"), /No snapshot has an account/);
  await without.close();
});
