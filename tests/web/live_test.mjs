// The live page of `holdfast serve`, of real programs in a real browser. Run by ctest with HOLDFAST_TOOL, HOLDFAST_LIBRARY, HOLDFAST_WEB
// and HOLDFAST_PROGRAMS set. Each wait is for an event.
import assert from "node:assert/strict";
import { execFileSync, spawnSync } from "node:child_process";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, test } from "node:test";
import { axeSource, core, folder, open, tool, top } from "./browser.mjs";
import { clean, dump, look, program, serve } from "./live.mjs";

const perStep = { objects: 100, kept: 10, bytes: 1000 };
const keptText = (steps) => core.formatValue(steps * perStep.kept * perStep.bytes, "bytes");
const own = "metric=heap/inuse_space&focus=%3Dstep_allocates"; // what is known of live_steps: not what libc allocates
const gone = /Failed to load resource/;
const serious = async (page) => {
  const found = await page.evaluate(() => window.axe.run(document, { resultTypes: ["violations"] }));
  return found.violations.filter(({ impact }) => impact === "serious" || impact === "critical").map((v) => `${v.id}: ${v.nodes[0].html} ${v.nodes[0].failureSummary}`);
};

// Side by side: each waits for seconds to pass.
describe("The live page", { concurrency: 4 }, () => {
test("The timeline grows and the graph follows; in the end all numbers are those of holdfast top of a dump", async () => {
  const one = await program();
  const server = await serve([one]);
  await one.step(3);
  const { page, close, untilTotal, until, snapshots, state } = await look(`${server.url}/#${own}`);
  assert.equal(await page.title(), `live_steps (pid ${one.pid}) · Holdfast`);
  await untilTotal(keptText(3));
  await one.step(4);
  await untilTotal(keptText(7));
  await until(() => /^\s*(\d+) snapshots/.exec(document.querySelector(".timeline-text")?.innerText ?? "")?.[1] >= 4);
  assert.ok((await snapshots()) >= 4);
  assert.equal(await state(), "live");
  const file = dump(one);
  // On a busy machine there is not always time for inlined functions.
  for (const kind of ["heap", "block", "mutex"]) execFileSync(tool, ["symbolize", file(kind)], { env: clean, stdio: "ignore" });
  for (const [metric, kind] of [["heap/inuse_space", "heap"], ["heap/alloc_objects", "heap"], ["block/delay", "block"], ["mutex/contentions", "mutex"]]) {
    const [, name] = metric.split("/");
    const printed = top(name, [file(kind)]);
    await page.evaluate((address) => (location.hash = address), `view=functions&fold=0&metric=${metric}`);
    await untilTotal(printed.total);
    await until((count) => document.querySelectorAll("[data-testid=functions] tbody tr").length === count, printed.rows.length);
    const shown = await page.getByTestId("functions").locator("tbody tr").evaluateAll((rows) => rows.map((row) => [...row.cells].map((cell) => cell.innerText.trim())));
    assert.equal(shown.length, printed.rows.length, `${metric} ${JSON.stringify([printed, shown.map((cells) => cells.slice(-2))])}`);
    for (const row of printed.rows) {
      const values = row.slice(-5, -1);
      const name = row[row.length - 1];
      assert.ok(shown.some((cells) => values.every((value) => cells.includes(value)) && cells.some((cell) => cell.includes(name.replace(/\(.*/, "")))), `${metric} ${row} in ${JSON.stringify(shown)}`);
    }
  }
  await close();
  await server.end();
  await one.finish();
});

test("A program that gets into a deadlock turns the panel red, with the functions and locks; it is said once", async () => {
  const one = await program();
  const server = await serve([one]);
  await one.step();
  const { page, close, until, answers } = await look(`${server.url}/p/${one.pid}/`);
  const panel = page.getByTestId("waiting-now");
  assert.equal(await page.getByTestId("deadlock").count(), 0);
  const plain = await panel.evaluate((element) => getComputedStyle(element).backgroundColor);
  await one.deadlock();
  await page.getByTestId("deadlock").waitFor();
  const text = (await page.getByTestId("deadlock").innerText()).replace(/\s+/g, " ");
  assert.match(text, /^Deadlock: 2 threads wait for each other, since /);
  assert.match(text, /holds first_mutex.*waits for second_mutex.* in takes_second/);
  assert.match(text, /holds second_mutex.*waits for first_mutex.* in takes_first/);
  const [red, green, blue] = (await panel.evaluate((element) => getComputedStyle(element).borderLeftColor)).match(/\d+/g).map(Number);
  assert.ok(red > 2 * green && red > 2 * blue, `${red} ${green} ${blue}`);
  assert.notEqual(await panel.evaluate((element) => getComputedStyle(element).backgroundColor), plain);
  // On top: above everything that the report says.
  const [at, below] = [await panel.boundingBox(), await page.locator(".summary").boundingBox()];
  assert.ok(at.y < below.y && at.y < 200, `${at.y} ${below.y}`);
  // Politely, and not again every second.
  const said = panel.locator("[aria-live=polite]");
  assert.match(await said.innerText(), /^Deadlock: .*takes|^Deadlock: .*first_mutex/);
  await said.evaluate((element) => {
    window.saidAgain = 0;
    new MutationObserver(() => ++window.saidAgain).observe(element, { childList: true, characterData: true, subtree: true });
  });
  const since = await page.getByTestId("deadlock").locator("p").innerText();
  await until((text) => document.querySelector("[data-testid=deadlock] p").innerText !== text, since); // time goes on
  await answers(1);
  assert.equal(await page.evaluate(() => window.saidAgain), 0);
  // As `holdfast stuck` says it.
  let stuck = "";
  try {
    execFileSync(tool, ["stuck", "--tables", one.tables, String(one.pid)], { env: clean, encoding: "utf8" });
  } catch (error) {
    stuck = error.stdout;
  }
  assert.match(stuck, /deadlock: 2 threads wait for each other/);
  for (const [, name] of stuck.matchAll(/T\d (\S+) \(tid/g)) assert.ok(text.includes(name), name);
  await close();
  await server.end();
  await one.end("SIGKILL");
});

test("A waiter is shown with the lock, its holder and the number of waiters behind the holder", async () => {
  const one = await program("stuck", ["holder"]);
  const server = await serve([one]);
  const { page, close } = await look(`${server.url}/#${own}`);
  const first = page.getByTestId("waiting-now").locator(".waited li").first();
  await first.waitFor();
  assert.match((await first.innerText()).replace(/\s+/g, " "), /^accounts_mutex.* mutex .*, 8 behind, held by T\d \S+.*: /);
  assert.match(await page.getByTestId("waiting-now").innerText(), /8 threads wait for locks, the longest for /);
  await close();
  await server.end();
  await one.end("SIGKILL");
});

test("What holds the memory is searched on request only, and is what holdfast holders says", async () => {
  const one = await program("held_memory", ["plant"]);
  const server = await serve([one]);
  const { page, close, until, searched, answers } = await look(`${server.url}/p/${one.pid}/`);
  await answers(1);
  assert.deepEqual(searched, []);
  assert.ok(!(await page.locator("body").innerText()).includes("Memory by holder"));
  await page.getByRole("button", { name: "Find holders" }).click();
  await page.locator("[data-testid=holders-state][data-state=done]").waitFor();
  await until(() => location.hash.includes("held_space"));
  assert.match(searched[0], /^POST /);
  assert.ok(searched.slice(1).every((request) => /^GET /.test(request)), searched.join("\n"));
  assert.match(await page.getByTestId("holders-state").innerText(), /^Holders as of \d\d:\d\d:\d\d$/);
  // The holder that retains most is the first row of the tool, which sums what several holders retain in the last one.
  const csv = execFileSync(tool, ["holders", "--tables", one.tables, "--format", "csv", "--depth", "1", String(one.pid)], { env: clean, encoding: "utf8" });
  const [, name, retained] = /^"((?:[^"]|"")*) \(held_memory\)",(\d+)/m.exec(csv);
  const summary = (await page.locator(".summary").innerText()).replace(/\s+/g, " ");
  assert.match(summary, /Biggest .* held by /i);
  assert.ok(summary.includes(name.replace("(anonymous namespace)::", "")), `${name} ${retained}: ${summary}`);
  // The result stays while the page lives on, and another search replaces it.
  await answers(2);
  // The page writes its address, too, at any time.
  await until(() => {
    if (!location.hash.includes("view=functions")) location.hash = "view=functions&metric=holders/held_space";
    return document.querySelector("[data-testid=functions]") !== null;
  });
  // Other variables may share what they hold with a pointer that was left somewhere.
  await page.getByTestId("functions").getByText("kept_large").first().waitFor();
  const again = page.waitForResponse((response) => response.request().method() === "POST");
  await page.getByRole("button", { name: "Find holders again" }).click();
  assert.equal((await again).status(), 202);
  await page.locator("[data-testid=holders-state][data-state=done]").waitFor();
  await until(() => /held_space/.test(decodeURIComponent(location.hash)));
  await close();
  await server.end();
  await one.end("SIGKILL");
});

test("A search for holders that cannot be done says why, and the page lives on", async () => {
  const one = await program("held_memory", ["plant"]);
  const server = await serve([one], "--scan-memory", "4KiB");
  const { page, close, answers } = await look(`${server.url}/p/${one.pid}/`);
  await page.getByRole("button", { name: "Find holders" }).click();
  await page.locator("[data-testid=holders-state][data-state=failed]").waitFor();
  assert.match(await page.getByTestId("holders-state").innerText(), /^Not found: .*--scan-memory/);
  await answers(1);
  assert.ok(await page.getByRole("button", { name: "Find holders" }).isEnabled());
  await close();
  await server.end();
  await one.end("SIGKILL");
});

test("Pause stops all questions, and so does a page that nobody sees", async () => {
  const one = await program();
  const server = await serve([one]);
  await one.step();
  const { page, close, asked, answers, state, untilTotal } = await look(`${server.url}/#${own}`);
  await untilTotal(keptText(1));
  await page.getByRole("button", { name: "Pause" }).click();
  assert.equal(await state(), "paused");
  const before = asked.length;
  await one.step(2);
  // Another page of the same program is fed three times meanwhile, once a second.
  const other = await look(`${server.url}/#${own}`);
  await other.answers(3);
  assert.equal(asked.length, before);
  await untilTotal(keptText(1));
  await page.getByRole("button", { name: "Resume" }).click();
  await untilTotal(keptText(3));
  // Every page is visible in Chromium without a window, so the test sets the state of a background tab.
  await page.evaluate(() => {
    Object.defineProperty(document, "visibilityState", { configurable: true, get: () => window.seen ?? "hidden" });
    document.dispatchEvent(new Event("visibilitychange"));
  });
  const hidden = asked.length;
  await one.step();
  await other.answers(3);
  assert.equal(asked.length, hidden);
  await page.evaluate(() => {
    window.seen = "visible";
    document.dispatchEvent(new Event("visibilitychange"));
  });
  await answers(1);
  await untilTotal(keptText(4));
  await close();
  await other.close();
  await server.end();
  await one.finish();
});

test("Compare with a moment ago: every view shows what has changed since, and it grows", async () => {
  const one = await program();
  const server = await serve([one]);
  await one.step(2);
  const { page, close, untilTotal, until } = await look(`${server.url}/#${own}&view=functions`);
  await untilTotal(keptText(2));
  await until(() => !document.evaluate("//button[text()='Compare with a moment ago']", document).iterateNext().disabled);
  await page.getByRole("button", { name: "Compare with a moment ago" }).click();
  await until(() => /compare=time/.test(location.hash));
  const change = () => page.locator(".findings li", { hasText: "Change" }).innerText();
  for (const steps of [1, 3]) {
    await one.step(steps);
    const grown = core.formatSigned((steps === 1 ? 1 : 4) * perStep.kept * perStep.bytes, "bytes");
    await until((text) => [...document.querySelectorAll(".findings li")].some((item) => item.innerText.includes(text)), grown);
    assert.match(await change(), new RegExp(`from ${keptText(2)} to ${keptText(2 + (steps === 1 ? 1 : 4))}`.replace(/\./g, "\\.")));
  }
  await page.getByRole("tab", { name: "Compare" }).click();
  const row = page.getByTestId("compare-table").locator("tr[data-fn=step_allocates]");
  assert.match(await row.innerText(), new RegExp(`${keptText(2)}\\s+${keptText(6)}\\s+\\+${core.formatValue(40_000, "bytes")}`.replace(/\./g, "\\.")));
  // Another base; and an end of it.
  assert.ok((await page.getByTestId("live-base").locator("option").count()) >= 2);
  await page.getByRole("button", { name: "Stop comparing" }).click();
  await until(() => !/compare=time/.test(location.hash));
  await close();
  await server.end();
  await one.finish();
});

test("Leaks: what holdfast leaks says of the snapshots that are written", async () => {
  const one = await program();
  const server = await serve([one]);
  const { page, close, until } = await look(`${server.url}/#view=leaks`);
  await until(() => document.body.innerText.includes("at least four"));
  for (let i = 0; i < 4; ++i) {
    await one.step();
    dump(one);
  }
  await until(() => document.querySelector("[data-testid=leaks]") !== null);
  // It has been idle since, and its table says so: both come to the same answer.
  const answer = () => /^answer +(.*)$/m.exec(spawnSync(tool, ["leaks", "--kind", "heap", one.out], { encoding: "utf8" }).stdout)[1];
  await until(() => document.querySelector(".lead").innerText.includes("level: "));
  while (!answer().startsWith("level: ")) await page.waitForTimeout(100);
  assert.match(await page.locator("[aria-label=Leaks]").innerText(), /5 snapshots over/);
  await close();
  await server.end();
  await one.finish();
});

test("Kept as a file it opens alone, where it was, with the same numbers and the same course", async () => {
  const one = await program();
  const server = await serve([one]);
  await one.step(2);
  const live = await look(`${server.url}/#view=functions&metric=heap/alloc_space&focus=%3Dstep_allocates`);
  const { page } = live;
  await one.step();
  await live.untilTotal(core.formatValue(3 * perStep.objects * perStep.bytes, "bytes"));
  await live.until(() => /^\s*(\d+) snapshots/.exec(document.querySelector(".timeline-text")?.innerText ?? "")?.[1] >= 3);
  await page.getByRole("button", { name: "Pause" }).click();
  const table = (of) => of.getByTestId("functions").locator("tbody tr").allInnerTexts();
  const wanted = { total: await live.total(), rows: await table(page), moments: await live.snapshots(), title: await page.title() };
  const [download] = await Promise.all([page.waitForEvent("download"), page.getByRole("button", { name: "Save as a file" }).click()]);
  assert.match(download.suggestedFilename(), /^live_steps_pid_\d+_\.\d{4}-\d\d-\d\dT[\d-]+\.html$/);
  const kept = join(folder, "kept.html");
  await download.saveAs(kept);
  await live.close();
  await server.end();
  await one.finish();

  const alone = await open(kept); // fails where it asks for anything
  assert.deepEqual({ total: await alone.total(), rows: await table(alone.page), moments: Number(/(\d+) snapshots/.exec(await alone.text(".timeline-text"))[1]), title: await alone.page.title() }, wanted);
  assert.equal(await alone.page.getByTestId("live-state").count(), 0);
  const policy = await alone.page.locator("meta[http-equiv=Content-Security-Policy]").getAttribute("content");
  assert.match(policy, /^default-src 'none'; script-src /);
  assert.doesNotMatch(policy, /connect-src/);
  await alone.page.evaluate(() => (location.hash = "view=locks&metric=block/delay"));
  await alone.page.getByText("step_waits").first().waitFor();
  await alone.close();
});

test("Of several programs there is a list, and a page of each with what is its own", async () => {
  const [one, two] = [await program(), await program()];
  const server = await serve([one, two]);
  await one.step(1);
  await two.step(5);
  const list = await look(server.url, { drawn: false, width: 375 });
  const listed = () => list.page.locator("tbody tr").evaluateAll((rows) => rows.map((row) => [row.querySelector("a.program").getAttribute("href"), row.cells[3].innerText, row.cells[4].innerText]));
  const linkTo = ({ pid }) => `/p/${pid}/`;
  const ls = (...options) => [...execFileSync(tool, ["ls", "--tables", one.tables, "--tables", two.tables, ...options], { env: clean, encoding: "utf8" }).matchAll(/^ *(\d+) +running.*?([\d.]+[KM]iB)/gm)].map(([, pid, inUse]) => [`/p/${pid}/`, inUse]);
  assert.deepEqual((await listed()).map(([href, inUse]) => [href, inUse]), ls(), "as holdfast ls has them");
  assert.deepEqual((await listed()).map(([href]) => href), [two, one].map(linkTo), "the largest first");
  await list.page.getByRole("link", { name: "PID" }).click();
  assert.deepEqual((await listed()).map(([href]) => href), [one, two].map(linkTo).sort((a, b) => a.localeCompare(b, "en", { numeric: true })));
  assert.equal(await list.page.locator("th[aria-sort=ascending]").innerText(), "PID ↑");
  // It is read again by itself, and the focus stays.
  const before = (await listed()).find(([href]) => href === linkTo(one))[1];
  await list.page.locator(`a.program[href="${linkTo(one)}"]`).focus();
  await one.step(4);
  await list.page.waitForFunction(([href, text]) => [...document.querySelectorAll("tbody tr")].some((row) => row.querySelector(`a[href="${href}"]`) && row.cells[3].innerText !== text), [linkTo(one), before]);
  assert.equal(await list.page.evaluate(() => document.activeElement.getAttribute("href")), linkTo(one));
  assert.ok(await list.page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), "at 375 px nothing is cut off");
  await list.page.evaluate(() => history.replaceState(null, "", "/"));
  await list.page.locator(`a.program[href="/p/${two.pid}/"]`).click();
  await list.page.waitForFunction(() => window.holdfastReady !== undefined);
  await list.page.evaluate(() => (location.hash = "metric=heap/inuse_space&focus=%3Dstep_allocates"));
  await list.untilTotal(keptText(5));
  await list.page.goBack();
  await list.page.goBack();
  await list.page.locator(`a.program[href="/p/${one.pid}/"]`).waitFor();
  await list.page.goto(`${server.url}/p/${one.pid}`); // without the slash
  assert.equal(new URL(list.page.url()).pathname, `/p/${one.pid}/`);
  await list.page.waitForFunction(() => window.holdfastReady !== undefined);
  await list.page.evaluate(() => (location.hash = "metric=heap/inuse_space&focus=%3Dstep_allocates"));
  await list.untilTotal(keptText(5));
  await list.close();
  await server.end();
  await one.finish();
  await two.finish();
});

