// Feeds a live page: asks the server for the next moment once per pace, while the page is visible. The page keeps its data after
// the program has exited, after the server has stopped, or when another program has the PID.
import { parseReport, type Report } from "../../core/data";
import { Moments } from "../../core/moments";

export type LiveState = "starting" | "live" | "paused" | "gone" | "ended" | "other" | "refused";

export interface LiveStatus {
  state: LiveState;
  text: string; // in words
}

const leastPace = 1000; // milliseconds
const longestRetry = 30_000;

export class Live {
  readonly moments = new Moments();
  status: LiveStatus = { state: "starting", text: "Reading the program …" };
  private paused = false;
  private version = "";
  private pace = leastPace;
  private failures = 0;
  private due = 0; // when the next request may be sent, by performance.now()
  private timer = 0;
  private asking: AbortController | null = null;
  private receivedAt = 0;
  private readonly listeners = new Set<() => void>();

  /** `feed`: a path on the server. `onReport`: called for each new moment. */
  constructor(
    readonly feed: string,
    private readonly onReport: (report: Report) => void,
  ) {
    document.addEventListener("visibilitychange", () => this.follow());
    window.addEventListener("pageshow", () => this.follow());
  }

  /** "/p/4242/" */
  get base(): string {
    return this.feed.slice(0, this.feed.lastIndexOf("/") + 1);
  }

  get isPaused(): boolean {
    return this.paused;
  }
  get isOver(): boolean {
    return ["ended", "other"].includes(this.status.state);
  }

  /** Milliseconds since the last answer of the server. */
  get age(): number {
    return this.receivedAt === 0 ? 0 : performance.now() - this.receivedAt;
  }

  listen(listener: () => void): () => void {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  }

  pause(paused: boolean): void {
    this.paused = paused;
    if (!this.isOver) this.say(paused ? "paused" : "live", paused ? "Paused" : "Live");
    this.follow();
  }

  /** Asks without waiting for the next moment: the server has something new. */
  askNow(): void {
    this.due = 0;
    this.follow();
  }

  /** Asks, waits, or does nothing, depending on the current state. */
  follow(): void {
    clearTimeout(this.timer);
    if (this.paused || this.isOver || document.visibilityState !== "visible") {
      this.asking?.abort();
      this.asking = null;
      return;
    }
    if (this.asking !== null) return;
    const wait = this.due - performance.now();
    if (wait > 0) this.timer = window.setTimeout(() => this.follow(), wait);
    else void this.ask();
  }

  private async ask(): Promise<void> {
    const asking = (this.asking = new AbortController());
    const begin = performance.now();
    try {
      await this.take(await fetch(`${this.feed}?since=${this.version}`, { cache: "no-store", signal: asking.signal, redirect: "error" }), asking);
    } catch (error) {
      if (asking.signal.aborted) return;
      ++this.failures;
      const retry = Math.min(longestRetry, leastPace * 2 ** (this.failures - 1));
      this.due = performance.now() + retry;
      this.say("gone", `The server does not answer (${error instanceof TypeError ? "no connection" : String(error)}). The page shows ${this.moments.ms < 0 ? "nothing yet" : "the last answer"} and asks again every ${Math.round(retry / 1000)} s`);
    }
    if (this.asking !== asking) return;
    this.asking = null;
    if (this.failures === 0) this.due = Math.max(begin + this.pace, performance.now() + 50);
    this.follow();
  }

  private async take(answer: Response, asking: AbortController): Promise<void> {
    const bytes = answer.status === 200 ? new Uint8Array(await answer.arrayBuffer()) : null;
    if (asking.signal.aborted) return;
    if (answer.status === 404) return this.say("ended", "The program has exited. This is its last state");
    if (answer.status === 401 || answer.status === 403) throw new Error(`it requires a token, or refuses: ${answer.status}`);
    if (bytes === null && answer.status !== 204) throw new Error(`status ${answer.status}`);
    this.pace = Math.max(leastPace, Number(answer.headers.get("Holdfast-Pace")) || 0);
    const since = this.age;
    this.failures = 0;
    this.receivedAt = performance.now();
    if (bytes === null) {
      this.moments.repeat(Math.round(this.moments.ms + since));
    } else {
      const report = parseReport(bytes);
      const process = report.series[0]?.process ?? "";
      const ours = this.moments.process;
      if (ours !== "" && process !== "" && process !== ours) return this.say("other", "Another program has this PID now. This is the last state of the previous one; reload the page for the new one");
      this.version = answer.headers.get("Holdfast-Version") ?? "";
      this.moments.add(report);
    }
    this.say("live", this.pace > leastPace ? `Live, every ${(this.pace / 1000).toFixed(1)} s: reading the program takes that long` : "Live");
    if (this.moments.ms >= 0) this.onReport(this.moments.report());
  }

  private say(state: LiveState, text: string): void {
    this.status = { state, text };
    for (const listener of this.listeners) listener();
  }
}
