// Series: one chart for each name, with a line per datasheet, and the numbers below it.

import * as Plot from '@observablehq/plot';

import { figure, look, sheetLegend, valueAxis } from './chart.js';
import { element, section } from './dom.js';
import { axisValue, quantity } from './numbers.js';
import { table } from './table.js';

/** One group per chart: series of one name, on the same axes. [{title, x, ..., lines: [{sheet, points}]}] */
export function seriesGroups(sheets) {
  const groups = new Map();
  for (const sheet of sheets) {
    for (const series of sheet.series) {
      // Series in different units do not belong on one axis, whatever they are called.
      const key = JSON.stringify([series.name, series.x, series.x_unit, series.unit]);
      if (!groups.has(key)) groups.set(key, { ...series, title: series.title ?? series.name, lines: [] });
      groups.get(key).lines.push({ sheet, points: series.points });
    }
  }
  return [...groups.values()];
}

const known = (point) => typeof point.y === 'number';

function draw(group) {
  const points = group.lines.flatMap((line) => line.points.filter(known));
  const values = [...new Set(points.map((point) => point.x))].sort((left, right) => left - right);
  // A logarithmic axis cannot show 0.
  const log = group.x_scale === 'log' && values.every((value) => value > 0);
  const marks = group.lines.flatMap(({ sheet, points: all }) => {
    const { color, symbol, dash } = look(sheet.index);
    const own = [...all].sort((left, right) => left.x - right.x);
    const place = { x: 'x', y: (point) => point.y ?? NaN };
    return [
      // An unknown value leaves a gap in the line.
      Plot.lineY(own, {
        ...place,
        stroke: color,
        strokeWidth: 2,
        strokeDasharray: dash || undefined,
        className: 'lines',
      }),
      Plot.dot(own.filter(known), {
        ...place,
        symbol,
        fill: color,
        r: 4,
        className: 'points',
        tip: true,
        title: (point) =>
          `${sheet.label}\n${group.x} ${axisValue(point.x, group.x_unit)}: ${quantity(point.y, group.unit)}`,
      }),
    ];
  });
  return (width) => {
    // Where the values are few, each has its tick; else every second, third, ... one.
    const every = Math.ceil(values.length / Math.max(2, Math.floor(width / 62)));
    const ticks = log ? values.filter((_, index) => index % every === 0) : Math.max(2, width / 80);
    const label = group.x_unit && group.x_unit !== 'B' ? `${group.x} (${group.x_unit})` : group.x;
    return {
      height: 260,
      marginLeft: 56,
      marginRight: 24,
      marginTop: 28,
      marginBottom: 44,
      x: { type: log ? 'log' : 'linear', zero: !log },
      y: { label: group.unit, grid: true, zero: true, nice: true, ticks: 5, tickFormat: (value) => quantity(value) },
      marks: [
        valueAxis(ticks, (value) => axisValue(value, group.x_unit), label),
        Plot.ruleY([0], { stroke: 'currentColor' }),
        ...marks,
      ],
    };
  };
}

function summary(group) {
  const parts = group.lines.map(({ sheet, points }) => {
    const all = points.filter(known);
    if (all.length === 0) return `${sheet.label}: nothing measured`;
    const best = all.reduce((left, right) => (right.y > left.y ? right : left));
    return (
      `${sheet.label}: ${all.length} points, largest ${quantity(best.y, group.unit)} at ${group.x} ` +
      axisValue(best.x, group.x_unit)
    );
  });
  return `Line chart: ${group.title}. ${parts.join('. ')}.`;
}

function numbers(group) {
  const values = [...new Set(group.lines.flatMap((line) => line.points.map((point) => point.x)))].sort(
    (left, right) => left - right,
  );
  const at = (line, x) => line.points.find((point) => point.x === x)?.y;
  return element(
    'details',
    {},
    element('summary', {}, 'Numbers'),
    table({
      caption: `${group.title}, in ${group.unit}`,
      columns: [
        { heading: group.x, rowHeading: true, numeric: true, cell: (x) => axisValue(x, group.x_unit), sort: (x) => x },
        ...group.lines.map((line) => ({
          heading: group.lines.length > 1 ? line.sheet.label : group.unit,
          numeric: true,
          cell: (x) => quantity(at(line, x)),
          sort: (x) => at(line, x),
        })),
      ],
      data: values,
    }),
  );
}

export function seriesSection(sheets) {
  const groups = seriesGroups(sheets);
  if (groups.length === 0) return section('series', 'Scaling and latency', element('p', {}, 'No series was measured.'));
  return section(
    'series',
    'Scaling and latency',
    element(
      'div',
      { class: 'charts' },
      groups.map((group) =>
        element(
          'div',
          { 'data-series': group.name },
          figure({
            title: group.title,
            kind: 'series',
            label: summary(group),
            legend: sheetLegend(group.lines.map((line) => line.sheet)),
            draw: draw(group),
          }),
          numbers(group),
        ),
      ),
    ),
  );
}
