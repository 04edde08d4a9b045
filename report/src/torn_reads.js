// Torn reads by size: the shares of consistent reads, of torn reads that header and footer detect, and of others.

import * as Plot from '@observablehq/plot';

import { areaLegend, figure, valueAxis } from './chart.js';
import { element, section } from './dom.js';
import { bytes, count, percent } from './numbers.js';
import { table } from './table.js';

const outcomes = ['consistent', 'detected', 'undetected'];
const colors = { consistent: 'var(--calm)', detected: 'var(--warning)', undetected: 'var(--alarm)' };

export const tornReadProbes = (sheet) =>
  sheet.probes.filter((probe) => probe.name === 'torn-read' && !('skipped' in probe));

/** The share of reads with this outcome; null if unknown. */
export function share(probe, outcome) {
  const known = [probe.reads, probe[outcome]].every((value) => typeof value === 'number');
  return known && probe.reads > 0 ? probe[outcome] / probe.reads : null;
}

/** Stacked bars of these outcomes; rows without a share are left out. */
function bars(probes, shown) {
  const rows = probes
    .flatMap((probe) =>
      shown.map((outcome) => ({
        size: bytes(probe.size),
        outcome,
        share: share(probe, outcome),
      })),
    )
    .filter((row) => row.share !== null);
  return (width) => ({
    height: 70 + 24 * probes.length,
    marginLeft: 64,
    marginRight: 28,
    marginBottom: 44,
    x: { grid: true, nice: true, zero: true, ticks: Math.max(2, width / 90) },
    y: { label: 'size', type: 'band', domain: probes.map((probe) => bytes(probe.size)) },
    color: { type: 'ordinal', domain: outcomes, range: outcomes.map((outcome) => colors[outcome]) },
    marks: [
      valueAxis(Math.max(2, width / 90), percent, 'share of reads'),
      Plot.barX(rows, {
        x: 'share',
        y: 'size',
        fill: 'outcome',
        order: outcomes,
        className: 'bars',
        title: (row) => `${row.size}, ${row.outcome}: ${percent(row.share)}`,
        tip: true,
      }),
      Plot.ruleX([0], { stroke: 'currentColor' }),
    ],
  });
}

const largest = (probes, outcome) => Math.max(...probes.map((probe) => share(probe, outcome) ?? 0));

function figures(sheet, several) {
  const probes = tornReadProbes(sheet);
  const of = several ? `${sheet.label}: ` : '';
  const legend = (shown) => areaLegend(shown.map((outcome) => [colors[outcome], outcome]));
  const torn = outcomes.slice(1);
  const worst =
    `${sheet.label}, ${probes.length} sizes: at most ${percent(largest(probes, 'detected'))} of the reads ` +
    `of a size were torn and detected, at most ${percent(largest(probes, 'undetected'))} torn and undetected.`;
  const drawn = [
    figure({
      title: `${of}All reads`,
      kind: 'torn-reads',
      label: `Stacked bars, all reads. ${worst}`,
      legend: legend(outcomes),
      draw: bars(probes, outcomes),
    }),
  ];
  // Tears are rare: beside the consistent reads they would hardly be visible.
  const any = probes.some((probe) => torn.some((outcome) => share(probe, outcome) > 0));
  drawn.push(
    any
      ? figure({
          title: `${of}Torn reads only, enlarged`,
          kind: 'torn-reads-enlarged',
          label: `Stacked bars, torn reads only. ${worst}`,
          legend: legend(torn),
          draw: bars(probes, torn),
        })
      : element('p', { class: 'note' }, `${of}No read was torn.`),
  );
  return drawn;
}

function numbers(sheets) {
  const column = (heading, value, text) => ({ heading, numeric: true, sort: value, cell: (row) => text(value(row)) });
  return table({
    caption: 'Torn reads by size',
    columns: [
      ...(sheets.length > 1
        ? [{ heading: 'Datasheet', cell: (row) => row.sheet.label, sort: (row) => row.sheet.label }]
        : []),
      { heading: 'Size', rowHeading: true, numeric: true, cell: (row) => bytes(row.size), sort: (row) => row.size },
      column('Reads', (row) => row.reads, count),
      column('Consistent', (row) => row.consistent, count),
      column('Detected', (row) => row.detected, count),
      column('Undetected', (row) => row.undetected, count),
      column('Undetected, share', (row) => share(row, 'undetected'), percent),
    ],
    data: sheets.flatMap((sheet) => tornReadProbes(sheet).map((probe) => ({ ...probe, sheet }))),
  });
}

export function tornReadsSection(sheets) {
  const skipped = sheets.flatMap((sheet) =>
    sheet.probes
      .filter((probe) => probe.name === 'torn-read' && 'skipped' in probe)
      .map((probe) => element('p', {}, `${sheet.label}: torn reads were not probed: ${probe.skipped}`)),
  );
  const probed = sheets.filter((sheet) => tornReadProbes(sheet).length > 0);
  if (probed.length === 0) {
    return section('torn-reads', 'Torn reads', skipped, element('p', {}, 'Torn reads were not measured.'));
  }
  return section(
    'torn-reads',
    'Torn reads',
    element(
      'p',
      {},
      'Each block is written by one WRITE and read by one READ, at the same time and without ' +
        'synchronization. Consistent: all words agree. Detected: the first and the last word differ. Undetected: they ' +
        'agree, and a word between does not.',
    ),
    skipped,
    element(
      'div',
      { class: 'charts' },
      probed.flatMap((sheet) => figures(sheet, sheets.length > 1)),
    ),
    numbers(probed),
  );
}
