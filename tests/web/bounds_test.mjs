// The HTML report's bounds: sizes of files, and the time until a page can be used and until it answers.
//
//   typical report, 3,000 nodes      ≤ 200 KB, interactive in 0.5 s
//   1,000,000 nodes                  ≤ 15 MB, interactive in 2.5 s; zoom, search and hover under 100 ms
//   code of the page                 ≤ 130 KB gzipped (build.mjs refuses more)
//
// Sizes are exact. Times are the best of several tries; as other tests run at the same time, they are held to their bounds, so
// many times, only where HOLDFAST_BOUNDS_FACTOR says so: by scripts/bench-views, on a quiet machine.
import assert from "node:assert/strict";
import { statSync } from "node:fs";
import { test } from "node:test";
import { open, report } from "./browser.mjs";
import { randomStacks } from "./pprof.mjs";

const factor = Number(process.env.HOLDFAST_BOUNDS_FACTOR ?? Infinity);
assert.ok(factor >= 1, "HOLDFAST_BOUNDS_FACTOR must be a number, 1 or more");
const said = (what, value, bound) => console.log(`${what}: ${value} (bound ${bound})`);

/** The best of some tries until one is good enough, each in a new page; the last one stays open. */
async function interactive(file, tries, enough) {
  let best = Infinity;
  let busy = Infinity; // of the page's process, all its threads: what other programs cannot make much longer
  for (let i = 1; ; ++i) {
    const opened = await open(file, "", { fresh: true });
    best = Math.min(best, await opened.page.evaluate(() => window.holdfastReady));
    const session = await opened.page.context().newCDPSession(opened.page);
    await session.send("Performance.enable");
    const { metrics } = await session.send("Performance.getMetrics");
    await session.detach();
    busy = Math.min(busy, 1000 * metrics.find(({ name }) => name === "ProcessTime").value);
    if (i === tries || best <= enough) return { best, busy, ...opened };
    await opened.close();
  }
}

/** Milliseconds from an event to the end of the frame that answers it, in the page; the best of some. */
async function answer(page, act) {
  const times = [];
  for (let i = 0; i < 5; ++i) times.push(await page.evaluate(`(${act})(${i})`));
  return Math.min(...times);
}

const settled = `const settled = () => new Promise((done) => requestAnimationFrame(() => setTimeout(done)));`;

test("A typical report of 3,000 nodes", async () => {
  const file = report([{ samples: randomStacks(3000, 7, 600), interval: 524288 }]);
  const size = statSync(file).size;
  const { best: ready, close } = await interactive(file, 6, 500 * factor);
  await close();
  said("3,000 nodes, bytes", size, 200_000);
  said("3,000 nodes, ms until interactive", Math.round(ready), 500);
  assert.ok(size <= 200_000);
  assert.ok(ready <= 500 * factor, `${ready} ms`);
});

test("1,000,000 nodes", async () => {
  const file = report([{ samples: randomStacks(1_000_000, 7, 20_000, 14), interval: 524288, level: 1 }], { options: ["--embed", "0"] });
  const size = statSync(file).size;
  const { best: ready, busy, page, close } = await interactive(file, 4, 2500 * factor);
  said("1,000,000 nodes, bytes", size, 15_000_000);
  said("1,000,000 nodes, ms until interactive", Math.round(ready), 2500);
  said("1,000,000 nodes, ms of processor time until then", Math.round(busy), 2500);
  assert.ok(size <= 15_000_000);
  assert.ok(ready <= 2500 * factor, `${ready} ms`);
  assert.ok(busy <= 2500 * (factor === Infinity ? factor : Math.min(factor, 1.5)), `${busy} ms of processor time`);

  const zoom = await answer(page, `async (i) => { ${settled}
    const canvas = document.querySelector("[data-testid=flame-canvas]"), box = canvas.getBoundingClientRect();
    const begin = performance.now();
    canvas.dispatchEvent(new MouseEvent("dblclick", { bubbles: true, clientX: box.left + box.width * (0.2 + i * 0.15), clientY: box.top + 70 }));
    await settled();
    return performance.now() - begin; }`);
  const hover = await answer(page, `async (i) => { ${settled}
    const canvas = document.querySelector("[data-testid=flame-canvas]"), box = canvas.getBoundingClientRect();
    const begin = performance.now();
    canvas.dispatchEvent(new PointerEvent("pointermove", { bubbles: true, clientX: box.left + box.width * (0.1 + i * 0.17), clientY: box.top + 90 }));
    await settled();
    return performance.now() - begin; }`);
  const search = await answer(page, `async (i) => { ${settled}
    const input = document.querySelector("input[type=search]");
    const begin = performance.now();
    input.value = "CopyThing" + i;
    input.dispatchEvent(new InputEvent("input", { bubbles: true }));
    await settled();
    return performance.now() - begin; }`);
  assert.match(await page.getByTestId("found").innerText(), /functions, .*%/);
  for (const [what, value] of Object.entries({ zoom, hover, search })) {
    said(`1,000,000 nodes, ms to ${what}`, Math.round(value), 100);
    assert.ok(value <= 100 * factor, `${what}: ${value} ms`);
  }
  // What takes longer shows that it works, answers meanwhile, and can be stopped.
  await page.getByRole("searchbox").fill("");
  await page.getByRole("searchbox").blur();
  const sortBySize = 'document.body.dispatchEvent(new KeyboardEvent("keydown", { key: "v", bubbles: true }))';
  // Pressed in the page itself: where a click comes through the browser the work may be over.
  const stopped = await page.evaluate(`new Promise((done) => {
    const look = () => {
      const button = document.querySelector(".working button");
      button?.click();
      if (button || location.hash.includes("byValue")) done(button !== null);
      else setTimeout(look);
    };
    ${sortBySize};
    look();
  })`);
  assert.ok(stopped, "sorting a million nodes can be stopped");
  await page.locator(".working").waitFor({ state: "detached" });
  assert.doesNotMatch(await page.evaluate(() => location.hash), /byValue/);
  const longest = await page.evaluate(`new Promise((done) => {
    let last = performance.now(), worst = 0, seen = false;
    const tick = () => {
      const now = performance.now();
      worst = Math.max(worst, now - last);
      last = now;
      if (document.querySelector(".working")) seen = true;
      if (seen && !document.querySelector(".working")) done(worst);
      else setTimeout(tick);
    };
    tick();
    ${sortBySize};
  })`);
  said("1,000,000 nodes, longest pause while sorting by size, ms", Math.round(longest), "none");
  assert.match(await page.evaluate(() => location.hash), /byValue=1/);
  await close();
});
