// A live page as a file that opens alone: the page as it came, with what has been seen so far in it, and without a server to ask.
import { encodeReport } from "../../core/encode";
import type { Report } from "../../core/data";

/** The document as it came, before anything was drawn into it. */
export function blankPage(): HTMLElement {
  const page = document.documentElement.cloneNode(true) as HTMLElement;
  // What the boot script has put there: it will do so again.
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

/** `address`: what the page shows when it is opened, as behind the # of its address. */
export async function keptPage(blank: HTMLElement, report: Report, address: string): Promise<string> {
  const page = blank.cloneNode(true) as HTMLElement;
  page.querySelector("#data")!.textContent = base64(await deflated(encodeReport(report)));
  page.querySelector("body")!.dataset["address"] = address.replace(/^#/, "");
  return `<!doctype html>\n${page.outerHTML}\n`;
}
