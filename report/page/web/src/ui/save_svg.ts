// Saves the whole call graph as a file of its own, with the page's colours and fonts.
const properties = ["fill", "stroke", "stroke-width", "font-family", "font-size", "font-weight", "paint-order"];

export function svgText(svg: SVGSVGElement, whole: { width: number; height: number }): string {
  const copy = svg.cloneNode(true) as SVGSVGElement;
  const [from, to] = [svg.querySelectorAll("*"), copy.querySelectorAll("*")];
  from.forEach((element, i) => {
    const style = getComputedStyle(element);
    for (const property of properties) to[i]!.setAttribute(property, style.getPropertyValue(property));
    for (const name of ["class", "role", "tabindex"]) to[i]!.removeAttribute(name);
  });
  copy.setAttribute("xmlns", "http://www.w3.org/2000/svg");
  copy.setAttribute("viewBox", `0 0 ${whole.width} ${whole.height}`);
  copy.setAttribute("width", String(whole.width));
  copy.setAttribute("height", String(whole.height));
  const paper = document.createElementNS("http://www.w3.org/2000/svg", "rect");
  paper.setAttribute("width", "100%");
  paper.setAttribute("height", "100%");
  paper.setAttribute("fill", getComputedStyle(document.body).backgroundColor);
  copy.prepend(paper);
  return new XMLSerializer().serializeToString(copy);
}

export function saveSvg(svg: SVGSVGElement, whole: { width: number; height: number }, name: string): void {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([svgText(svg, whole)], { type: "image/svg+xml" }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}