test("The end of the program is said, and what was seen last stays; it can still be kept", async () => {
  const one = await program();
  const server = await serve([one]);
  await one.step(2);
  const { page, close, untilTotal, asked, until } = await look(`${server.url}/p/${one.pid}/#${own}`, { tolerate: gone });
  await untilTotal(keptText(2));
  await one.finish();
  await until(() => document.querySelector("[data-testid=live-state]").dataset.state === "ended");
  assert.match(await page.getByTestId("live-state").innerText(), /The program has exited/);
  await untilTotal(keptText(2));
  assert.equal(await page.getByRole("button", { name: "Pause" }).isDisabled(), true);
  const before = asked.length;
  const [download] = await Promise.all([page.waitForEvent("download"), page.getByRole("button", { name: "Save as a file" }).click()]);
  assert.match(download.suggestedFilename(), /\.html$/);
  assert.equal(asked.length, before, "it is not asked any more");
  await close();
  await server.end();
});

test("A server that has gone is said, and asked again; restarted, the same page goes on", async () => {
  const one = await program();
  let server = await serve([one]);
  await one.step();
  const { page, close, untilTotal, until, snapshots } = await look(`${server.url}/p/${one.pid}/#${own}`, { tolerate: gone });
  await untilTotal(keptText(1));
  const port = new URL(server.url).port;
  await server.end();
  await until(() => document.querySelector("[data-testid=live-state]").dataset.state === "gone");
  assert.match(await page.getByTestId("live-state").innerText(), /does not answer/);
  await untilTotal(keptText(1));
  await one.step();
  server = await serve([one], "--listen", `127.0.0.1:${port}`);
  await untilTotal(keptText(2));
  await until(() => document.querySelector("[data-testid=live-state]").dataset.state === "live");
  assert.ok((await snapshots()) >= 2, "with what was seen before");
  await close();
  await server.end();
  await one.finish();
});

