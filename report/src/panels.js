// The charts of an experiment, arranged as in the paper's figure: one per panel, side by side. Those with the same x
// share the axis below; each has its own at the side. Each series is a line, or bars if the axis has names.

import * as Plot from '@observablehq/plot';

import { figure, legendOf, look, symbolStyle, valueAxis } from './chart.js';
import { element } from './dom.js';
import { bytes, count, interval, quantity } from './numbers.js';

const letter = 6.6; // 12 px letters are about this wide

const known = (point) => Number.isFinite(point.y);
const low = (point) => Math.max(0, point.y - (point.half_width ?? 0)); // rates are never below 0
const high = (point) => point.y + (point.half_width ?? 0);

const placesOf = (series) => new Set(series.flatMap(({ points }) => points.map((point) => point.x)));

/**
 * The x that a panel's axis holds. They are its own, or those of another panel that has all of them and more: panels
 * that were measured at the same x can be compared, even where one lacks points. Panels with other x do not share an
 * axis: it would heap the points of one together where the other's x are much larger.
 */
function placesOn(panel, series) {
  const panels = [...new Set(series.map((one) => one.panel))];
  const own = placesOf(series.filter((one) => one.panel === panel));
  return panels
    .map((name) => placesOf(series.filter((one) => one.panel === name)))
    .filter((places) => [...own].every((x) => places.has(x)))
    .reduce((most, places) => (places.size > most.size ? places : most));
}

/** The axis below a panel: {label, scale, values: all of its x in order, text(value)}. */
function axisOf(panel, { series, x: label, x_scale: wanted, x_names: names }) {
  const places =
    wanted === 'categories'
      ? // A name belongs to the same x in all panels.
        [...names.map((_, index) => index + 1), ...placesOf(series)]
      : placesOn(panel, series);
  const values = [...new Set(places)].sort((left, right) => left - right);
  const plain = (value) => (Number.isInteger(value) ? count(value) : quantity(value));
  const text = {
    categories: (value) => names[value - 1] ?? plain(value),
    log: label === 'bytes' ? bytes : plain,
    linear: label === 'bytes' ? bytes : plain,
  }[wanted];
  // A logarithmic axis cannot show 0.
  const scale = wanted === 'log' && values.some((value) => value <= 0) ? 'linear' : wanted;
  return { label, scale, values, text };
}

/**
 * One group per chart: [{panel, unit, title, axis, lines: [{label, look, points}]}], in order of appearance. A line has
 * the same look in all of them.
 */
export function panelsOf(experiment) {
  const { series, x } = experiment;
  const names = [...new Set(series.map((one) => one.name))];
  const panels = new Map();
  for (const { panel, name, unit, points } of series) {
    // Series in different units need different axes.
    const key = JSON.stringify([panel, unit]);
    if (!panels.has(key)) panels.set(key, { panel, unit, lines: [] });
    panels.get(key).lines.push({ label: name, look: names.indexOf(name), points });
  }
  const all = [...panels.values()];
  return all.map((one) => {
    const alone = all.filter(({ panel }) => panel === one.panel).length === 1;
    const axes = `${one.unit} by ${x}`;
    return {
      ...one,
      title: one.panel === '' ? axes : alone ? one.panel : `${one.panel}: ${axes}`,
      axis: axisOf(one.panel, experiment),
    };
  });
}

/** The powers of two on a logarithmic axis: all, or every second, third, ... of them, as room permits. */
function powersOfTwo({ values, text }, room) {
  const [first, last] = [values[0], values.at(-1)].map((value) => Math.log2(value));
  const powers = [];
  for (let power = Math.ceil(first); power <= last; power += 1) powers.push(2 ** power);
  const ticks = powers.length < 2 ? values : powers;
  const widest = letter * Math.max(...ticks.map((tick) => text(tick).length)) + 12;
  const every = Math.ceil(ticks.length / Math.max(2, Math.floor(room / widest)));
  return ticks.filter((_, index) => index % every === 0);
}

const paper = 'paper: ';

/**
 * How much of a point of the paper's was measured here: the line "paper: X" has the paper's points of the line "X" of
 * its chart. Null if the line is not the paper's, or nothing was measured at that x.
 */
export function shareOfPaper({ lines }, { label, points }, x) {
  if (!label.startsWith(paper)) return null;
  const here = lines.find((line) => line.label === label.slice(paper.length))?.points.find((point) => point.x === x);
  const there = points.find((point) => point.x === x);
  return here && there && known(here) && known(there) && there.y !== 0 ? here.y / there.y : null;
}

const title = (chart, line) => (point) => {
  const { axis } = chart;
  const share = shareOfPaper(chart, line, point.x);
  const value = `${interval(point.y, point.half_width)} ${chart.unit}`;
  const measured = share === null ? '' : `\nhere: ${quantity(share)} of it`;
  return `${line.label}\n${axis.label} ${axis.text(point.x)}: ${value}${measured}`;
};

function valueScale({ lines, unit }) {
  const points = lines.flatMap((line) => line.points.filter(known));
  const largest = Math.max(0, ...points.map(high));
  return {
    label: unit,
    grid: true,
    domain: [Math.min(0, ...points.map((point) => point.y)), largest > 0 ? largest : 1],
    nice: true,
    ticks: 5,
    tickFormat: (value) => quantity(value),
  };
}

const frame = { height: 280, marginLeft: 56, marginRight: 24, marginTop: 28, marginBottom: 44 };

const intervals = (points, place, color) =>
  Plot.ruleX(
    points.filter((point) => point.half_width > 0),
    { ...place, y1: low, y2: high, stroke: color, strokeWidth: 1.5, marker: 'tick-x', className: 'intervals' },
  );

