// How the page is laid out and handled: the graph has the room, table and graph belong together, names can be read at any
// width, and the keyboard does what the pointer does.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { open, report } from "./browser.mjs";
import { heap, randomStacks } from "./pprof.mjs";

const minute = (i) => 1_700_000_000_000 + i * 60_000;
const libc = "/usr/lib/x86_64-linux-gnu/libc.so.6";
const top = ["_start", { name: "__libc_start_main", object: libc }];
const serverSamples = (f = 1) => [
  heap([...top, "main", "loop", "poll_events", "read_query", "dispatch", "call", "set", "add"], 3000 * f),
  heap([...top, "main", "loop", "poll_events", "read_query", "dispatch", "call", "get"], 1000 * f),
  heap([{ name: "start_thread", object: libc }, "worker", "flush"], 500 * f),
];
const server = report([1, 2, 3, 4, 5].map((i) => ({ ms: minute(i), samples: serverSamples(i) })));
const plain = "#fold=0&top=0&runs=0";
const rowOf = (page, name) => page.getByTestId("beside").locator("tbody tr").filter({ has: page.locator(".fn-name", { hasText: new RegExp(`^${name}$`) }) });
const picture = (page) => page.getByTestId("flame-canvas").evaluate((canvas) => canvas.toDataURL());

test("The graph has most of the height: what is above it takes no more than it did without a course", async () => {
  for (const [width, height] of [[1440, 900], [1920, 1080], [1280, 1000]]) {
    const { page, close } = await open(server, "", { width, height });
    const graph = await page.getByRole("tree", { name: "Flame graph" }).boundingBox();
    assert.ok(graph.y <= 180, `${width}x${height}: ${graph.y}`);
    assert.ok(graph.height >= 0.78 * height, `${width}x${height}: ${graph.height}`);
    assert.equal((await page.getByTestId("timeline").boundingBox()).height, 62);
    assert.equal((await page.locator(".plot").boundingBox()).height, 76, "with its axes");
    assert.equal(await page.evaluate(() => document.documentElement.scrollHeight <= innerHeight), true, "nothing below the window");
    await close();
  }
});

const steps = [...Array(60).keys()].map((i) => `step_${i}`);
const deepServer = report([{ samples: [heap([...top, "main", ...steps, "call", "set"], 3000), heap([...top, "main", ...steps, "call", "get"], 1000)] }]);
test("Runs of frames with one callee are one box with their number where there is no room; a click opens it", async () => {
  const low = "#fold=0&top=0";
  const { page, close, at, hash, go } = await open(deepServer, low);
  const tip = page.getByRole("tooltip");
  // _start; 62 frames: __libc_start_main, main, step_0 … step_59; call; set, get
  await page.mouse.move(...(await at(2, 0.3)));
  assert.match(await tip.innerText(), /^62 frames with one callee each\s+__libc_start_main\s+main\s+step_0\s+step_1/);
  await page.mouse.move(...(await at(3, 0.3)));
  assert.equal(await tip.locator("b").innerText(), "call");
  await page.mouse.click(...(await at(2, 0.3)));
  await page.mouse.move(...(await at(3, 0.3)));
  assert.equal(await tip.locator("b").innerText(), "main");
  assert.doesNotMatch(await hash(), /runs/, "this one, not all");
  await page.keyboard.press("z");
  assert.match(await hash(), /runs=0/);
  await page.mouse.move(...(await at(4, 0.3)));
  await page.mouse.move(...(await at(3, 0.31)));
  assert.equal(await tip.locator("b").innerText(), "main");
  await go(`${low}&search==step_7`); // a run lights up when one of its frames is searched
  const lit = await picture(page);
  await go(`${low}&search==nothing_like_it`);
  assert.notEqual(await picture(page), lit);
  await go(`${low}&zoom=${encodeURIComponent("_start;__libc_start_main;main;step_0")}`); // and opens for one that is chosen
  await page.mouse.move(...(await at(4, 0.3)));
  assert.equal(await tip.locator("b").innerText(), "step_0");
  await close();
  // With room for all rows nothing is folded, and rows are high.
  const shallow = await open(server, "#fold=0&top=0");
  assert.equal(await shallow.page.getByTestId("flame-canvas").getAttribute("data-row"), "24");
  await shallow.page.mouse.move(...(await shallow.at(4, 0.3)));
  assert.equal(await shallow.page.getByRole("tooltip").locator("b").innerText(), "loop");
  await shallow.close();
});

