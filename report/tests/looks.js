// Visual properties, measured in the page.

/** Texts whose contrast against their background is below `least`: ["tag.class: ratio", ...]. */
export const lowContrast = (page, least) =>
  page.evaluate((wanted) => {
    const channels = (color) => color.match(/[\d.]+/g).map(Number);
    const luminance = (color) => {
      const [red, green, blue] = channels(color)
        .slice(0, 3)
        .map((channel) => {
          const share = channel / 255;
          return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
        });
      return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
    };
    const background = (node) => {
      for (let at = node; at; at = at.parentElement) {
        const [red, green, blue, alpha = 1] = channels(getComputedStyle(at).backgroundColor);
        if (alpha === 1) return `rgb(${red}, ${green}, ${blue})`;
      }
      return getComputedStyle(document.documentElement).colorScheme === 'dark' ? 'rgb(0, 0, 0)' : 'rgb(255, 255, 255)';
    };
    const hasText = (node) => [...node.childNodes].some((child) => child.nodeType === 3 && child.data.trim() !== '');
    const found = [];
    let texts = 0;
    for (const node of document.querySelectorAll('body *')) {
      if (!hasText(node) || node.getClientRects().length === 0) continue;
      const style = getComputedStyle(node);
      const front = node instanceof SVGElement ? style.fill : style.color;
      const [light, dark] = [luminance(front), luminance(background(node))].sort((left, right) => right - left);
      texts += 1;
      const ratio = (light + 0.05) / (dark + 0.05);
      if (ratio < wanted)
        found.push(
          `${node.tagName}.${node.getAttribute('class')}: ${ratio.toFixed(2)} ${node.textContent.slice(0, 30)}`,
        );
    }
    return { texts, found };
  }, least);

/** By how many pixels the page exceeds the screen's width. */
export const overflow = (page) =>
  page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);

/** Labels in charts that the chart's edge cuts or that overlap another: ["chart: label", ...]. */
export const crowded = (page) =>
  page.evaluate(() => {
    const found = [];
    let labels = 0;
    const touch = (left, right) =>
      left.left < right.right - 1 &&
      right.left < left.right - 1 &&
      left.top < right.bottom - 1 &&
      right.top < left.bottom - 1;
    for (const place of document.querySelectorAll('.drawing')) {
      const edge = place.getBoundingClientRect();
      const texts = [...place.querySelectorAll('text')].filter((text) => text.textContent !== '');
      const boxes = texts.map((text) => text.getBoundingClientRect());
      // The box of a slanted text is larger than the text.
      const slanted = texts.map((text) => /rotate\((?!0\))/.test(text.getAttribute('transform') ?? ''));
      texts.forEach((text, index) => {
        labels += 1;
        const box = boxes[index];
        const out =
          box.left < edge.left - 1 ||
          box.right > edge.right + 1 ||
          box.top < edge.top - 1 ||
          box.bottom > edge.bottom + 1;
        const on = boxes.some(
          (other, position) => position < index && !slanted[index] && !slanted[position] && touch(box, other),
        );
        const chart = place.closest('section').id;
        if (out) found.push(`${chart}: ${text.textContent} is cut`);
        if (on) found.push(`${chart}: ${text.textContent} stands on another label`);
      });
    }
    return { labels, found };
  });
