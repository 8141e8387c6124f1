// Whether a media query applies, and draws again when that changes.
import { useEffect, useMemo, useState } from "preact/hooks";

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