test("System frames on top go into the root, in the graph alone", async () => {
  const { page, close, at, tab, rows, hash } = await open(report([{ samples: [...serverSamples(), heap([{ name: "clone3", object: libc }, { name: "dl_init", object: libc }], 70)] }]), "#fold=0&runs=0");
  const tip = page.getByRole("tooltip").locator("b");
  const names = [];
  for (const part of [0.003, 0.3, 0.99]) {
    await page.mouse.move(...(await at(1, part)));
    names.push(await tip.innerText());
  }
  assert.deepEqual(names, ["clone3", "main", "worker"], "a stack of nothing but the system's keeps its frames");
  await page.mouse.move(...(await at(2, 0.003)));
  assert.equal(await tip.innerText(), "dl_init");
  await page.keyboard.press("T");
  assert.match(await hash(), /top=0/);
  await page.mouse.move(...(await at(1, 0.3)));
  assert.equal(await tip.innerText(), "_start");
  await tab("Functions");
  assert.ok((await rows("functions")).some((row) => row.at(-1).startsWith("start_thread")), "tables are those of holdfast top");
  await close();
});

test("Boxes with room show their values", async () => {
  const { page, close, go } = await open(report([{ samples: [heap(["main", "wide"], 900), heap(["main", "x"], 100)] }]), plain);
  // The same picture but for the figures: what is drawn right of the name of “wide”.
  const ink = () => page.getByTestId("flame-canvas").evaluate((canvas) => {
    const ratio = devicePixelRatio, width = canvas.width / ratio;
    const copy = new OffscreenCanvas(canvas.width, canvas.height).getContext("2d", { willReadFrequently: true });
    copy.drawImage(canvas, 0, 0);
    const { data } = copy.getImageData((0.9 * width - 120) * ratio, 40 * ratio, 110 * ratio, 18 * ratio);
    const seen = new Set();
    for (let i = 0; i < data.length; i += 4) seen.add(`${data[i]} ${data[i + 1]} ${data[i + 2]}`);
    return seen.size;
  });
  assert.ok((await ink()) > 5);
  await go(`${plain}&search==x`);
  assert.ok((await ink()) > 5, "also while it fades");
  await close();
});

test("Table and graph beside each other: the same colours, and what is pointed at in one is marked in the other", async () => {
  const { page, close, at, hash } = await open(server, `${plain}&colour=function`);
  const row = rowOf(page, "set");
  const [r, g, b] = await row.locator(".swatch").evaluate((element) => getComputedStyle(element).backgroundColor.match(/\d+/g).map(Number));
  const [x, y] = await at(9, 0.5);
  const box = await page.getByTestId("flame-canvas").boundingBox();
  const pixel = await page.getByTestId("flame-canvas").evaluate((canvas, [x, y]) => [...canvas.getContext("2d").getImageData(x * devicePixelRatio, y * devicePixelRatio, 1, 1).data].slice(0, 3), [x - box.x - 30, y - box.y - 8]);
  assert.ok(Math.hypot(r - pixel[0], g - pixel[1], b - pixel[2]) < 6, `${[r, g, b]} and ${pixel}`);
  await page.mouse.move(...(await at(9, 0.5)));
  assert.equal(await page.locator(".pointed .fn-name").innerText(), "set");
  await page.mouse.move(5, 5);
  assert.equal(await page.locator(".pointed").count(), 0);
  const before = await picture(page);
  await row.hover();
  await page.waitForTimeout(50);
  assert.notEqual(await picture(page), before);
  await row.getByRole("button").click();
  assert.match(await hash(), /fn=set/);
  assert.equal(await page.getByTestId("inspector").locator("h2").innerText(), "set");
  await close();
});

