// What a reader sees at the first look, at three widths, in light and dark: findings that are whole, names that can be read and are
// the same everywhere, one total for each lock, a course with what it is made of, and both sides of a comparison in every view.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdirSync, readFileSync } from "node:fs";
import { createServer } from "node:http";
import { join } from "node:path";
import { test } from "node:test";
import { inflateRawSync } from "node:zlib";
import { browser, core, folder, open, report, tool, top } from "./browser.mjs";
import { heap, writeProfile } from "./pprof.mjs";

const minute = (i) => 1_700_000_000_000 + i * 60_000;
const looks = [1440, 1024, 390].flatMap((width) => ["light", "dark"].map((colorScheme) => ({ width, height: width === 390 ? 844 : 900, colorScheme })));

// Names as compilers write them, and as people read them.
const string = "std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char> >";
const names = new Map([
  [`void shop::Basket<${string}, std::allocator<${string} > >::handle<int>(shop::Request const&, int) [clone .cold]`, "shop::Basket<std::string>::handle"],
  ["decltype (f({parm#1})) shop::call<int>(int)", "shop::call"],
  ["std::ostream& shop::operator<< <char>(std::ostream&, shop::Order<char> const&)", "shop::operator<<"],
  ["<shop::Server as shop::Handler>::handle", "shop::Server::handle"],
  ["shop::parse[abi:cxx11](char const*)", "shop::parse"],
  ["shop::Cache::add(int)", "shop::Cache::add(int)"], // two of one name keep what tells them apart
  ["shop::Cache::add(char)", "shop::Cache::add(char)"],
  ["shop::a\u202eb", "shop::a[U+202E]b"],
]);
const full = [...names.keys()];
const libstdcxx = "/usr/lib/x86_64-linux-gnu/libstdc++.so.6";
const plumbing = { name: "std::__new_allocator<char>::allocate(unsigned long, void const*)" };
const heapAt = (i) => ({ ms: minute(i), comments: [`peak: 9500000 bytes at ${new Date(minute(2.5)).toISOString()}`], samples: [...full.map((name, k) => heap(["main", "shop::run(int, char**)", name, plumbing], (i + 1) * 20_000 * (8 - k), i + 1)), heap([{ name: "_dl_init", object: libstdcxx }, { name: "pool", object: libstdcxx }], 72_704)] });
const locks = [
  "gap_ns: 4805000000", "delay_ns: 55000000",
  "lock 1: mutex 0x55d2c0a81040 contentions 120 delay_ns 4860000000 longest_ns 90000000 holds 80 hold_ns 55000000",
  "lock 1 name: job_lock (shop)",
  "lock stack 1: 0x10000001 0x10000002 0x10000003",
  "lock stack 2: 0x10000004 0x10000002 0x10000003",
  "lock pair 1: lock 1 holder 2 waiter 1 contentions 80 delay_ns 50000000",
];
const locking = (name) => ["main", name, { name: "__gthread_mutex_lock(pthread_mutex_t*)" }];
const block = { kind: "block", ms: minute(5), comments: locks, samples: [{ stack: locking("shop::push(int)"), values: [120, 4_860_000_000], labels: { wait: "mutex" } }, { stack: locking("shop::flush_log()"), values: [1, 1], labels: { wait: "mutex" } }] };
const mutex = { kind: "mutex", ms: minute(5), comments: locks, samples: [{ stack: locking("shop::flush_log()"), values: [80, 55_000_000], labels: { lock: "mutex" } }] };
const heaps = [0, 1, 2, 3, 4, 5].map((i) => writeProfile(join(folder, `looks.42.000${i}.heap.pb.gz`), heapAt(i)));
const shop = report([...heaps, block, mutex]);

