// `holdfast export --to speedscope`, as speedscope itself reads it: its own page, from npm, in a headless Chromium.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { dirname, join } from "node:path";
import { createRequire } from "node:module";
import { test } from "node:test";
import { browser, folder, tool } from "./browser.mjs";
import { writeProfile } from "./pprof.mjs";

const require = createRequire(join(process.env.HOLDFAST_WEB, "package.json"));
const index = join(dirname(require.resolve("speedscope/package.json")), "dist/release/index.html");

test("speedscope shows every metric, every function and its numbers", async () => {
  const profile = join(folder, "app.42.9001.heap.pb.gz");
  writeProfile(profile, {
    kind: "heap",
    samples: [
      { stack: ["main", "handle_request", { name: "parse_json", inlined: ["grow<int>"] }], values: [20, 2000, 4, 400] },
      { stack: ["main", "handle_request", "process_data"], values: [10, 500, 10, 500] },
    ],
  });
  const file = join(folder, "app.speedscope.json");
  execFileSync(tool, ["export", "--to", "speedscope", "--metric", "alloc_space", "-o", file, profile]);

  const page = await (await browser.newContext({ viewport: { width: 1200, height: 900 } })).newPage();
  page.setDefaultTimeout(20_000);
  const problems = [];
  page.on("pageerror", (error) => problems.push(error.message));
  await page.goto(`file://${index}`);
  await page.locator("input[type=file]").setInputFiles(file);
  await page.waitForFunction(() => document.body.innerText.includes("alloc_space (2/4)"));
  await page.keyboard.press("3"); // the table of functions
  await page.waitForFunction(() => document.body.innerText.includes("Symbol Name"));
  const text = (await page.evaluate(() => document.body.innerText)).replace(/\s+/g, " ");
  // Total, self and share, in speedscope's own words.
  for (const row of ["2.44 KB (100%) 0 B (<0.01%) main", "1.95 KB (80%) 0 B (<0.01%) parse_json", "1.95 KB (80%) 1.95 KB (80%) grow<int>", "500 B (20%) 500 B (20%) process_data"]) {
    assert.ok(text.includes(row), `${row} is not in ${text}`);
  }
  assert.deepEqual(problems, []);
});