test("The inspector follows the pointer, a click pins, a double click zooms", async () => {
  const { page, close, at, hash, text } = await open(server, plain);
  const followed = () => text(".inspector h2");
  await page.mouse.move(...(await at(9, 0.5)));
  assert.equal(await followed(), "set");
  assert.match(await text("[data-testid=inspector-brief]"), /this frame\s+14\.65KiB 66\.67%/);
  await page.mouse.move(...(await at(8, 0.5)));
  assert.equal(await followed(), "call");
  assert.equal(await hash(), plain, "a look is no choice");
  await page.mouse.click(...(await at(9, 0.5)));
  assert.match(await hash(), /frame=_start;.*;set&fn=set/);
  await page.mouse.move(...(await at(3, 0.5)));
  assert.equal(await followed(), "set", "pinned");
  assert.doesNotMatch(await hash(), /zoom=/);
  await page.keyboard.press("Escape"); // the choice
  await page.mouse.move(...(await at(8, 0.4)));
  assert.equal(await followed(), "call");
  await page.mouse.dblclick(...(await at(8, 0.4)));
  assert.match(await hash(), /zoom=_start;.*;call&fn=call/);
  await close();
});

test("The wheel zooms where the pointer is, dragging moves, the map shows and moves the window", async () => {
  const { page, close, at, hash } = await open(server, plain);
  const tip = page.getByRole("tooltip").locator("b");
  const overview = page.getByTestId("map");
  assert.equal(await overview.count(), 0);
  await page.mouse.move(...(await at(2, 0.98)));
  assert.equal(await tip.innerText(), "worker");
  await page.mouse.wheel(0, -1200);
  await overview.waitFor();
  const part = async () => (await overview.locator("i").evaluate((i) => i.getBoundingClientRect().width)) / (await overview.boundingBox()).width;
  assert.ok((await part()) < 0.3);
  await page.mouse.move(...(await at(2, 0.5)));
  assert.equal(await tip.innerText(), "worker", "it fills the window now");
  const [x, y] = await at(2, 0.1);
  await page.mouse.move(x, y);
  await page.mouse.down();
  await page.mouse.move(x + 900, y, { steps: 5 });
  await page.mouse.up();
  await page.mouse.move(x + 20, y);
  assert.equal(await tip.innerText(), "__libc_start_main", "dragged to what lies left of it");
  assert.equal(await hash(), plain, "a drag is no click");
  const map = await overview.boundingBox();
  await page.mouse.click(map.x + map.width - 3, map.y + 10);
  await page.mouse.move(...(await at(2, 0.9)));
  assert.equal(await tip.innerText(), "worker");
  for (let i = 0; i < 4; ++i) await page.mouse.wheel(0, 1500);
  await overview.waitFor({ state: "detached" });
  await close();
});

test("The right button, Shift+F10 and the inspector of a frame: focus, show from, hide, copy name", async () => {
  const { page, close, at, hash, go } = await open(server, plain);
  await page.evaluate(() => Object.defineProperty(navigator, "clipboard", { value: { writeText: async (text) => (window.copied = text) } }));
  await page.mouse.click(...(await at(9, 0.5)), { button: "right" });
  const menu = page.getByRole("menu", { name: "set" });
  assert.deepEqual((await menu.getByRole("menuitem").allInnerTexts()).map((t) => t.split(/\s{2,}|\n/)[0].trim().replace(/ (Enter|\w)$/, "")), ["Zoom to it", "Focus", "Show from here", "Hide", "Highlight", "Callers & callees", "Source", "Copy name"]);
  await page.waitForFunction(() => document.activeElement.closest("[role=menu]") !== null);
  await page.keyboard.press("ArrowDown");
  await page.keyboard.press("Enter");
  assert.match(await hash(), /focus==set/);
  await menu.waitFor({ state: "detached" });
  await go(plain);
  await page.mouse.click(...(await at(9, 0.5)), { button: "right" });
  await page.keyboard.press("Escape");
  await page.getByRole("menu").waitFor({ state: "detached" });
  const unmarked = await picture(page);
  await page.mouse.click(...(await at(9, 0.5)));
  await page.mouse.move(5, 5);
  assert.notEqual(await picture(page), unmarked, "the box that was clicked is marked");
  assert.equal(await page.locator(".card, .menu, .tooltip").count(), 0, "nothing covers its callees");
  const actions = page.getByTestId("inspector").locator(".actions");
  await actions.getByRole("button", { name: "Copy name" }).click();
  assert.equal(await page.evaluate(() => window.copied), "set");
  await actions.getByRole("button", { name: "Hide" }).click();
  assert.match(await hash(), /hide==set/);
  await go(plain);
  await page.getByRole("tree", { name: "Flame graph" }).focus();
  await page.keyboard.press("ArrowDown");
  await page.keyboard.press("Shift+F10");
  await page.getByRole("menu", { name: "_start" }).waitFor();
  await close();
});

