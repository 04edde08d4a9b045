// Shared by all charts. A chart is drawn as wide as its place, once the width is known and again when it changes. It
// has a name for screen readers. One legend distinguishes the lines by colour, symbol and dash.

import * as Plot from '@observablehq/plot';

import { element, svg } from './dom.js';

const symbols = ['circle', 'square', 'triangle', 'diamond', 'star', 'wye'];
const dashes = ['', '6 3', '2 3', '9 3 2 3', '12 4', '4 4 1 4'];

/** Number of looks that differ by colour. Further looks reuse a colour, with hollow symbols and other dashes. */
export const looks = symbols.length;

/** A look by its index: one per datasheet in all charts, or one per line of a chart with several lines. */
export function look(index) {
  const round = Math.floor(index / looks);
  return {
    color: `var(--series-${(index % looks) + 1})`,
    symbol: symbols[(index + Math.floor(round / 2)) % looks],
    dash: dashes[(index + round) % looks],
    hollow: round % 2 === 1,
  };
}

/** The fill and outline of a look's symbol. */
export const symbolStyle = ({ color, hollow }) => ({
  fill: hollow ? 'var(--surface)' : color,
  stroke: color,
  'stroke-width': hollow ? 1.75 : 0.5,
});

/** Draws with Plot, in the page's colours and letters. */
export function plot(options, label) {
  const drawing = Plot.plot({
    ...options,
    style: { fontSize: '12px', fontFamily: 'inherit', background: 'transparent', overflow: 'visible' },
  });
  drawing.setAttribute('role', 'img');
  drawing.setAttribute('aria-label', label);
  return drawing;
}

/**
 * The axis below a chart. Ticks are a number of ticks or a list of values. Each listed value gets its label; without a
 * list, a logarithmic axis would leave some without.
 */
export function valueAxis(ticks, text, label) {
  const style = { label, labelOffset: 40 };
  return Array.isArray(ticks)
    ? Plot.axisX(ticks, { ...style, text })
    : Plot.axisX({ ...style, ticks, tickFormat: text });
}

/** A figure: its heading, what `draw(width)` returns, its legend and a note. */
export function figure({ title, kind, label, draw, legend, note }) {
  const place = element('div', { class: 'drawing' });
  let drawnAt = 0;
  new ResizeObserver(() => {
    const width = Math.floor(place.clientWidth);
    if (width === 0 || width === drawnAt) return;
    drawnAt = width;
    place.replaceChildren(plot({ width, ...draw(width) }, label));
  }).observe(place);
  return element(
    'figure',
    { class: 'chart', 'data-chart': kind },
    element('figcaption', {}, title),
    legend,
    place,
    note && element('p', { class: 'note' }, note),
  );
}

function symbolPath(name) {
  const shapes = {
    circle: () => svg('circle', { r: 4.5 }),
    square: () => svg('rect', { x: -4, y: -4, width: 8, height: 8 }),
    triangle: () => svg('path', { d: 'M0,-5.5L5,3.5H-5Z' }),
    diamond: () => svg('path', { d: 'M0,-6L4,0L0,6L-4,0Z' }),
    star: () => svg('path', { d: 'M0,-6L1.5,-2L6,-2L2.3,0.8L3.6,5L0,2.4L-3.6,5L-2.3,0.8L-6,-2L-1.5,-2Z' }),
    wye: () => svg('path', { d: 'M-1.7,1L-5,-1L-3.3,-4L0,-2L3.3,-4L5,-1L1.7,1V5H-1.7Z' }),
  };
  return shapes[name]();
}

function key(index, shape) {
  const { color, symbol, dash } = look(index);
  const bar = shape === 'bar';
  return svg(
    'svg',
    { class: 'key', width: 34, height: 14, viewBox: '-17 -7 34 14', 'aria-hidden': 'true' },
    bar
      ? svg('rect', { x: -17, y: -7, width: 16, height: 14, fill: color })
      : svg('line', { x1: -17, x2: 17, stroke: color, 'stroke-width': 2, 'stroke-dasharray': dash || null }),
    svg('g', { ...symbolStyle(look(index)), transform: bar ? 'translate(9)' : null }, symbolPath(symbol)),
  );
}

/**
 * The lines of a chart, as {label, look: index}, or its bars. With fewer than `least`, no legend is needed: the heading
 * names the line.
 */
export function legendOf(lines, { shape = 'line', least = 2 } = {}) {
  if (lines.length < least) return null;
  return element(
    'ul',
    { class: 'legend' },
    lines.map((line) => element('li', {}, key(line.look, shape), line.label)),
  );
}

/** The datasheets of a chart. */
export const sheetLegend = (sheets) => legendOf(sheets.map((sheet) => ({ label: sheet.label, look: sheet.index })));

/** A legend of areas: [[colour, text], ...]. */
export const areaLegend = (areas) =>
  element(
    'ul',
    { class: 'legend' },
    areas.map(([color, text]) =>
      element('li', {}, element('span', { class: 'area', style: `background: ${color}` }), text),
    ),
  );
