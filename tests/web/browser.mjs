// A headless Chromium for the tests of the HTML report: pages that fail their test when they say anything on the console
// or ask for anything but their own file.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after } from "node:test";
import { writeProfile } from "./pprof.mjs";

const require = createRequire(join(process.env.HOLDFAST_WEB, "package.json"));
export const axeSource = () => require("axe-core").source;
export const tool = process.env.HOLDFAST_TOOL;
export const core = await import(join(process.env.HOLDFAST_WEB, "core.mjs")); // how the page writes numbers

const executablePath = [process.env.HOLDFAST_CHROMIUM, "/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"].find(
  (path) => path && existsSync(path),
);
if (executablePath === undefined) {
  console.log("SKIP: no chromium here; apt-get install chromium, or HOLDFAST_CHROMIUM=PATH");
  process.exit(77);
}
// Its sandbox needs a user namespace, which root and containers do not have.
const args = process.getuid() === 0 ? ["--no-sandbox"] : [];
export const browser = await require("playwright-core").chromium.launch({ executablePath, args });
export const folder = mkdtempSync(join(tmpdir(), "holdfast-page-"));
after(async () => {
  await browser.close();
  rmSync(folder, { recursive: true });
});

let made = 0;
/** Profiles → the path of a report. `base`: profiles of the other side. */
export function report(profiles, { base = [], options = [] } = {}) {
  const write = (profile) => (typeof profile === "string" ? profile : writeProfile(join(folder, `app.42.${String(++made).padStart(4, "0")}.${profile.kind ?? "heap"}.pb.gz`), profile));
  const output = join(folder, `${++made}.html`);
  const files = profiles.map(write);
  execFileSync(tool, ["html", "-o", output, ...options, ...base.map(write).flatMap((file) => ["--base", file]), ...files], { stdio: ["ignore", "ignore", "pipe"] });
  return output;
}

// Pages that were closed without a problem, by their settings: a new one costs twice what a report does.
const idle = new Map();

async function newPage({ colorScheme, width, height }) {
  const context = await browser.newContext({ viewport: { width, height }, colorScheme, acceptDownloads: true, locale: "en-GB" });
  const page = await context.newPage();
  page.setDefaultTimeout(20_000);
  const taken = { page, file: "", problems: [] };
  const problem = (text) => taken.problems.push(text);
  page.on("console", (message) => problem(`console: ${message.text()}`));
  page.on("pageerror", (error) => problem(`error: ${error.message}`));
  page.on("dialog", (dialog) => (problem(`dialog: ${dialog.message()}`), dialog.dismiss()));
  page.on("request", (request) => {
    const url = request.url();
    if (!url.startsWith(`file://${taken.file}`) && !url.startsWith("blob:") && url !== "about:blank") problem(`request: ${url}`);
  });
  return taken;
}

/** `fresh`: in a page of its own, as a reader's first look. */
export async function open(file, hash = "", { colorScheme = "light", width = 1400, height = 1000, fresh = false } = {}) {
  const key = `${colorScheme} ${width} ${height}`;
  const taken = (fresh ? undefined : idle.get(key)?.pop()) ?? (await newPage({ colorScheme, width, height }));
  const { page } = taken;
  const problems = [];
  Object.assign(taken, { file, problems });
  await page.goto(`file://${file}${hash}`);
  await page.waitForFunction(() => window.holdfastReady !== undefined);
  return {
    page,
    problems,
    close: async () => {
      if (problems.length > 0 || fresh) {
        await page.context().close();
      } else {
        await page.evaluate(() => localStorage.clear());
        await page.emulateMedia({ media: null });
        await page.goto("about:blank");
        idle.set(key, [...(idle.get(key) ?? []), taken]);
      }
      assert.deepEqual(problems, []);
    },
    /** Another address of the same report, as from a link: nothing is loaded again. */
    go: async (address) => {
      await page.evaluate((text) => {
        location.hash = text;
        return new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
      }, address);
    },
    hash: () => page.evaluate(() => decodeURIComponent(location.hash)),
    text: (selector) => page.locator(selector).innerText(),
    total: () => page.getByTestId("total").innerText(),
    tab: (name) => page.getByRole("tab", { name, exact: true }).click(),
    /** Where a frame lies on the canvas: depth from the root, part of the width. */
    at: async (depth, part) => {
      const canvas = page.getByTestId("flame-canvas");
      const box = await canvas.boundingBox();
      const row = Number(await canvas.getAttribute("data-row"));
      return [box.x + box.width * part, box.y + (depth + 0.5) * row];
    },
    rows: (testId) =>
      page.getByTestId(testId).locator("tbody tr").evaluateAll((rows) => rows.map((row) => [...row.cells].map((cell) => cell.innerText.trim()))),
  };
}

/** The rows of `holdfast top`: [self, self %, total, total %, function], of waits for what somebody holds and for more [locks, self …]. */
export function top(metric, files, ...how) {
  const printed = (...options) => execFileSync(tool, ["top", "-n", "0", "--metric", metric, ...how, ...options, ...files], { encoding: "utf8" });
  const text = printed();
  const lines = text.split("\n");
  const begin = lines.findIndex((line) => /^\s*(locks\s+)?self\s+self%/.test(line)) + 1;
  const isPart = /^\s*locks/.test(lines[begin - 1]);
  assert.ok(begin > 0, text);
  const rows = lines.slice(begin).filter((line) => line !== "").map((line) => {
    const [, values, name] = (isPart ? /^\s*((?:\S+\s+){4}\S+) {2}(.*) {2}\(/ : /^\s*((?:\S+\s+){3}\S+) {2}(.*) {2}\(/).exec(line);
    return [...values.split(/\s+/), name];
  });
  assert.equal(JSON.parse(printed("--format", "json")).rows.length, rows.length);
  return { total: /^total\s+(\S+)/m.exec(text)[1], rows };
}