test("A PID that another program has by now is not mistaken for the one before", async () => {
  const script = join(folder, "becomes.sh");
  writeFileSync(script, `head -n 1 >/dev/null\nexec ${join(process.env.HOLDFAST_PROGRAMS, "live_steps")}\n`);
  const one = await program("/bin/bash", [script]);
  const server = await serve([one]);
  const { page, close, until } = await look(`${server.url}/p/${one.pid}/#${own}`, { tolerate: gone });
  const before = await page.getByTestId("total").innerText();
  one.child.stdin.write("go\n");
  await one.line(/^ready$/);
  await one.step(3);
  await until(() => ["other", "ended"].includes(document.querySelector("[data-testid=live-state]").dataset.state));
  assert.equal(await page.getByTestId("total").innerText(), before);
  await close();
  await server.end();
  await one.finish();
});

test("What the reader has chosen stays when moments come: function, zoom, filters, metric, the window and the scroll", async () => {
  const one = await program();
  const server = await serve([one]);
  await one.step();
  const chosen = "#metric=block/delay&search=step&zoom=main&fn=main&view=flame&top=0";
  const { page, close, answers, until, hash } = await look(`${server.url}/${chosen}`, { height: 500 });
  const shown = () => page.getByRole("group", { name: "Details" }).locator("h2, h3").first().innerText();
  const name = await shown();
  await one.step();
  await answers(2);
  assert.equal(await shown(), name);
  assert.equal(await hash(), chosen);
  // New functions come, so that every number of a function is another one.
  await one.deadlock();
  await page.getByTestId("deadlock").waitFor();
  assert.equal(await hash(), chosen);
  assert.equal(await shown(), name);
  assert.equal(await page.getByRole("searchbox").inputValue(), "step");
  // A tree that was opened stays open, and the table where it was.
  await page.evaluate(() => (location.hash = "view=topdown&metric=heap/alloc_space"));
  const table = page.getByRole("treegrid");
  await table.waitFor();
  await until(() => document.querySelectorAll("[role=treegrid] tbody tr").length > 1);
  const row = table.locator("tbody tr[aria-expanded=true]").last();
  await row.locator("button").first().click();
  const count = await table.locator("tbody tr").count();
  await page.evaluate(() => (document.querySelector(".view.scroll").scrollTop = 30));
  const scrolled = await page.evaluate(() => document.querySelector(".view.scroll").scrollTop);
  await one.step();
  await answers(2);
  assert.equal(await table.locator("tbody tr").count(), count);
  assert.equal(await page.evaluate(() => document.querySelector(".view.scroll").scrollTop), scrolled);
  await close();
  await server.end();
  await one.end("SIGKILL");
});

