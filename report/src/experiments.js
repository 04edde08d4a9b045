// The experiments of `sidelatch bench`. Each has a section with its environment, its figure, the paper's claims, and
// the numbers.

import { element, section } from './dom.js';
import { fabrics, hasDevice } from './fabrics.js';
import { interval, quantity, unknown } from './numbers.js';
import { panels, panelsOf, shareOfPaper } from './panels.js';
import { table } from './table.js';
import { targetTable } from './targets.js';

function facts(experiment) {
  const world = hasDevice(experiment.fabric) ? ['Device', experiment.device] : ['Profile', experiment.profile];
  const rows = [
    ['Experiment', experiment.experiment],
    ...(experiment.figure === '' ? [] : [['Figure', experiment.figure]]),
    ['Fabric', fabrics[experiment.fabric]],
    world,
    ['Seed', experiment.seed],
    ['Version', experiment.version],
    ['File', experiment.file],
  ];
  return element(
    'dl',
    { class: 'facts' },
    rows.map(([name, value]) =>
      element('div', {}, element('dt', {}, name), element('dd', {}, String(value ?? unknown))),
    ),
  );
}

function numbers(chart, experiment) {
  const { axis } = chart;
  const values = [...new Set(chart.lines.flatMap((line) => line.points.map((point) => point.x)))].sort(
    (left, right) => left - right,
  );
  const at = (line, x) => line.points.find((point) => point.x === x);
  const shown = (line, x) => {
    const point = at(line, x);
    if (!point) return '';
    const share = shareOfPaper(chart, line, x);
    return interval(point.y, point.half_width) + (share === null ? '' : ` (here ${quantity(share)} of it)`);
  };
  const intervals = chart.lines.some((line) => line.points.some((point) => point.half_width !== null));
  return table({
    caption:
      `${experiment}, ${chart.title}${chart.title === chart.panel ? `, in ${chart.unit}` : ''}` +
      (intervals ? ': value ± half the width of its 95\u202f% interval' : ''),
    columns: [
      {
        heading: axis.label,
        rowHeading: true,
        numeric: axis.scale !== 'categories',
        cell: axis.text,
        sort: (x) => x,
      },
      ...chart.lines.map((line) => ({
        heading: line.label,
        numeric: true,
        cell: (x) => shown(line, x),
        sort: (x) => at(line, x)?.y,
      })),
    ],
    data: values,
  });
}

function figures(experiment) {
  if (experiment.series === null) return null;
  const charts = panelsOf(experiment);
  if (charts.every(({ axis }) => axis.values.length === 0)) return element('p', {}, 'Nothing was measured.');
  return panels(charts);
}

function allNumbers(experiment) {
  const charts = experiment.series === null ? [] : panelsOf(experiment);
  if (charts.length === 0) return null;
  return element(
    'details',
    { class: 'numbers' },
    element('summary', {}, 'Numbers'),
    charts.map((chart) => numbers(chart, experiment.label)),
  );
}

export const experimentSections = (experiments) =>
  experiments.map((experiment, index) =>
    section(
      `experiment-${index + 1}`,
      experiment.heading,
      facts(experiment),
      figures(experiment),
      experiment.targets !== null && targetTable(experiment.targets, experiment.label),
      allNumbers(experiment),
    ),
  );
