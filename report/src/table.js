// Tables: a caption, column headings that sort by click and by keyboard, row headings. A wide table scrolls within its
// own frame, so that the page does not.

import { element } from './dom.js';

let tables = 0;

/** Unknown values come last in both directions. */
function compare(left, right, direction) {
  const missing = (value) => value === null || value === undefined || Number.isNaN(value);
  if (missing(left) || missing(right)) return Number(missing(left)) - Number(missing(right));
  if (typeof left === 'number' && typeof right === 'number') return direction * (left - right);
  return direction * String(left).localeCompare(String(right), 'en', { numeric: true });
}

function sortBy(table, columns, rows, index) {
  const headings = [...table.tHead.rows[0].cells];
  const ascending = headings[index].getAttribute('aria-sort') !== 'ascending';
  headings.forEach((heading, other) => {
    if (columns[other].sort) heading.setAttribute('aria-sort', 'none');
  });
  headings[index].setAttribute('aria-sort', ascending ? 'ascending' : 'descending');
  const order = [...rows.keys()].sort(
    (left, right) =>
      compare(columns[index].sort(rows[left].data), columns[index].sort(rows[right].data), ascending ? 1 : -1) ||
      left - right,
  );
  table.tBodies[0].append(...order.map((row) => rows[row].node));
}

function headingCell(column, sort) {
  const numeric = column.numeric ? 'number' : null;
  if (!column.sort) return element('th', { scope: 'col', class: numeric }, column.heading);
  // A button takes the focus and answers to Enter and Space by itself.
  const button = element(
    'button',
    { type: 'button' },
    column.heading,
    element('span', { class: 'arrow', 'aria-hidden': 'true' }),
  );
  button.addEventListener('click', sort);
  return element('th', { scope: 'col', class: numeric, 'aria-sort': 'none' }, button);
}

/**
 * A table of `data`, one row each. A column is {heading, cell(row) -> text or nodes, sort(row) -> number or text (not
 * sortable without it), numeric, rowHeading, wide}.
 */
export function table({ caption, columns, data, className }) {
  const captionId = `table-${(tables += 1)}`;
  const rows = data.map((row) => ({
    data: row,
    node: element(
      'tr',
      {},
      columns.map((column) =>
        element(
          column.rowHeading ? 'th' : 'td',
          { scope: column.rowHeading ? 'row' : null, class: column.numeric ? 'number' : column.wide ? 'wide' : null },
          column.cell(row),
        ),
      ),
    ),
  }));
  const result = element('table', { class: className ?? null }, element('caption', { id: captionId }, caption));
  const headings = columns.map((column, index) => headingCell(column, () => sortBy(result, columns, rows, index)));
  result.append(
    element('thead', {}, element('tr', {}, headings)),
    element(
      'tbody',
      {},
      rows.map((row) => row.node),
    ),
  );
  // The frame takes the focus, so that the arrow keys can scroll it.
  return element('div', { class: 'frame', role: 'region', tabindex: '0', 'aria-labelledby': captionId }, result);
}
