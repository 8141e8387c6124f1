// Saves a live page as a self-contained file: the page as it was loaded, with the data so far, and without a server to ask.
import { encodeReport } from "../../core/encode";
import type { Report } from "../../core/data";

/** Returns the document as it was loaded, before anything was drawn. */
export function blankPage(): HTMLElement {
  const page = document.documentElement.cloneNode(true) as HTMLElement;
  // Remove what the boot script has added; it will add it again.
  page.querySelectorAll("head > style:not(:first-of-type), head > script").forEach((element) => element.remove());
  page.querySelector("body")!.removeAttribute("data-live");
  const policy = page.querySelector('meta[http-equiv="Content-Security-Policy"]')!;
  policy.setAttribute("content", policy.getAttribute("content")!.replace("connect-src 'self'; ", ""));
  return page;
}

async function deflated(bytes: Uint8Array): Promise<Uint8Array> {
  const stream = new Blob([bytes as BlobPart]).stream().pipeThrough(new CompressionStream("deflate-raw"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

function base64(bytes: Uint8Array): string {
  let text = "";
  for (let at = 0; at < bytes.length; at += 0x8000) text += String.fromCharCode(...bytes.subarray(at, at + 0x8000));
  return btoa(text);
}

/** `address`: the state to show when the file is opened, as after the # of its address. */
export async function keptPage(blank: HTMLElement, report: Report, address: string): Promise<string> {
  const page = blank.cloneNode(true) as HTMLElement;
  page.querySelector("#data")!.textContent = base64(await deflated(encodeReport(report)));
  page.querySelector("body")!.dataset["address"] = address.replace(/^#/, "");
  return `<!doctype html>\n${page.outerHTML}\n`;
}
