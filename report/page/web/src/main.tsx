// The entry point. The boot script has defined `holdfastInflate`, and the tool has put the data into the page.
import { render } from "preact";
import { parseReport, type Report } from "./core/data";
import { blankPage } from "./ui/live/keep";
import { Live } from "./ui/live/feed";
import { Model } from "./ui/model";
import { Root } from "./ui/app";

declare global {
  interface Window {
    holdfastBytes: (base64: string) => Uint8Array;
    holdfastInflate: (bytes: Uint8Array) => Promise<Uint8Array>;
    holdfastReady?: number; // when the page was drawn and interactive, for tests
  }
}

async function start(): Promise<void> {
  const feed = document.body.dataset["live"];
  if (feed !== undefined) return startLive(feed);
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

/** Waits for the first data before drawing: in a program that has just started, nothing may have been sampled yet. */
async function startLive(feed: string): Promise<void> {
  const blank = blankPage();
  const title = document.title.replace(/ · Holdfast$/, "");
  const app = document.getElementById("app")!;
  const starting = document.createElement("p");
  starting.className = "loading";
  starting.setAttribute("role", "status");
  starting.textContent = `${title} …`;
  app.replaceChildren(starting);
  let isDrawn = false;
  let take: (report: Report) => void = () => {};
  const live = new Live(feed, (report) => {
    if (isDrawn) return take(report);
    isDrawn = true;
    app.textContent = "";
    render(<Root model={new Model(report)} files={[]} title={title} live={{ live, blank, onReport: (listener) => (take = listener) }} />, app);
  });
  live.listen(() => {
    if (!isDrawn) starting.textContent = live.status.state === "live" ? `${title}: nothing has been sampled so far …` : live.status.text;
  });
  live.follow();
}

start().catch((error: unknown) => {
  document.getElementById("app")!.textContent = `This report cannot be shown: ${String(error)}`;
});