const long = (i) => `std::__detail::_Executor<std::map<std::string, std::vector<int>>, my_service::Handler${i}>::process(request const&, response*)`;
test("Names have the width in the list of functions, at any width; paths read from left to right; both orders", async () => {
  const samples = [...Array(30).keys()].map((i) => heap(["main", { name: long(i), file: `/home/build/my_service/src/handlers/of/requests/handler_${i}.cc`, line: 10 + i }], 1_000_000 + i * 1000));
  const file = report([{ samples }]);
  for (const width of [375, 720, 1024, 1152, 1440]) {
    const { page, close } = await open(file, "#view=functions&fold=0", { width, height: 800 });
    const shape = await page.getByTestId("functions").evaluate((table) => {
      const width = (element) => element.getBoundingClientRect().width;
      const cell = table.querySelector("tbody td.name");
      return { table: width(table), name: width(cell), text: width(cell.querySelector(".fn-name")), direction: [...table.querySelectorAll("td")].map((td) => getComputedStyle(td).direction) };
    });
    assert.ok(shape.name >= 0.42 * shape.table && shape.name >= 180, `${width}: ${JSON.stringify(shape)}`);
    assert.ok(shape.text >= 0.6 * shape.name, `${width}: ${JSON.stringify(shape)}`);
    assert.ok(shape.direction.every((direction) => direction === "ltr"));
    assert.equal(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), true, `${width}`);
    if (width === 1440) assert.match(await page.locator("td.where").first().innerText(), /^….*\/handler_29\.cc/);
    await close();
  }
  const { page, close, rows, hash } = await open(file, "#view=functions&fold=0");
  const self = page.getByTestId("functions").getByRole("button", { name: /^Self/ });
  const first = async () => (await rows("functions"))[0][4].split("\n")[0];
  assert.equal(await first(), long(29));
  await self.click();
  assert.equal(await first(), "main");
  assert.match(await hash(), /sort=-self/);
  assert.equal(await page.locator("th[aria-sort=ascending]").innerText(), "Self ↑");
  await close();
});

test("Random trees: every box of the folded graph has its frames, and no value is lost", async () => {
  const { page, close, at } = await open(report([{ samples: randomStacks(3000, 5, 60) }]));
  for (let i = 0; i < 12; ++i) {
    await page.mouse.move(...(await at(1 + (i % 9), 0.05 + 0.08 * i)));
    await page.mouse.wheel(0, i % 2 === 0 ? -700 : 400);
  }
  await page.keyboard.press("Escape");
  assert.equal(await page.getByRole("main").count(), 1);
  await close();
});

