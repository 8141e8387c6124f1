// Computes values that take a pass over all stacks a moment later if there are very many stacks, so that clicks respond at once.
import { useEffect, useState } from "preact/hooks";
import type { App } from "./app_api";

export function useFigures<T>(app: App, key: string, compute: () => T): T | null {
  const large = app.model.report.parent.length > 50_000;
  const [known, setKnown] = useState<{ key: string; value: T } | null>(null);
  useEffect(() => {
    if (!large) return;
    const timer = setTimeout(() => setKnown({ key, value: compute() }), 120);
    return () => clearTimeout(timer);
  }, [key, large]);
  if (!large) return compute();
  return known !== null && known.key === key ? known.value : null;
}
