// Real programs under the library, `holdfast serve` beside them, and pages of it in a real browser.
import assert from "node:assert/strict";
import { execFileSync, spawn } from "node:child_process";
import { mkdirSync, mkdtempSync, readdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { after } from "node:test";
import { browser, folder, tool } from "./browser.mjs";

const library = process.env.HOLDFAST_LIBRARY;
const programs = process.env.HOLDFAST_PROGRAMS;
const tables = mkdtempSync("/dev/shm/holdfast-live-");
const patience = Number(process.env.PATIENCE ?? 60_000); // milliseconds, on a busy machine
const running = new Set();
after(() => {
  for (const child of running) child.kill("SIGKILL");
  rmSync(tables, { recursive: true });
});

export const clean = Object.fromEntries(Object.entries(process.env).filter(([key]) => !key.startsWith("HOLDFAST_") && key !== "LD_PRELOAD"));

/** The next line of a stream that `wanted` matches. */
function lines(stream) {
  const all = [];
  const waiting = [];
  createInterface(stream).on("line", (line) => {
    all.push(line);
    for (const look of [...waiting]) look();
  });
  return (wanted) =>
    new Promise((resolve, reject) => {
      const timer = setTimeout(() => reject(new Error(`${wanted} was not said, but: ${all.join("\n")}`)), patience);
      const look = () => {
        const at = all.findIndex((line) => wanted.test(line));
        if (at < 0) return;
        clearTimeout(timer);
        waiting.splice(waiting.indexOf(look), 1);
        resolve(all.splice(0, at + 1).pop());
      };
      waiting.push(look);
      look();
    });
}

const ended = (child) => new Promise((resolve) => (child.exitCode !== null || child.signalCode !== null ? resolve() : child.once("exit", resolve)));

function start(command, options, output) {
  const child = spawn(command[0], command.slice(1), options);
  running.add(child);
  child.once("exit", () => running.delete(child));
  return { child, pid: child.pid, line: lines(child[output]), end: async (signal = "SIGTERM") => (child.kill(signal), ended(child)) };
}

let started = 0;
/** tests/programs/NAME under the library, every allocation and wait recorded. It has said "ready". */
export async function program(name = "live_steps", args = [], settings = {}) {
  const out = join(folder, `live.${++started}`);
  const own = join(tables, String(started)); // so that each server sees its own
  mkdirSync(own);
  const env = {
    ...clean, LD_PRELOAD: library, HOLDFAST_OUT: out, HOLDFAST_TABLES: own, HOLDFAST_EXPORTER: "no", HOLDFAST_HEAP_INTERVAL: "1", HOLDFAST_LOCK_INTERVAL: "1ns", HOLDFAST_SNAPSHOT_EVERY: "0",
    ...settings,
  };
  const path = name.startsWith("/") ? name : join(programs, name);
  const one = start([path, ...args], { env, cwd: folder, stdio: ["pipe", "pipe", "inherit"] }, "stdout");
  if (!name.startsWith("/")) await one.line(/^ready$/);
  let steps = 0;
  return {
    ...one,
    out,
    tables: env.HOLDFAST_TABLES,
    step: async (times = 1) => {
      for (let i = 0; i < times; ++i) {
        one.child.stdin.write("x\n");
        await one.line(new RegExp(`^done ${++steps}$`));
      }
    },
    deadlock: async () => {
      one.child.stdin.write("d\n");
      await one.line(/^stuck$/);
    },
    /** Ends by itself. */
    finish: async () => (one.child.stdin.end(), ended(one.child)),
  };
}

/** `holdfast serve` for programs of `program`. */
export async function serve(tablesOf, ...options) {
  const folders = [...new Set(tablesOf.map(({ tables }) => tables))].flatMap((path) => ["--tables", path]);
  const listen = options.includes("--listen") ? [] : ["--listen", "127.0.0.1:0"];
  const server = start([tool, "serve", ...listen, ...folders, ...options], { env: clean, stdio: ["ignore", "ignore", "pipe"] }, "stderr");
  const url = /(https?:\/\/\S+)/.exec(await server.line(/^listening on /))[1].replace(/\/$/, "");
  return { ...server, url };
}

/** The file of `holdfast dump` of a program, by kind. */
export function dump(one) {
  execFileSync(tool, ["dump", "--tables", one.tables, "-o", one.out, String(one.pid)], { env: clean, stdio: ["ignore", "ignore", "pipe"] });
  return (kind) => readdirSync(one.out).filter((file) => file.endsWith(`.${kind}.pb.gz`)).sort().map((file) => join(one.out, file)).pop();
}

/** A page of a server. `asked`: what it asked the feed for; `searched`: requests about holders; `tolerate`: what may stand on its console. */
export async function look(url, { colorScheme = "light", width = 1400, height = 1000, tolerate = /^$/, drawn = true, credentials = undefined } = {}) {
  const context = await browser.newContext({ viewport: { width, height }, colorScheme, acceptDownloads: true, locale: "en-GB", ...(credentials === undefined ? {} : { httpCredentials: credentials }) });
  const page = await context.newPage();
  page.setDefaultTimeout(patience);
  const problems = [];
  const asked = [];
  const searched = [];
  const problem = (text) => tolerate.test(text) || problems.push(text);
  page.on("console", (message) => problem(`console: ${message.text()}`));
  page.on("pageerror", (error) => problem(`error: ${error.message}`));
  const { origin } = new URL(url);
  page.on("request", (request) => {
    const to = request.url();
    if (/\/live\?/.test(to)) asked.push(to);
    else if (/\/p\/\d+\/holders$/.test(to)) searched.push(`${request.method()} ${to}`);
    else if (!drawn && (to === `${origin}/list.js` || to === page.url())) return; // a list keeps itself up to date
    else if (!to.startsWith("blob:") && !(to.startsWith(origin) && request.isNavigationRequest())) problem(`request: ${to}`);
  });
  await page.goto(url);
  if (drawn) await page.waitForFunction(() => window.holdfastReady !== undefined);
  const total = () => page.getByTestId("total").innerText();
  return {
    page,
    asked,
    searched,
    total,
    state: () => page.getByTestId("live-state").getAttribute("data-state"),
    hash: () => page.evaluate(() => decodeURIComponent(location.hash)),
    /** Until the page shows it. */
    until: (shows, argument) => page.waitForFunction(shows, argument, { timeout: patience }),
    untilTotal: (text) => page.waitForFunction((wanted) => document.querySelector("[data-testid=total]")?.innerText === wanted, text, { timeout: patience }),
    snapshots: async () => Number(/^\D*(\d+) snapshots/.exec(await page.locator(".timeline-text").innerText())?.[1] ?? 1),
    /** Waits for this number of further answers of the feed. */
    answers: async (count) => {
      for (let i = 0; i < count; ++i) await page.waitForResponse((response) => /\/live\?/.test(response.url()));
    },
    close: async () => {
      await context.close();
      assert.deepEqual(problems, []);
    },
  };
}