const ugly = /decltype|<…>::|operator<<…>|\[clone|\[abi:|__cxx11|\u202e|__new_allocator|__gthread/;

test("Findings are whole and begin with their number; names can be read and are the same everywhere", async () => {
  const printed = top("inuse_space", [heaps[5]], "--fold", "plumbing").rows.map((row) => row.at(-1));
  for (const name of names.values()) assert.ok(printed.includes(name), `${name} in ${printed}`);
  for (const look of looks) {
    const { page, close, go } = await open(shop, "", look);
    const said = JSON.stringify(look);
    const whole = (selector) => page.locator(selector).evaluateAll((all) => all.every((element) => element.scrollWidth <= element.clientWidth + 1 && element.scrollHeight <= element.clientHeight + 1));
    assert.ok(await whole(".findings button, .findings .finding-text, .figure, .figure-note span"), `${said}: nothing is cut`);
    assert.match((await page.locator(".findings li", { hasText: "Biggest" }).innerText()).replace(/\s+/g, " "), /^Biggest [\d.]+KiB, [\d.]+% held by shop::Basket<std::string>::handle/);
    // Plumbing is folded from the beginning: the rows are the program's own.
    const rows = await page.getByTestId("beside").locator(".fn-name").allInnerTexts();
    assert.deepEqual(rows.slice(0, 8), [...names.values()], said);
    for (const view of ["flame", "functions", "locks", "leaks", "topdown", "graph"]) {
      await go(`#view=${view}`);
      assert.doesNotMatch(await page.locator("#app").innerText(), ugly, `${said} ${view}`);
      assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), `${said} ${view}`);
      const tab = await page.getByRole("tab", { selected: true }).boundingBox();
      assert.ok(tab.x >= 0 && tab.x + tab.width <= look.width, `${said} ${view}: its tab is in sight`);
    }
    const fn = encodeURIComponent(full[0].replace(" [clone .cold]", "")); // functions have the names of their sources
    await go(`#view=functions&fn=${fn}&focus=%3D${fn}`);
    const name = names.get(full[0]);
    assert.match(await page.getByTestId("chips").innerText(), new RegExp(`through\\s+${name.replace(/[<>]/g, ".")}`));
    assert.equal(await page.getByTestId("inspector").locator("h2").innerText(), name);
    assert.equal(await page.getByTestId("functions").locator("tr[data-fn^='void shop::Basket'] .fn-name").innerText(), name);
    // Percentages are of everything, as in top.
    const [, , percent] = top("inuse_space", [heaps[5]], "--fold", "plumbing", "--focus", "Basket").rows.find((row) => row.at(-1) === name);
    if (look.width === 1440) assert.equal((await page.getByTestId("functions").locator("tr[data-fn^='void shop::Basket'] td").nth(3).innerText()).trim(), top("inuse_space", [heaps[5]], "--fold", "plumbing", "--focus", "Basket").rows.find((row) => row.at(-1) === name)[3], percent);
    await close();
  }
});

test("A lock has one total, and what nobody held is a box of its own; text sets the height of a box", async () => {
  for (const look of looks) {
    const { page, close } = await open(shop, "#view=locks", look);
    const boxes = Object.fromEntries(await page.locator(".who").evaluateAll((all) => all.map((box) => [...box.querySelectorAll("text")].map((text) => text.textContent.trim()))));
    assert.deepEqual(boxes, look.width > 700
      ? { "shop::push": "4.86s", "job_lock (shop)": "4.86s", "nobody: handed over late": "4.80s", "shop::flush_log": "55ms" }
      : { "shop::push": "4.86s", "…_lock (shop)": "4.86s", "nobody: late": "4.80s", "…p::flush_log": "55ms" });
    assert.match((await page.getByTestId("summary-locks").innerText()).replace(/\s+/g, " "), /Hottest 4\.86s for job_lock \(shop\) Waits most 4\.86s by shop::push Makes others wait most 55ms by shop::flush_log/);
    assert.match(await page.getByTestId("lock-list").locator("tbody tr").first().innerText(), /4\.86s/);
    const heights = await page.locator(".who rect").evaluateAll((all) => all.map((rect) => rect.height.baseVal.value));
    assert.ok(heights.every((height) => height === (look.width > 700 ? 28 : 42)), `${heights}`);
    const [drawing, frame] = [await page.locator("svg.whom").boundingBox(), await page.locator(".whom-frame").boundingBox()];
    assert.ok(Math.abs(drawing.width - frame.width) <= 2, `${JSON.stringify(look)}: over the whole width`);
    await close();
  }
});

