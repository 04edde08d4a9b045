// The papers' results and ours: a row for each target of an experiment.

import { element } from './dom.js';
import { quantity, unknown } from './numbers.js';
import { table } from './table.js';
import { badge } from './verdict.js';

const standing = (target) => (target.ok ? badge('met', 'good', '✓') : badge('MISSED', 'bad', '✗'));

const value = (of, unit) => (typeof of === 'number' ? quantity(of, unit) : String(of ?? unknown));

/** A shape is an order or a crossing and has no expected number. */
const isShape = (target) => target.kind === 'shape';

export function targetTable(targets, experiment) {
  if (targets.length === 0) return element('p', {}, 'The papers give nothing to compare this with.');
  const met = targets.filter((target) => target.ok).length;
  return table({
    caption: `${experiment} against the papers: ${met} of ${targets.length} targets met`,
    className: 'targets',
    columns: [
      { heading: 'Target', rowHeading: true, cell: (row) => element('code', {}, row.id), sort: (row) => row.id },
      {
        heading: 'Expected',
        numeric: true,
        cell: (row) => (isShape(row) ? element('span', { class: 'aside' }, 'a shape') : value(row.expected, row.unit)),
        sort: (row) => row.expected,
      },
      { heading: 'Measured', wide: true, cell: (row) => value(row.measured, row.unit) },
      {
        heading: 'Ratio',
        numeric: true,
        cell: (row) => (isShape(row) ? '' : quantity(row.ratio)),
        sort: (row) => row.ratio,
      },
      { heading: 'Result', cell: standing, sort: (row) => Number(row.ok) },
    ],
    data: targets,
  });
}
