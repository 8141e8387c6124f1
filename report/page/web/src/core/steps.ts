// Long work in steps: a generator that pauses now and then, so that the page can draw, show progress and cancel. Work that takes
// less than a blink is completed at once.
export type Steps<T> = Generator<void, T, void>;

export const pauseMask = 0x7fff; // loops pause every 32,768 rounds: well below a millisecond

export function drain<T>(steps: Steps<T>): T {
  for (;;) {
    const { done, value } = steps.next();
    if (done === true) return value as T;
  }
}
