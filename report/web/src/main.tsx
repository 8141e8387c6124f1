// Begins: the boot script has put `holdfastInflate` there, the tool has put the data into the page.
import { render } from "preact";
import { parseReport } from "./core/data";
import { Model } from "./ui/model";
import { Root } from "./ui/app";

declare global {
  interface Window {
    holdfastBytes: (base64: string) => Uint8Array;
    holdfastInflate: (bytes: Uint8Array) => Promise<Uint8Array>;
    holdfastReady?: number; // when the page stood there and listened, for tests
  }
}

async function start(): Promise<void> {
  const element = document.getElementById("data")!;
  const bytes = await window.holdfastInflate(window.holdfastBytes(element.textContent!.trim()));
  element.remove();
  const model = new Model(parseReport(bytes));
  const files = [...document.querySelectorAll<HTMLScriptElement>('script[type="application/x-pprof"]')].map((script) => ({
    name: script.dataset["name"] ?? "profile.pb.gz",
    bytes: () => window.holdfastBytes(script.textContent!),
  }));
  const app = document.getElementById("app")!;
  app.textContent = "";
  render(<Root model={model} files={files} title={document.title.replace(/ · Holdfast$/, "")} />, app);
}

start().catch((error: unknown) => {
  document.getElementById("app")!.textContent = `This report cannot be shown: ${String(error)}`;
});