test("The flame graph's window and open menu stay under the reader's hand", async () => {
  const one = await program();
  const server = await serve([one]);
  await one.step();
  const { page, close, answers } = await look(`${server.url}/#metric=heap/alloc_space&fold=0&top=0&runs=0`);
  const canvas = page.getByTestId("flame-canvas");
  const at = async () => {
    const box = await canvas.boundingBox();
    return [box.x + box.width * 0.5, box.y + 50];
  };
  await page.mouse.move(...(await at()));
  await page.mouse.wheel(0, -300); // closer
  const map = page.getByTestId("map").locator("i");
  await map.waitFor();
  const window = () => map.evaluate((element) => [element.style.left, element.style.width]);
  const before = await window();
  await page.mouse.click(...(await at()), { button: "right" });
  const menu = page.getByRole("menu");
  await menu.waitFor();
  const text = await menu.innerText();
  await one.step(5);
  await answers(2);
  assert.equal(await menu.isVisible(), true);
  assert.equal(await menu.innerText(), text);
  assert.deepEqual((await window()).map(Number.parseFloat).map(Math.round), before.map(Number.parseFloat).map(Math.round));
  await close();
  await server.end();
  await one.finish();
});

test("The profiles as they are now can be downloaded for pprof", async () => {
  const one = await program();
  const server = await serve([one]);
  await one.step(2);
  const { page, close, untilTotal } = await look(`${server.url}/#${own}`, { tolerate: /debug\/pprof\/heap/ });
  await untilTotal(keptText(2));
  await page.getByRole("button", { name: "Download the pprof" }).click();
  const [download] = await Promise.all([page.waitForEvent("download"), page.getByRole("dialog").getByRole("link", { name: "Memory", exact: true }).click()]);
  const file = join(folder, "now.heap.pb.gz");
  await download.saveAs(file);
  assert.ok(top("inuse_space", [file]).rows.some((row) => row[0] === keptText(2) && /^step_allocates/.test(row.at(-1))));
  await close();
  await server.end();
  await one.finish();
});