test("The call graph fits, is zoomed and moved, and is saved as a picture of all of it", async () => {
  const { page, close, hash } = await open(server, "#view=graph");
  const svg = page.locator("svg.graph");
  const scale = async () => Number(await svg.getAttribute("data-scale"));
  const inside = () => page.evaluate(() => {
    const frame = document.querySelector(".graph-frame").getBoundingClientRect();
    return [...document.querySelectorAll(".graph .node rect:first-of-type")].every((rect) => {
      const box = rect.getBoundingClientRect();
      return box.left >= frame.left - 1 && box.right <= frame.right + 1 && box.top >= frame.top - 1 && box.bottom <= frame.bottom + 1;
    });
  });
  assert.equal(await inside(), true);
  const fitted = await scale();
  await page.getByRole("button", { name: "Larger" }).click();
  assert.ok((await scale()) > fitted);
  const frame = await page.locator(".graph-frame").boundingBox();
  await page.mouse.move(frame.x + 30, frame.y + 30);
  await page.mouse.wheel(0, -900);
  await page.waitForFunction((before) => Number(document.querySelector("svg.graph").dataset.scale) > before, fitted * 2);
  assert.equal(await inside(), false);
  const view = await svg.getAttribute("viewBox");
  await page.mouse.down();
  await page.mouse.move(frame.x + 230, frame.y + 130, { steps: 3 });
  await page.mouse.up();
  assert.notEqual(await svg.getAttribute("viewBox"), view);
  assert.equal(await hash(), "#view=graph", "a drag is no click");
  const [got] = await Promise.all([page.waitForEvent("download"), page.getByRole("button", { name: "Save SVG" }).click()]);
  assert.match(got.suggestedFilename(), /^app.*\.svg$/);
  const text = readFileSync(await got.path(), "utf8");
  const root = await page.evaluate((source) => {
    const parsed = new DOMParser().parseFromString(source, "image/svg+xml").documentElement;
    return [parsed.tagName, parsed.getAttribute("viewBox"), parsed.querySelectorAll("text.title, text").length, parsed.querySelector("rect").getAttribute("fill")];
  }, text);
  assert.equal(root[0], "svg");
  assert.match(root[1], /^0 0 /);
  assert.ok(root[2] >= 12, `${root[2]} texts`);
  assert.match(root[3], /^rgb/);
  await page.getByRole("button", { name: "Fit" }).click();
  assert.equal(await inside(), true);
  await close();
});

test("Keys act on the frame under the cursor; without one on what was chosen", async () => {
  const { page, close, hash } = await open(server, `${plain}&fn=worker`);
  await page.getByRole("tree", { name: "Flame graph" }).focus();
  await page.keyboard.press("ArrowDown");
  await page.keyboard.press("ArrowDown");
  await page.keyboard.press("ArrowDown");
  await page.keyboard.press("f");
  assert.match(await hash(), /focus==main/);
  await page.keyboard.press("Backspace");
  await page.getByRole("tab", { name: "Flame graph" }).focus();
  await page.keyboard.press("x");
  assert.match(await hash(), /hide==worker/);
  await close();
});

test("Dialogs keep the focus and give it back; Esc closes whatever is open", async () => {
  const { page, close, at } = await open(server, plain);
  for (const [key, name] of [["?", "Keys and terms"], ["a", "About this profile"]]) {
    const button = page.getByRole("button", { name, exact: true });
    await button.focus();
    await page.keyboard.press(key);
    const dialog = page.getByRole("dialog", { name });
    await dialog.waitFor();
    for (let i = 0; i < 5; ++i) {
      await page.keyboard.press(i % 2 === 0 ? "Tab" : "Shift+Tab");
      assert.equal(await dialog.evaluate((element) => element.contains(document.activeElement)), true, `${name}, Tab ${i}`);
    }
    await page.keyboard.press("Escape");
    await dialog.waitFor({ state: "detached" });
    assert.equal(await button.evaluate((element) => element === document.activeElement), true);
  }
  await page.mouse.click(...(await at(9, 0.5)), { button: "right" });
  const menu = page.getByRole("menu", { name: "set" });
  await menu.waitFor();
  await page.keyboard.press("Escape");
  await menu.waitFor({ state: "detached" });
  await close();
  const missing = await open(server, "#fn=gone");
  await missing.page.keyboard.press("Escape");
  await missing.page.getByRole("alert").waitFor({ state: "detached" });
  await missing.close();
});

test("On a phone and on paper: graph and figures are there, nothing is cut off", async () => {
  const { page, close } = await open(server, "", { width: 375, height: 800 });
  assert.equal(await page.evaluate(() => document.documentElement.scrollWidth), 375);
  const graph = await page.getByRole("tree", { name: "Flame graph" }).boundingBox();
  assert.ok(graph.width > 340 && graph.height > 400, JSON.stringify(graph));
  assert.ok((await page.locator("header.head").boundingBox()).height < 130);
  await page.emulateMedia({ media: "print" });
  assert.equal(await page.locator(".tools").first().isVisible(), false);
  assert.equal(await page.getByTestId("beside").isVisible(), true);
  await close();
});
