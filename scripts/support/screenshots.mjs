// node screenshots.mjs REPORTS IMAGES: takes the pictures for scripts/screenshots.
import { execFileSync, spawnSync } from "node:child_process";
import { existsSync, mkdtempSync, rmSync, statSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const [reports, images] = process.argv.slice(2);
const { heap, writeProfile } = await import(join(dirname(fileURLToPath(import.meta.url)), "../../tests/web/pprof.mjs"));
const require = createRequire(join(process.env.HOLDFAST_WEB, "package.json"));
const executablePath = ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"].find(existsSync);
const browser = await require("playwright-core").chromium.launch({ executablePath, args: process.getuid() === 0 ? ["--no-sandbox"] : [] });
const folder = mkdtempSync(join(tmpdir(), "holdfast-pictures-"));

function madeReport(profile) {
  const output = join(folder, "made.html");
  execFileSync(process.env.HOLDFAST_TOOL, ["html", "-o", output, writeProfile(join(folder, "app.42.0001.heap.pb.gz"), profile)], { stdio: "ignore" });
  return output;
}

const pictures = [];
/** Takes one picture. `act` brings the page into the state; `hover` is a place on the flame graph: depth, fraction of the width. */
async function picture(name, file, hash, { scheme = "light", width = 1280, height = 800, hover = null, seconds = 0 } = {}) {
  const context = await browser.newContext({ viewport: { width, height }, colorScheme: scheme, locale: "en-GB", timezoneId: "UTC" });
  const page = await context.newPage();
  await page.goto(`${file.startsWith("http") ? file : `file://${file}`}${hash}`);
  await page.waitForFunction(() => window.holdfastReady !== undefined);
  if (hover !== null) {
    const canvas = page.locator("[data-testid=flame-canvas]");
    const box = await canvas.boundingBox();
    await page.mouse.move(box.x + box.width * hover[1], box.y + (hover[0] + 0.5) * Number(await canvas.getAttribute("data-row")));
  }
  for (let i = 0; i < seconds; ++i) await page.waitForResponse((answer) => answer.url().includes("/live?"));
  await page.waitForTimeout(200);
  const path = join(images, `report-${name}.png`);
  await page.screenshot({ path });
  // A page has few colours: reduces the file to a third if ImageMagick is installed.
  spawnSync("convert", [path, "-dither", "None", "-colors", "160", `PNG8:${path}`], { stdio: "ignore" });
  pictures.push([path, statSync(path).size]);
  await context.close();
}

const named = (name) => join(reports, `${name}.html`);
// First, while the program is busy.
await picture("live", process.env.LIVE, "/#metric=heap/inuse_space&course=1&fold=1", { seconds: 12 });
await picture("flame", named("redis"), "#fold=1", { hover: [11, 0.35] });
await picture("locks", named("memcached"), "#metric=block/delay&view=locks", { scheme: "dark", height: 900 });
await picture("compare", named("compare"), "#fold=1", { hover: [9, 0.6] });
await picture("one-snapshot", named("one"), "#view=functions&fold=1");
await picture("one-frame", madeReport({ samples: [heap(["main"], 4096, 4)] }), "", { scheme: "dark" });
await picture("no-sample", madeReport({ interval: 524288, samples: [] }), "");

await browser.close();
rmSync(folder, { recursive: true });
for (const [path, bytes] of pictures) console.log(`${path}: ${Math.round(bytes / 1024)} KiB`);
