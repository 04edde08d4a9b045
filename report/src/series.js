// Series: one chart per name, with a line per datasheet, and the numbers below it. With one datasheet, the series of a
// family that share their axes are the lines of one chart: latency/READ, latency/WRITE, ...

import * as Plot from '@observablehq/plot';

import { figure, legendOf, look, looks, valueAxis } from './chart.js';
import { element, section } from './dom.js';
import { axisValue, capitalised, quantity } from './numbers.js';
import { table } from './table.js';

// Series in different units need different axes, whatever their names.
const axes = (series) => [series.x, series.x_unit, series.unit];

function byName(sheets) {
  const groups = new Map();
  for (const sheet of sheets) {
    for (const series of sheet.series) {
      const key = JSON.stringify([series.name, ...axes(series)]);
      if (!groups.has(key)) groups.set(key, { ...series, title: series.title ?? series.name, lines: [] });
      groups.get(key).lines.push({ label: sheet.label, look: sheet.index, points: series.points });
    }
  }
  return [...groups.values()];
}

/** The part before the slash of latency/READ. */
const familyOf = (name) => name.split('/')[0];

function byFamily(groups) {
  const families = new Map();
  for (const group of groups) {
    const key = JSON.stringify([familyOf(group.name), group.x_scale, ...axes(group)]);
    families.set(key, [...(families.get(key) ?? []), group]);
  }
  return [...families.values()].flatMap((members) => {
    // With more lines than looks, lines would be indistinguishable.
    if (members.length < 2 || members.length > looks) return members;
    const family = familyOf(members[0].name);
    const title = `${capitalised(family)} by ${members[0].x}`;
    const lines = members.map((member, index) => ({
      label: member.title,
      look: index,
      points: member.lines[0].points,
    }));
    return [{ ...members[0], name: family, title, lines }];
  });
}

/** One group per chart: [{name, title, x, x_unit, x_scale, unit, lines: [{label, look, points}]}]. */
export const seriesGroups = (sheets) => (sheets.length > 1 ? byName(sheets) : byFamily(byName(sheets)));

const known = (point) => typeof point.y === 'number';

function draw(group) {
  const points = group.lines.flatMap((line) => line.points.filter(known));
  const values = [...new Set(points.map((point) => point.x))].sort((left, right) => left - right);
  // A logarithmic axis cannot show 0.
  const log = group.x_scale === 'log' && values.every((value) => value > 0);
  const marks = group.lines.flatMap(({ label, look: index, points: all }) => {
    const { color, symbol, dash } = look(index);
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
        title: (point) => `${label}\n${group.x} ${axisValue(point.x, group.x_unit)}: ${quantity(point.y, group.unit)}`,
      }),
    ];
  });
  return (width) => {
    // With few values, each has its tick; otherwise every second, third, ... one.
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
  const parts = group.lines.map(({ label, points }) => {
    const all = points.filter(known);
    if (all.length === 0) return `${label}: nothing measured`;
    const best = all.reduce((left, right) => (right.y > left.y ? right : left));
    return (
      `${label}: ${all.length} points, largest ${quantity(best.y, group.unit)} at ${group.x} ` +
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
          heading: group.lines.length > 1 ? line.label : group.unit,
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
            legend: legendOf(group.lines),
            draw: draw(group),
          }),
          numbers(group),
        ),
      ),
    ),
  );
}
