// Builds the page's template: node build.mjs [OUTPUT]. Also writes core.mjs beside the output: the core for unit tests.
//
// Style and code are deflated into one block, which a small boot script inflates. The policy in the head allows exactly these two
// by their hashes, and no request at all. {{…}} is filled in here, @@…@@ by `holdfast html`.
import { createHash } from "node:crypto";
import { readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";
import zopfli from "@gfx/zopfli";
import { build, transform } from "esbuild";

const here = dirname(fileURLToPath(import.meta.url));
const output = process.argv[2] ?? "template.html";
const maxGzipped = 130 * 1000;

const common = { bundle: true, absWorkingDir: here, write: false, logLevel: "warning", target: ["chrome103", "firefox113", "safari16.4"] };
const app = await build({ ...common, entryPoints: ["src/main.tsx"], format: "iife", minify: true, jsx: "automatic", jsxImportSource: "preact", legalComments: "none" });
const style = await build({ ...common, entryPoints: ["src/style.css"], minify: true });
const core = await build({ ...common, entryPoints: ["src/core/index.ts"], format: "esm", platform: "neutral" });
const boot = (await transform(readFileSync(join(here, "src/boot.js"), "utf8"), { minify: true, target: "es2015" })).code.trim();

// A separator that occurs in neither. The code must not end a script element.
const code = app.outputFiles[0].text.replaceAll("\u0000", "\\0").replaceAll("</script", "<\\/script");
const css = style.outputFiles[0].text;
const firstStyle = "html{color-scheme:light dark}body{margin:0;font:15px system-ui,sans-serif}.loading{margin:20vh auto;text-align:center;opacity:.6}";
const hash = (text) => `'sha256-${createHash("sha256").update(text).digest("base64")}'`;
const gzipped = gzipSync(code + css, { level: 9 }).length;
if (gzipped > maxGzipped) throw new Error(`the page's code is ${gzipped} bytes gzipped, more than ${maxGzipped}`);

// Four bytes as five of the 85 characters that mean nothing in markup or in the template: 6 % less than base64. The length comes first.
function base85(bytes) {
  const digits = Array.from({ length: 94 }, (_, i) => String.fromCharCode(33 + i)).filter((digit) => !"\"&'<>@\\`{".includes(digit));
  const padded = Buffer.concat([bytes, Buffer.alloc((4 - (bytes.length % 4)) % 4)]);
  let text = `${bytes.length} `;
  for (let i = 0; i < padded.length; i += 4) {
    let value = padded.readUInt32BE(i);
    let five = "";
    for (let k = 0; k < 5; ++k, value = Math.floor(value / 85)) five = digits[value % 85] + five;
    text += five;
  }
  return text;
}

// 3.5 % smaller than zlib's best, in one second of the build.
function deflated(text) {
  return new Promise((done, failed) =>
    zopfli.deflate(Buffer.from(text), { numiterations: 15 }, (error, bytes) => (error ? failed(error) : done(Buffer.from(bytes)))),
  );
}

const filled = {
  SCRIPT_HASHES: `${hash(boot)} ${hash(code)}`,
  STYLE_HASHES: `${hash(firstStyle)} ${hash(css)}`,
  FIRST_STYLE: firstStyle,
  BOOT: boot,
  CODE: base85(await deflated(`${css}\u0000${code}`)),
};
const template = readFileSync(join(here, "src/template.html"), "utf8").replace(/\{\{(\w+)\}\}/g, (_, name) => filled[name]);
writeFileSync(output, template);
writeFileSync(join(dirname(output), "core.mjs"), core.outputFiles[0].text);
console.log(`page: ${gzipped} bytes of code and style gzipped, template ${template.length} bytes`);
