// Runs one long job in slices, so that the page stays responsive. Work that ends within the first slice is done at once, and is not
// visible as a job.
import type { Steps } from "../core/steps";

const slice = 40; // milliseconds

export class Work {
  private job = 0;
  private isRunning = false;
  constructor(private readonly tell: (isWorking: boolean) => void) {}

  /** Replaces a job that is still running. */
  start(steps: Steps<void>, done: () => void): void {
    const job = ++this.job;
    const go = () => {
      if (job !== this.job) return;
      for (const until = performance.now() + slice; performance.now() < until; ) {
        if (steps.next().done !== true) continue;
        if (this.isRunning) this.tell((this.isRunning = false));
        return done();
      }
      if (!this.isRunning) this.tell((this.isRunning = true));
      setTimeout(go);
    };
    go();
  }

  /** Returns whether there was something to stop. */
  stop(): boolean {
    if (!this.isRunning) return false;
    ++this.job;
    this.tell((this.isRunning = false));
    return true;
  }
}