test("A page opens where there is something to see, and says so", async () => {
  const out = join(folder, "freed");
  mkdirSync(out);
  const reserve = heap([{ name: "_dl_init", object: libstdcxx }, { name: "pool", object: libstdcxx }], 72_704);
  const freed = (values) => ({ stack: ["main", "shop::render(int)"], values, labels: { bytes: 4096 } });
  const last = writeProfile(join(out, "shop.42.0001.heap.pb.gz"), { ms: minute(1), samples: [freed([1000, 64_000_000, 0, 0]), reserve] });
  const without = await open(report([last]));
  assert.equal(await without.page.getByTestId("metric").inputValue(), "heap/alloc_space");
  assert.equal(await without.text("[data-testid=opens]"), "hardly anything is (71KiB) in use any more, so this shows all allocations");
  await without.close();
  const peak = writeProfile(join(out, "shop.42.0002.peak.pb.gz"), { kind: "peak", ms: minute(1), samples: [{ stack: ["main", "shop::render(int)"], values: [1, 64_000_000] }] });
  const { page, close, text } = await open(report([last, peak]));
  assert.equal(await page.getByTestId("metric").inputValue(), "peak/peak_space");
  assert.equal(await text("[data-testid=opens]"), "hardly anything is (71KiB) in use any more, so this shows the peak");
  assert.match(await text(".findings"), /Biggest\s+61\.04MiB, 100% held by shop::render/);
  await close();
});

test("The timeline has axes where there is room, is made of the functions that hold most, and its peak is on the line", async () => {
  for (const look of looks) {
    const { page, close, go } = await open(shop, "", look);
    const plot = await page.locator(".plot").boundingBox();
    assert.equal(plot.height, look.width >= 1200 ? 76 : 22);
    if (look.width >= 1200) {
      assert.deepEqual(await page.locator(".value-tick text").allTextContents(), ["0", "4MiB", "8MiB"]);
      assert.match((await page.locator(".time-tick text").allTextContents()).join(" "), /^(\d\d:\d\d(:\d\d)? ?){2,8}$/);
    }
    if (look.width < 1200) await go("#course=1");
    const parts = page.locator(".plot .part");
    assert.equal(await parts.count(), 7, "six, and the others");
    assert.deepEqual(await parts.evaluateAll((all) => all.slice(0, 2).map((part) => part.dataset.part)), [...names.values()].slice(0, 2));
    // The line goes through the peak, which is between two snapshots.
    const [x, y] = await page.locator(".plot .peak circle").evaluate((circle) => [circle.cx.baseVal.value, circle.cy.baseVal.value]);
    const d = await page.locator(".plot .line.total").getAttribute("d");
    assert.ok(d.includes(`L${x.toFixed(1)} ${y.toFixed(1)}L`), `${d} through ${x} ${y}`);
    const box = await page.getByTestId("timeline").boundingBox();
    await page.mouse.move(box.x + box.width / 2, box.y + 5);
    await page.mouse.move(box.x + box.width - 2, box.y + box.height - 3);
    assert.match((await page.locator(".plot-value").innerText()).replace(/\s+/g, " "), /937\.50KiB shop::Basket<std::string>::handle of 4\.\d+MiB/);
    await close();
  }
});

test("The table beside the graph can be made wider, with the pointer and with keys", async () => {
  const { page, close } = await open(shop, "", { width: 1440, height: 900 });
  const before = (await page.locator(".side").boundingBox()).width;
  // The page draws some time after the event.
  const becomes = (least, most) =>
    page.waitForFunction(([from, to]) => {
      const width = document.querySelector(".side").getBoundingClientRect().width;
      return width >= from && width <= to;
    }, [least, most]);
  const line = await page.getByTestId("splitter").boundingBox();
  await page.mouse.move(line.x + 4, line.y + 300);
  await page.mouse.down();
  await page.mouse.move(line.x - 196, line.y + 300, { steps: 3 });
  await page.mouse.up();
  await becomes(before + 197, before + 203);
  await page.getByTestId("splitter").focus();
  await page.keyboard.press("ArrowRight");
  await becomes(before, before + 190);
  await page.getByTestId("splitter").dblclick();
  await becomes(before, before);
  await close();
});

