// What is wrong with the page as it is shown now: texts that cover each other, leave their place or are hard to read.
(() => {
  const faults = [];
  const width = document.documentElement.clientWidth;
  const whole = document.documentElement.scrollWidth;
  if (whole > width) faults.push(`the page is ${whole} px wide`);

  const seen = (element) => element.getClientRects().length > 0 && getComputedStyle(element).visibility !== "hidden";
  const turned = (element) => /rotate\((-?[\d.]+)/.exec(element.getAttribute("transform") ?? "")?.[1] % 90;
  const boxesOf = (elements) =>
    elements.filter((one) => one.textContent.trim() && seen(one)).map((one) => [one.textContent, one.getBoundingClientRect()]);
  // Boxes are a little larger than what is written in them.
  const leaves = (a, box) => a.left < box.left - 3 || a.right > box.right + 3 || a.top < box.top - 3 || a.bottom > box.bottom + 3;
  const covers = (a, b) =>
    Math.min(a.right, b.right) - Math.max(a.left, b.left) > 1.5 && Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 3;
  const overlaps = (name, boxes) => boxes.forEach(([text, a], at) => boxes.slice(at + 1).forEach(([other, b]) => {
    if (covers(a, b)) faults.push(`${name}: "${text}" and "${other}" overlap`);
  }));

  let drawn = 0;
  for (const figure of [...document.querySelectorAll("figure")].filter(seen)) {
    const name = figure.getAttribute("aria-label");
    for (const plot of figure.querySelectorAll(".plot")) {
      drawn += 1;
      // The box of a slanted text is no measure of what it covers.
      const boxes = boxesOf([...plot.querySelectorAll("text")].filter((text) => !turned(text)));
      if (!plot.querySelector(".main-svg") || !boxes.length) faults.push(`${name}: a chart is not drawn`);
      for (const [text, box] of boxes) {
        if (leaves(box, plot.getBoundingClientRect())) faults.push(`${name}: "${text}" leaves its chart`);
      }
      overlaps(name, boxes);
    }
    const legend = boxesOf([...figure.querySelectorAll(".legend button, h4")]);
    for (const [text, box] of legend) {
      if (box.left < 0 || box.right > width) faults.push(`${name}: "${text}" leaves the page`);
    }
    overlaps(name, legend);
  }

  // A table is there as a whole; one of colours, or with too many columns for any screen, scrolls.
  for (const table of [...document.querySelectorAll("table, .grid-row > div")].filter(seen)) {
    const scrolls = table.closest(".scroll, .grid");
    const name = `table "${table.textContent.trim().slice(0, 40)}"`;
    if (!scrolls || !["auto", "scroll"].includes(getComputedStyle(scrolls).overflowX)) faults.push(`${name} cannot scroll`);
    else if (table.matches("table:not(.heat)") && scrolls.scrollWidth > scrolls.clientWidth + 1) {
      faults.push(`${name} is ${scrolls.scrollWidth} px wide in ${scrolls.clientWidth}`);
    }
    for (const cell of table.matches("table") ? table.querySelectorAll("th, td") : [table]) {
      if (seen(cell) && cell.scrollWidth > cell.clientWidth + 1) faults.push(`cut: ${cell.textContent.slice(0, 40)}`);
    }
  }

  // Contrast as WCAG 2.2 defines it.
  const linear = (c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
  const luminance = (colour) => {
    const [r, g, b] = colour.match(/[\d.]+/g).map((part) => linear(Number(part) / 255));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const ground = (element) => {
    for (let at = element; at; at = at.parentElement) {
      const colour = getComputedStyle(at).backgroundColor;
      if (!/, 0\)$|transparent/.test(colour)) return colour;
    }
    return "rgb(255, 255, 255)";
  };
  for (const element of document.querySelectorAll("p, td, th, li, dt, dd, h1, h2, h4, summary, pre, figcaption, small")) {
    if (!seen(element) || !element.textContent.trim()) continue;
    const [dark, light] = [luminance(getComputedStyle(element).color), luminance(ground(element))].sort((x, y) => x - y);
    if ((light + 0.05) / (dark + 0.05) < 4.5) faults.push(`hard to read: ${element.textContent.slice(0, 40)}`);
  }
  return { faults: [...new Set(faults)], drawn, dark: luminance(ground(document.body)) < 0.2 };
})()
