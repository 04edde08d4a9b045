// The order matrix: the effects that the probes saw, the number of chances, and bounds for effects that they did not
// see.

import * as Plot from '@observablehq/plot';

import { figure, look, sheetLegend, valueAxis } from './chart.js';
import { element, section } from './dom.js';
import { bound, count, percent, unknown } from './numbers.js';
import { table } from './table.js';
import { badge } from './verdict.js';

// The effect that each probe looks for; a probe's own `title` has priority.
const effects = {
  'order/read-read': 'two READs of one queue pair take effect out of order',
  'order/read-write': 'a WRITE overtakes the READ posted before it',
  'order/fenced-read-write': 'a fenced WRITE overtakes the READ posted before it',
  'order/write-read': 'a READ overtakes the WRITE posted before it',
  'order/write-write': 'a WRITE becomes visible before the WRITE posted before it',
  'order/write-atomic': 'an atomic overtakes the WRITE posted before it',
  'order/fenced-atomic-write': 'a fenced WRITE overtakes the atomic posted before it',
  'order/fenced-atomic-atomic': 'a fenced atomic overtakes the atomic posted before it',
  'order/atomic-read': 'a READ overtakes the atomic posted before it',
  'order/atomic-atomic': 'an atomic overtakes the atomic posted before it on the same word',
  'lines/within-write': 'a line of a WRITE becomes visible before one at a lower address',
  'visibility/after-completion': "a WRITE completes before a CPU of the memory's machine sees all its bytes",
  'visibility/read-after-completion':
    "a READ of another queue pair, posted after a WRITE's completion, does not see it",
  'visibility/atomic-after-completion':
    "an atomic of another queue pair, posted after a WRITE's completion, does not see it",
  'unlatch/write-against-fetch-add': 'a FETCH-ADD undoes a WRITE to its word',
  'unlatch/write-against-cas': 'a CAS undoes a WRITE to its word',
  'atomics/nic': 'two atomics of the NIC on one word do not exclude each other',
  'atomics/cpu': 'an atomic of the NIC and one of the CPU do not exclude each other',
  'atomics/two-ports': 'atomics through two ports of the NIC do not exclude each other',
  'torn-read/offset': 'blocks that begin in the middle of a line are mixed',
  'torn-read/in-cache': 'blocks of a ring that fits in the cache are mixed',
};

function effect(name) {
  // There is a probe for each latch, whatever its name.
  const latch = name.match(/^latch\/(.+)$/s)?.[1];
  if (latch) return `an update under the latch ${latch} was lost or saw a mixture`;
  return Object.hasOwn(effects, name) ? effects[name] : '';
}

const skipped = (probe) => 'skipped' in probe;
/**
 * All probes except the torn reads by size, which have a section of their own; torn-read/offset and the like are
 * effects.
 */
export const effectProbes = (sheet) => sheet.probes.filter((probe) => probe.name !== 'torn-read');

/** 'seen', 'not seen', 'skipped', 'no chance' if nothing was tried, or 'unknown'. */
export function outcome(probe) {
  if (skipped(probe)) return 'skipped';
  if (probe.seen > 0) return 'seen';
  if (probe.seen === null) return unknown;
  return probe.chances === 0 ? 'no chance' : 'not seen';
}

/** The value that chart and table compare: the share of chances in which the effect was seen, or its bound. */
function likelihood(probe) {
  if (outcome(probe) === 'seen') return probe.chances > 0 ? probe.seen / probe.chances : null;
  return outcome(probe) === 'not seen' ? probe.bound95 : null;
}

function outcomeBadge(probe) {
  const result = outcome(probe);
  return badge(
    result,
    result === 'seen' ? 'bad' : 'neither',
    { seen: '●', 'not seen': '○', skipped: '–' }[result] ?? '?',
  );
}

function likelihoodText(probe) {
  if (skipped(probe)) return '';
  if (outcome(probe) === 'seen') return percent(likelihood(probe));
  if (outcome(probe) !== 'not seen') return unknown;
  return probe.bound95 === null ? 'no bound' : bound(probe.bound95);
}

function detailItem([name, value]) {
  const words = name.replaceAll('_', ' ');
  // A number stays on the line of its name.
  if (Number.isInteger(value)) return `${words}: ${count(value)}`.replaceAll(' ', '\u00a0');
  return `${words}: ${value ?? unknown}`;
}

const detail = (probe) =>
  skipped(probe) ? `skipped: ${probe.skipped}` : (probe.detail ?? []).map(detailItem).join('; ');

function orderTable(rows, several) {
  return table({
    caption: 'Effects that the probes look for',
    className: 'effects',
    columns: [
      {
        heading: 'Probe',
        rowHeading: true,
        sort: (row) => row.name,
        cell: (row) => [
          element('code', {}, row.name),
          element('span', { class: 'aside' }, row.title ?? effect(row.name)),
        ],
      },
      ...(several ? [{ heading: 'Datasheet', cell: (row) => row.sheet.label, sort: (row) => row.sheet.label }] : []),
      {
        heading: 'Effect',
        sort: (row) => ['seen', 'not seen', 'no chance', 'skipped', unknown].indexOf(outcome(row)),
        cell: (row) => [outcomeBadge(row), row.differs && element('span', { class: 'changed' }, 'differs')],
      },
      { heading: 'Seen', numeric: true, cell: (row) => (skipped(row) ? '' : count(row.seen)), sort: (row) => row.seen },
      {
        heading: 'Chances',
        numeric: true,
        cell: (row) => (skipped(row) ? '' : count(row.chances)),
        sort: (row) => row.chances,
      },
      { heading: 'Share, or bound at 95\u202f%', numeric: true, cell: likelihoodText, sort: likelihood },
      { heading: 'Details', wide: true, cell: detail },
    ],
    data: rows,
  });
}