function symbols(points, place, index, more) {
  const { fill, stroke, 'stroke-width': strokeWidth } = symbolStyle(look(index));
  return Plot.dot(points, { ...place, symbol: look(index).symbol, fill, stroke, strokeWidth, r: 4, ...more });
}

function drawLines(chart) {
  const { axis } = chart;
  const log = axis.scale === 'log';
  const domain = [log ? axis.values[0] : Math.min(0, axis.values[0]), axis.values.at(-1)];
  const marks = chart.lines.map((line) => {
    const { color, dash } = look(line.look);
    const own = [...line.points].sort((left, right) => left.x - right.x);
    const place = { x: 'x', y: (point) => (known(point) ? point.y : NaN) };
    return {
      // An unknown value leaves a gap in the line.
      line: Plot.lineY(own, {
        ...place,
        stroke: color,
        strokeWidth: 2,
        strokeDasharray: dash || undefined,
        className: 'lines',
      }),
      intervals: intervals(own.filter(known), { x: 'x' }, color),
      points: symbols(own.filter(known), place, line.look, {
        className: 'points',
        tip: true,
        title: title(chart, line),
      }),
    };
  });
  return (width) => {
    const room = width - frame.marginLeft - frame.marginRight;
    const ticks = log ? powersOfTwo(axis, room) : Math.max(2, Math.min(axis.values.length, room / 56));
    return {
      ...frame,
      x: { type: log ? 'log' : 'linear', domain, insetLeft: 8, insetRight: 8 },
      y: valueScale(chart),
      marks: [
        valueAxis(ticks, axis.text, axis.label),
        Plot.ruleY([0], { stroke: 'currentColor' }),
        marks.map((mark) => mark.line),
        marks.map((mark) => mark.intervals),
        marks.map((mark) => mark.points),
      ],
    };
  };
}

/** Names that are too long to stand beside each other are slanted. */
function namesBelow(axis, room) {
  const longest = Math.max(...axis.values.map((value) => axis.text(value).length));
  const words = axis.values.flatMap((value) => axis.text(value).split(' '));
  const each = room / axis.values.length;
  const slanted = letter * Math.max(...words.map((word) => word.length)) + 6 > each;
  const lines = slanted ? 1 : Math.max(1, Math.ceil((letter * longest) / (each - 6)));
  const height = slanted ? 0.71 * letter * longest + 12 : 16 * lines;
  return {
    height,
    options: slanted
      ? { tickRotate: -45, textAnchor: 'end', lineAnchor: 'middle' }
      : { lineWidth: (each - 6) / 12, lineAnchor: 'top' },
  };
}

function drawBars(chart) {
  const { axis } = chart;
  const marks = chart.lines.map((line, position) => {
    const { color } = look(line.look);
    const own = line.points.filter(known);
    const place = { fx: 'x', x: () => position };
    return [
      Plot.barY(own, {
        ...place,
        y1: 0,
        y2: 'y',
        fill: color,
        className: 'bars',
        tip: true,
        title: title(chart, line),
      }),
      intervals(own, place, 'currentColor'),
      // Below its bar, so that colour is not the only distinction between bars.
      symbols(own, { ...place, y: 0, dy: 10 }, line.look, { className: 'feet' }),
    ];
  });
  return (width) => {
    const below = namesBelow(axis, width - frame.marginLeft - frame.marginRight);
    return {
      ...frame,
      height: frame.height + below.height,
      marginBottom: 46 + below.height,
      fx: { domain: axis.values, paddingInner: 0.2, paddingOuter: 0.1 },
      x: { type: 'band', domain: chart.lines.map((_, position) => position), axis: null, padding: 0.1 },
      y: valueScale(chart),
      marks: [
        Plot.axisFx({
          anchor: 'bottom',
          label: axis.label,
          labelAnchor: 'right',
          labelArrow: false,
          labelOffset: 30 + below.height,
          tickFormat: axis.text,
          tickPadding: 20,
          ...below.options,
        }),
        marks,
        Plot.ruleY([0], { stroke: 'currentColor' }),
      ],
    };
  };
}

function summary(chart) {
  const { axis } = chart;
  const parts = chart.lines.map(({ label, points }) => {
    const all = points.filter(known);
    if (all.length === 0) return `${label}: nothing measured`;
    const best = all.reduce((left, right) => (right.y > left.y ? right : left));
    const where = `${axis.label} ${axis.text(best.x)}`;
    const values = all.length === 1 ? '1 value' : `${all.length} values`;
    return `${label}: ${values}, largest ${quantity(best.y, chart.unit)} at ${where}`;
  });
  const kind = axis.scale === 'categories' ? 'Bars' : 'Line chart';
  return `${kind}: ${chart.title}. ${parts.join('. ')}.`;
}

/** The charts side by side. If all have the same lines, there is one legend above them. */
export function panels(charts) {
  const bars = charts[0].axis.scale === 'categories';
  const legend = (chart) => legendOf(chart.lines, { shape: bars ? 'bar' : 'line', least: 1 });
  const names = (chart) => JSON.stringify(chart.lines.map((line) => line.label));
  const shared = charts.every((chart) => names(chart) === names(charts[0]));
  return [
    shared && legend(charts[0]),
    element(
      'div',
      { class: charts.length > 1 ? 'panels' : 'panels alone' },
      charts.map((chart) =>
        element(
          'div',
          { 'data-panel': chart.panel },
          figure({
            title: chart.title,
            kind: bars ? 'bars' : 'lines',
            label: summary(chart),
            legend: shared ? null : legend(chart),
            draw: bars ? drawBars(chart) : drawLines(chart),
          }),
        ),
      ),
    ),
  ];
}
