// Whether a media query applies, and draws again when that changes.
import { useEffect, useLayoutEffect, useMemo, useState } from "preact/hooks";

export function useMedia(query: string): boolean {
  const media = useMemo(() => window.matchMedia(query), [query]);
  const [matches, setMatches] = useState(media.matches);
  useEffect(() => {
    const change = () => setMatches(media.matches);
    change();
    media.addEventListener("change", change);
    return () => media.removeEventListener("change", change);
  }, [media]);
  return matches;
}

/** Whether the page is being printed. Draws again before the browser takes the page. */
export function usePrinted(): boolean {
  const [isPrinted, setPrinted] = useState(false);
  useLayoutEffect(() => {
    const [before, after] = [() => setPrinted(true), () => setPrinted(false)];
    window.addEventListener("beforeprint", before);
    window.addEventListener("afterprint", after);
    return () => {
      window.removeEventListener("beforeprint", before);
      window.removeEventListener("afterprint", after);
    };
  }, []);
  return isPrinted;
}