/** One line of marks per probe; the datasheets lie above each other within it. */
function marks(names, rows, sheets) {
  const lowest = Math.floor(Math.log10(Math.min(...rows.map((row) => row.value), 0.1)) - 0.5);
  const floor = 10 ** lowest;
  const besideNames = 24 + 6.6 * Math.max(...names.map((name) => name.length)); // 12 px letters are about this wide
  return (width) => {
    // A narrow screen has no room beside the chart, so the names stand above their marks.
    const narrow = width < 560;
    const every = Math.ceil(-lowest / Math.max(2, Math.floor(width / 90)));
    const decades = Array.from({ length: 1 - lowest }, (_, index) => -index)
      .filter((power) => power % every === 0)
      .map((power) => 10 ** power);
    const bySheet = sheets.flatMap((sheet, position) => {
      const own = rows.filter((row) => row.sheet === sheet);
      const dy = (position - (sheets.length - 1) / 2) * 12 + (narrow ? 6 : 0);
      const { color, symbol } = look(sheet.index);
      const title = (row) => `${row.name}, ${sheet.label}: ${outcome(row)}, ${likelihoodText(row)}`;
      return [
        // An effect that was not seen may have any probability up to its bound.
        Plot.ruleY(
          own.filter((row) => outcome(row) === 'not seen'),
          {
            y: 'name',
            x1: floor,
            x2: 'value',
            dy,
            stroke: color,
            strokeWidth: 2,
            strokeOpacity: 0.5,
            className: 'bounds',
          },
        ),
        Plot.dot(own, {
          x: 'value',
          y: 'name',
          dy,
          symbol,
          r: 5,
          stroke: color,
          strokeWidth: 2,
          className: 'marks',
          fill: (row) => (outcome(row) === 'seen' ? color : 'var(--surface)'),
          title,
          tip: true,
        }),
      ];
    });
    return {
      height: 56 + names.length * (14 + 12 * sheets.length + (narrow ? 16 : 0)),
      marginLeft: narrow ? 24 : besideNames,
      marginRight: 24,
      marginBottom: 44,
      x: { type: 'log', domain: [floor, 1] },
      y: { type: 'point', domain: names, label: null, axis: narrow ? null : 'left', padding: 0.6 },
      marks: [
        valueAxis(decades, percent, 'share of chances, or bound'),
        Plot.gridX(decades),
        narrow
          ? Plot.text(names, {
              x: floor,
              y: (name) => name,
              text: (name) => name,
              textAnchor: 'start',
              dy: -6 - 6 * sheets.length,
            })
          : null,
        ...bySheet,
      ],
    };
  };
}

function orderFigure(rows, sheets) {
  const drawn = rows.map((row) => ({ ...row, value: likelihood(row) })).filter((row) => row.value > 0);
  if (drawn.length === 0) return null;
  const names = [...new Set(drawn.map((row) => row.name))];
  const seen = [...new Set(drawn.filter((row) => outcome(row) === 'seen').map((row) => row.name))];
  return figure({
    title: 'How often an effect shows',
    kind: 'order',
    legend: sheetLegend(sheets),
    label: `One mark for each probe, on a logarithmic axis. Seen: ${seen.join(', ') || 'none'}.`,
    draw: marks(names, drawn, sheets),
    note:
      'Filled mark: seen, in this share of the chances. Hollow mark with a line: not seen; with a confidence of ' +
      '95 % its probability lies on the line, below the mark.',
  });
}

export function orderSection(sheets) {
  const names = [...new Set(sheets.flatMap((sheet) => effectProbes(sheet).map((probe) => probe.name)))];
  const rows = names.flatMap((name) => {
    const of = sheets.flatMap((sheet) =>
      effectProbes(sheet)
        .filter((probe) => probe.name === name)
        .map((probe) => ({ ...probe, sheet })),
    );
    // A probe without a bound would have missed the effect, so it cannot disagree.
    const telling = of.filter(
      (row) => outcome(row) === 'seen' || (outcome(row) === 'not seen' && row.bound95 !== null),
    );
    const seen = new Set(telling.map(outcome));
    return of.map((row) => ({ ...row, differs: sheets.length > 1 && seen.size > 1 }));
  });
  if (rows.length === 0)
    return section('order', 'Order, visibility, exclusion', element('p', {}, 'No effect was probed.'));
  return section(
    'order',
    'Order, visibility, exclusion',
    element(
      'p',
      {},
      'Each probe gives the NIC many chances to show an effect that a scheme may not allow for. An ' +
        'effect that was seen is there. One that was not seen may still be there, rarer than the bound; without a ' +
        'bound, nothing follows from it.',
    ),
    orderFigure(rows, sheets),
    orderTable(rows, sheets.length > 1),
  );
}
