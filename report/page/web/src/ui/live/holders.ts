// Asks the server what holds the memory of the program: only when the viewer wants it, because the server then reads all of that
// memory. The answer becomes a part of the data that the feed brings.
import type { Live } from "./feed";

export interface HolderStatus {
  state: "none" | "running" | "done" | "failed";
  percent: number;
  message: string; // why it failed
  at: number; // when the newest complete search began, in milliseconds since 1970; 0: there is none
}

const pace = 300; // milliseconds between questions while a search runs

export class HolderSearch {
  status: HolderStatus = { state: "none", percent: 0, message: "", at: 0 };
  /** The viewer has asked, and the result has not been shown yet. */
  isWanted = false;
  private readonly listeners = new Set<() => void>();

  constructor(private readonly live: Live) {
    live.listen(() => live.isOver && this.status.state === "running" && this.say({ ...this.status, state: "failed", message: live.status.text }));
  }

  listen(listener: () => void): () => void {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  }

  start(): void {
    this.isWanted = true;
    void this.ask("POST");
  }

  private async ask(method: "GET" | "POST"): Promise<void> {
    this.say({ ...this.status, state: "running", ...(method === "POST" ? { percent: 0, message: "" } : {}) });
    try {
      const answer = await fetch(`${this.live.base}holders`, { method, cache: "no-store", redirect: "error" });
      if (!answer.ok) throw new Error(answer.status === 404 ? (await answer.text()).trim() : `status ${answer.status}`);
      const { state, percent, message, at_ms } = (await answer.json()) as { state: HolderStatus["state"]; percent: number; message: string; at_ms: number };
      this.say({ state, percent, message, at: at_ms });
      if (state === "running") window.setTimeout(() => void this.ask("GET"), pace);
      else if (state === "done") this.live.askNow();
    } catch (error) {
      this.say({ ...this.status, state: "failed", message: error instanceof TypeError ? "the server does not answer" : String(error instanceof Error ? error.message : error) });
    }
  }

  private say(status: HolderStatus): void {
    this.status = status;
    if (status.state === "failed") this.isWanted = false;
    for (const listener of this.listeners) listener();
  }
}