test("With a token the page and its feed work for who has it", async () => {
  const one = await program();
  const token = "0123456789abcdef0123";
  const tokenFile = join(folder, "token");
  writeFileSync(tokenFile, `${token}\n`, { mode: 0o600 });
  const server = await serve([one], "--token-file", tokenFile);
  await one.step();
  const { close, untilTotal } = await look(`${server.url}/#${own}`, { credentials: { username: "any", password: token }, tolerate: gone });
  await untilTotal(keptText(1));
  await close();
  await server.end();
  await one.finish();
});

test("axe finds nothing serious, in light and dark, wide and on a phone, with a deadlock on it; nothing is cut off", async () => {
  const [one, plain] = [await program(), await program()];
  const server = await serve([one, plain]);
  await one.step();
  await plain.step();
  await one.deadlock();
  for (const [colorScheme, width] of [["light", 375], ["dark", 1400]]) {
    const { page, close } = await look(`${server.url}/p/${one.pid}/`, { colorScheme, width });
    await page.getByTestId("deadlock").waitFor();
    await page.evaluate(axeSource());
    assert.deepEqual(await serious(page), [], `${colorScheme} ${width}`);
    await page.emulateMedia({ colorScheme: colorScheme === "light" ? "dark" : "light" });
    assert.deepEqual(await serious(page), [], `the other colours ${width}`);
    assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), `${width}`);
    await close();
    const list = await look(`${server.url}/?sort=waits`, { colorScheme, width, drawn: false });
    assert.match(await list.page.locator("tbody tr").first().innerText(), /1 deadlock, \d/);
    await list.page.evaluate(axeSource());
    assert.deepEqual(await serious(list.page), [], `list ${colorScheme} ${width}`);
    await list.close();
  }
  await server.end();
  await one.end("SIGKILL");
  await plain.finish();
});
});
