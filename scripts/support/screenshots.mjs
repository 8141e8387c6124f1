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

let made = 0;
function report(head, base = []) {
  const write = (profile) => writeProfile(join(folder, `app.42.${String(++made).padStart(4, "0")}.heap.pb.gz`), profile);
  const output = join(folder, `${++made}.html`);
  const files = head.map(write);
  execFileSync(process.env.HOLDFAST_TOOL, ["html", "-o", output, ...base.map(write).flatMap((file) => ["--base", file]), ...files], { stdio: "ignore" });
  return output;
}

const pictures = [];
/** One picture. `act` brings the page into the state; `hover` is a place on the flame graph: depth, part of the width. */
async function picture(name, file, hash, { scheme = "light", width = 1280, height = 800, hover = null } = {}) {
  const context = await browser.newContext({ viewport: { width, height }, colorScheme: scheme, locale: "en-GB", timezoneId: "UTC" });
  const page = await context.newPage();
  await page.goto(`file://${file}${hash}`);
  await page.waitForFunction(() => window.holdfastReady !== undefined);
  if (hover !== null) {
    const box = await page.locator("[data-testid=flame-canvas]").boundingBox();
    await page.mouse.move(box.x + box.width * hover[1], box.y + hover[0] * 20 + 10);
  }
  await page.waitForTimeout(200);
  const path = join(images, `report-${name}.png`);
  await page.screenshot({ path });
  // A page has few colours: a third of the size where ImageMagick is at hand.
  spawnSync("convert", [path, "-dither", "None", "-colors", "160", `PNG8:${path}`], { stdio: "ignore" });
  pictures.push([path, statSync(path).size]);
  await context.close();
}

const service = (scale) => {
  const rows = [
    [["main", "net::Server::Run()", "net::Connection::Read(char*, unsigned long)", "net::Buffer::Grow(unsigned long)"], 18, 400],
    [["main", "net::Server::Run()", "app::HandleRequest(net::Request const&)", "json::Parse(std::string_view)", "json::Object::Insert(std::string, json::Value)"], 42, 90_000],
    [["main", "net::Server::Run()", "app::HandleRequest(net::Request const&)", "cache::Put(std::string, std::shared_ptr<app::Entry>)", "cache::Shard::Insert(cache::Node*)"], 64, 30_000],
    [["main", "net::Server::Run()", "app::HandleRequest(net::Request const&)", "app::Render(app::Page const&)", "std::__cxx11::basic_string<char>::append(char const*)"], 9, 7000],
    [["main", "app::LoadConfig(char const*)", "json::Parse(std::string_view)", "json::Object::Insert(std::string, json::Value)"], 3, 6000],
  ];
  return rows.map(([stack, mib, objects], i) => heap(stack, Math.round(mib * 2 ** 20 * (scale[i] ?? 1)), Math.round(objects * (scale[i] ?? 1)), 1));
};

await picture("flame", join(reports, "redis.html"), "#fold=1", { hover: [11, 0.35] });
await picture("locks", join(reports, "memcached.html"), "#metric=block/delay&view=locks", { scheme: "dark", height: 900 });
await picture(
  "compare",
  report(
    [{ interval: 65536, samples: [...service([1, 1.6, 1.02, 1]).slice(0, 4), heap(["main", "app::LoadPlugins()", "plugin::Registry::Add(plugin::Plugin)"], 12 * 2 ** 20, 3000)] }],
    [{ interval: 65536, samples: service([1, 1, 1, 1, 8]) }],
  ),
  "",
  { hover: [3, 0.22] },
);
await picture("one-snapshot", report([{ interval: 65536, samples: service([]) }]), "#view=functions&fn=2");
await picture("one-frame", report([{ samples: [heap(["main"], 4096, 4)] }]), "", { scheme: "dark" });
await picture("no-sample", report([{ interval: 524288, samples: [] }]), "");

await browser.close();
rmSync(folder, { recursive: true });
for (const [path, bytes] of pictures) console.log(`${path}: ${Math.round(bytes / 1024)} KiB`);