test("The inspector follows the keyboard; Shift and the wheel scroll; x hides what was focused", async () => {
  const deep = [...Array(90).keys()].map((i) => `level_${i}`);
  const { page, close, text, hash } = await open(report([{ samples: [heap([...deep, "one"], 600), heap([...deep, "two"], 400)] }]), "#runs=0&fn=level_3");
  assert.equal(await text(".inspector h2"), "level_3");
  const tree = page.getByRole("tree", { name: "Flame graph" });
  await tree.focus();
  for (let i = 0; i < 3; ++i) await page.keyboard.press("ArrowDown");
  assert.equal(await text(".inspector h2"), "level_2", "what the cursor is on");
  await page.keyboard.press("Space");
  assert.match(await hash(), /fn=level_2/);
  const box = await tree.boundingBox();
  await page.mouse.move(box.x + 200, box.y + 200);
  await page.keyboard.down("Shift");
  await page.mouse.wheel(0, 300);
  await page.keyboard.up("Shift");
  await page.waitForFunction(() => document.querySelector(".flame-scroll").scrollTop >= 200);
  assert.equal(await page.getByTestId("map").count(), 0, "it does not zoom");
  await page.evaluate(() => (location.hash = "#fn=one&focus==one"));
  await page.waitForFunction(() => document.querySelector("[data-testid=total]").innerText === "600B");
  await page.getByRole("tab", { name: "Flame graph" }).focus();
  await page.keyboard.press("x");
  assert.equal(await text("[data-testid=total]"), "400B");
  await close();
});

test("What is said of a frame covers its callers, not its callees", async () => {
  const { page, close, at } = await open(shop, "#fold=0", { width: 1440, height: 900 });
  for (const flame of [false, true]) {
    if (flame) await page.keyboard.press("i");
    await page.mouse.move(...(await at(flame ? 3 : 2, 0.5)));
    const [tip, row] = [await page.getByRole("tooltip").boundingBox(), await page.locator(".hover-box").boundingBox()];
    assert.ok(flame ? tip.y >= row.y + row.height : tip.y + tip.height <= row.y + 1, `${JSON.stringify(tip)} ${JSON.stringify(row)}`);
  }
  await close();
});

test("Values in boxes can be read in both colours", async () => {
  for (const colorScheme of ["light", "dark"]) {
    const { page, close } = await open(shop, "#colour=function", { width: 1440, height: 900, colorScheme });
    const contrast = await page.getByTestId("flame-canvas").evaluate((canvas) => {
      const ratio = devicePixelRatio, row = Number(canvas.dataset.row), width = canvas.width / ratio;
      const { data } = canvas.getContext("2d").getImageData((width - 150) * ratio, (row + 3) * ratio, 130 * ratio, (row - 6) * ratio);
      const light = (i) => [0, 1, 2].reduce((sum, k) => {
        const c = data[i + k] / 255;
        return sum + [0.2126, 0.7152, 0.0722][k] * (c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
      }, 0);
      const all = [];
      for (let i = 0; i < data.length; i += 4) all.push(light(i));
      return (Math.max(...all) + 0.05) / (Math.min(...all) + 0.05);
    });
    assert.ok(contrast >= 4.5, `${colorScheme}: ${contrast}`);
    await close();
  }
});

test("On a phone a tap brings name, total and self, and leaks begin with the name", async () => {
  for (const colorScheme of ["light", "dark"]) {
    const { page, close, at, go } = await open(shop, "", { width: 390, height: 844, colorScheme });
    await page.mouse.click(...(await at(1, 0.5)));
    const sheet = page.getByTestId("sheet");
    assert.match((await sheet.innerText()).replace(/\s+/g, " "), /^main × total 4\.12MiB 9\d\.\d+% · self 0 0% /);
    const box = await sheet.boundingBox();
    assert.ok(box.y + box.height <= 845 && box.y > 500, JSON.stringify(box));
    await sheet.getByRole("button", { name: "Close" }).click();
    assert.equal(await sheet.count(), 0);
    await go("#view=leaks");
    assert.equal(await page.getByTestId("leaks").locator("th").first().innerText(), "Held by");
    await close();
  }
});

test("Base, head and difference in every view, with what each side is; where a view has none it says why", async () => {
  const monday = join(folder, "monday");
  const tuesday = join(folder, "tuesday");
  for (const path of [monday, tuesday]) mkdirSync(path);
  const file = (path, pid, samples, extra = {}) => writeProfile(join(path, `shop.${pid}.0001.heap.pb.gz`), { pid, process: `box/1/${pid}/7/0`, ms: minute(1), samples, ...extra });
  const base = file(monday, "41", [heap(["main", "shop::add(int)"], 1000)]);
  const head = file(tuesday, "42", [heap(["main", "shop::add(int)"], 3000)]);
  const both = report([head, { ...block, pid: "42", process: "box/1/42/7/0" }], { base: [base] });
  for (const look of looks) {
    const { page, close, go, total, text } = await open(both, "", look);
    const sides = page.getByRole("group", { name: "Side" });
    const side = (name) => sides.getByRole("button", { name, exact: true });
    assert.match(await text(".compare-title"), /^monday · app · pid 41 · .* → tuesday · app · pid 42 · /);
    assert.equal(await page.getByTestId("metric").locator("option[value='block/delay']").count(), 0);
    for (const view of ["functions", "topdown", "bottomup", "sandwich", "graph", "source"]) {
      await go(`#view=${view}&side=base`);
      assert.equal(await total(), "1000B", view);
      await go(`#view=${view}&side=head`);
      assert.equal(await total(), "2.93KiB", view);
    }
    for (const view of ["graph", "source"]) {
      await go(`#view=${view}`);
      assert.deepEqual([await side("Base").isDisabled(), await side("Diff").isDisabled()], [false, true]);
      assert.match(await side("Diff").getAttribute("title"), /shows one side of a comparison at a time/);
    }
    for (const view of ["locks", "leaks", "memory"]) {
      await go(`#view=${view}`);
      assert.deepEqual([await side("Base").isDisabled(), await side("Diff").isDisabled()], [true, true], view);
      assert.match(await side("Diff").getAttribute("title"), /is about one set of files, so it shows the head/);
      assert.equal(await side("Head").getAttribute("aria-pressed"), "true");
    }
    await close();
  }
});

test("A chain of single callees is one box of the call graph, so that all of it can be read", async () => {
  const chain = [...Array(20).keys()].map((i) => `app::step_${i}(int)`);
  for (const look of looks) {
    const { page, close } = await open(report([{ samples: [heap(["main", ...chain, "get"], 600), heap(["main", ...chain, "set"], 400)] }]), "#view=graph", look);
    assert.equal(await page.locator(".graph .node").count(), 3);
    assert.match((await page.locator(".graph .node.chain").evaluate((node) => [...node.querySelectorAll("text")].map((text) => text.textContent).join(" "))).replace(/\s+/g, " "), /^main ⋮ 19 more app::step_19 1000B · 100%/);
    const letters = await page.locator(".graph .title").first().evaluate((text) => text.getBoundingClientRect().height);
    assert.ok(letters >= (look.width === 390 ? 9 : 11), `${letters} px`);
    await close();
  }
});

test("On paper everything is as wide as the paper, in the colours of paper, and no text is over other text", async () => {
  for (const [view, look] of [["flame", looks[0]], ["flame", looks[1]], ["locks", looks[0]], ["locks", looks[1]], ["leaks", looks[0]]]) {
    const { page, close } = await open(shop, `#view=${view}`, look);
    await page.evaluate(() => window.dispatchEvent(new Event("beforeprint")));
    await page.emulateMedia({ media: "print" });
    for (const width of [700, 1040]) {
      await page.setViewportSize({ width, height: 900 });
      assert.equal(await page.evaluate(() => document.documentElement.dataset.theme), "light");
      // The page is drawn again for the new width.
      await page.waitForFunction(() => document.documentElement.scrollWidth <= innerWidth, undefined, { timeout: 10_000 }).catch(() => assert.fail(`${view} ${width}`));
      const overlaps = await page.evaluate(() => {
        const texts = [...document.querySelectorAll(".figure > *, .findings li, .timeline-strip > :not(.plot), .plot svg, .flame-space, .legend, .beside, .lead, .whom, .leaks")];
        const boxes = texts.map((element) => [element.className.baseVal ?? element.className, element.getBoundingClientRect()]).filter(([, box]) => box.width > 0 && box.height > 0);
        return boxes.flatMap(([a, x], i) => boxes.slice(i + 1).filter(([, y]) => Math.min(x.right, y.right) - Math.max(x.left, y.left) > 1 && Math.min(x.bottom, y.bottom) - Math.max(x.top, y.top) > 1).map(([b]) => `${a} over ${b}`));
      });
      assert.deepEqual(overlaps, [], `${view} ${width}`);
    }
    if (view === "flame") {
      const canvas = page.getByTestId("flame-canvas");
      assert.equal(await canvas.evaluate((element) => element.width), 1720, "sharp");
      const [graph, paper] = await canvas.evaluate((element) => [element.getBoundingClientRect().width, innerWidth]);
      assert.ok(graph > 0.95 * paper, `${graph} of ${paper}`);
    }
    await page.emulateMedia({ media: null });
    await page.evaluate(() => window.dispatchEvent(new Event("afterprint")));
    await page.setViewportSize({ width: look.width, height: look.height });
    await page.waitForFunction((theme) => document.documentElement.dataset.theme === theme, look.colorScheme);
    assert.ok((await page.pdf()).length > 10_000);
    await close();
  }
});

test("The account of memory follows processes, and says what it does not follow", async () => {
  const account = (total) => `memory: total ${total << 20} allocator ${(total - 20) << 20} files ${8 << 20} shared 0 stacks ${1 << 20} own ${1 << 20} rest ${10 << 20} live ${(total - 40) << 20} live_variance 0 pages 1 heaps 3 arenas 2 threads 4 sampled 9 name glibc`;
  const of = (pid, total) => ({ pid, process: `box/1/${pid}/7/0`, ms: minute(1), comments: [account(total)], samples: [{ ...heap(["main", "a"], 100), labels: { bytes: 100, tenant: "acme" } }, { ...heap(["main", "b"], 100), labels: { bytes: 100, tenant: "other" } }] });
  const { page, close, go, text } = await open(report([of("1", 100), of("2", 200)]), "#view=memory&label=pid:2");
  assert.match(await text(".memory-view"), /200MiB resident/);
  assert.doesNotMatch(await text(".memory-view"), /100MiB resident/);
  await go("#view=memory&label=tenant:acme");
  assert.match(await text("[data-testid=unfiltered-memory]"), /Not filtered by tenant acme/);
  assert.ok(await page.getByTestId("label").count() === 0, "no choice that has no effect");
  await close();
});

test("A page opens on the locks if they take too much time, unless memory grows; red is only for what is wrong", async () => {
  const slow = (seconds) => ({ ...block, comments: [`elapsed: ${seconds}s`, ...locks] });
  for (const look of [looks[0], looks[5]]) {
    const first = await open(report([heaps[0], slow("12.500"), mutex]), "", look);
    assert.equal(await first.page.getByRole("tab", { selected: true }).innerText(), "Locks");
    assert.match((await first.text(".findings .warn")).replace(/\s+/g, " "), /^Hottest 4\.86s for job_lock \(shop\)/);
    assert.equal(await first.hash(), "");
    await first.tab("Flame graph");
    assert.match(await first.hash(), /^#metric=block/);
    await first.page.reload();
    await first.page.waitForFunction(() => window.holdfastReady !== undefined);
    assert.equal(await first.page.getByRole("tab", { selected: true }).innerText(), "Flame graph", "an address means what it says");
    await first.go("#view=functions&metric=heap/inuse_space");
    assert.match(await first.text(".findings .warn"), /^Locks/, "said first on other views");
    await first.close();
    // Less than a quarter of the time.
    const few = await open(report([heaps[0], slow("25.000"), mutex]), "", look);
    assert.equal(await few.page.getByRole("tab", { selected: true }).innerText(), "Flame graph");
    assert.match(await few.text(".findings"), /Locks/);
    assert.equal(await few.page.locator(".findings .warn").count(), 0);
    await few.close();
    const leaking = [0, 1, 2, 3, 4, 5].map((i) => ({ ms: minute(i), samples: [heap(["main", "shop::leak(int)"], 1000 + i * 500, 10 + i * 5)] }));
    const grows = await open(report([...leaking, slow("12.500"), mutex]), "", look);
    assert.equal(await grows.page.getByRole("tab", { selected: true }).innerText(), "Flame graph");
    assert.deepEqual(await grows.page.locator(".findings .warn .finding-title").allInnerTexts(), ["Growth", "Locks"]);
    await grows.close();
  }
  // The terminal says the same.
  const out = join(folder, "waits");
  mkdirSync(out);
  writeProfile(join(out, "shop.42.0001.heap.pb.gz"), heapAt(0));
  writeProfile(join(out, "shop.42.0001.block.pb.gz"), slow("12.500"));
  assert.match(execFileSync(tool, ["top", out], { encoding: "utf8" }), /^waits    4\.86s for locks that others held, most for job_lock \(shop\): see holdfast locks /);
  const undecided = await open(report([1, 2, 1, 3].map((size, i) => ({ ms: minute(i), samples: [heap(["main", "shop::add(int)"], size * 1_000_000, 2)] }))));
  assert.match(await undecided.text(".findings"), /Growth\s+cannot tell/);
  assert.equal(await undecided.page.locator(".findings .warn").count(), 0);
  await undecided.close();
});

test("The peak is shown within the course of the memory in use; a range there shows that again", async () => {
  const peak = { kind: "peak", ms: minute(5), comments: [`peak: 9500000 bytes at ${new Date(minute(2.5)).toISOString()}`], samples: [{ stack: ["main", "shop::render(int)"], values: [1, 9_500_000] }] };
  const { page, close, hash } = await open(report([...heaps, peak]), "#metric=peak/peak_space", { width: 1440, height: 900 });
  assert.match(await page.locator(".timeline").innerText(), /6 snapshots in 5min, shown: the peak/);
  assert.equal(await page.locator(".plot .peak circle").count(), 1);
  const box = await page.getByTestId("timeline").boundingBox();
  await page.mouse.move(box.x + box.width * 0.3, box.y + 20);
  await page.mouse.down();
  await page.mouse.move(box.x + box.width * 0.7, box.y + 20, { steps: 3 });
  await page.mouse.up();
  assert.match(await hash(), /metric=heap\/inuse_space.*range=/);
  await close();
});

test("A page that was opened early chooses its colours again when other packages come, unless the reader chose", async () => {
  const dataOf = (file) => inflateRawSync(Buffer.from(/id="data">([^<]+)</.exec(readFileSync(file, "utf8"))[1], "base64"));
  const packages = (n) => [...Array(n).keys()].map((i) => heap(["main", `package_${i}::get(int)`], 1000));
  const answers = [dataOf(report([{ ms: minute(0), samples: packages(1) }])), dataOf(report([{ ms: minute(1), samples: packages(5) }]))];
  const filled = { TITLE: "early", DATA: "", FILES: "", CONNECT: "connect-src 'self'; ", LIVE: ' data-live="/data"' };
  const html = readFileSync(join(process.env.HOLDFAST_WEB, "template.html"), "utf8").replace(/@@(\w+)@@/g, (_, name) => filled[name]);
  let version = 1;
  const server = createServer((request, response) => {
    if (!request.url.startsWith("/data")) return response.writeHead(200, { "Content-Type": "text/html" }).end(html);
    if (new URL(request.url, "http://x").searchParams.get("since") === String(version)) return response.writeHead(204).end();
    response.writeHead(200, { "Holdfast-Version": String(version) }).end(answers[version - 1]);
  });
  await new Promise((done) => server.listen(0, "127.0.0.1", done));
  for (const chosen of ["", "#colour=origin"]) {
    version = 1;
    const page = await browser.newPage();
    await page.goto(`http://127.0.0.1:${server.address().port}/${chosen}`);
    await page.waitForFunction(() => window.holdfastReady !== undefined);
    const colour = () => page.getByTestId("colour").inputValue();
    await page.getByText("Drawing").click();
    assert.equal(await colour(), chosen === "" ? "function" : "origin");
    version = 2;
    await page.waitForFunction(() => document.querySelector("[data-testid=beside]").innerText.includes("package_4::get"));
    assert.equal(await colour(), chosen === "" ? "package" : "origin");
    await page.close();
  }
  await new Promise((done) => server.close(done));
});

test("The next colours skip the difference where nothing is compared", async () => {
  const { page, close, hash } = await open(shop, "", { width: 1440, height: 900 });
  const seen = [];
  for (let i = 0; i < 4; ++i) {
    await page.keyboard.press("c");
    seen.push(/colour=(\w+)/.exec(await hash())?.[1]);
  }
  assert.equal(new Set(seen).size, 4);
  assert.ok(!seen.includes("diff"), `${seen}`);
  await close();
});
