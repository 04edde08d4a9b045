// The lock table of the atomics: which words share a slot, and how padding helps. All statements follow from the number
// of address bits and of slots. Beside it is the NIC's other table that a program can outgrow, the one of its queue
// pairs.

import { element, section } from './dom.js';
import { bytes, count, quantity } from './numbers.js';
import { table } from './table.js';

const wordBytes = 8;
const strides = [64, 256, 512, 1024, 4096];

const gcd = (left, right) => (right === 0 ? left : gcd(right, left % right));

/** The most slots that words at this distance can use: they meet again when their low bits repeat. */
export const slotsUsed = (table, stride) =>
  Math.min(table.slots, 2 ** table.address_bits / gcd(stride, 2 ** table.address_bits));

const whole = (table) =>
  Number.isInteger(table.address_bits) &&
  Number.isInteger(table.slots) &&
  table.address_bits > 3 &&
  table.address_bits <= 48 &&
  table.slots > 0;

function sentences(sheet) {
  const found = sheet.lock_table;
  if (found === null) return [element('p', {}, 'The lock table was not measured.')];
  const lines = [];
  if (whole(found) && found.slots > 1) {
    const period = 2 ** found.address_bits;
    lines.push(
      `The low ${found.address_bits} bits of an address choose one of ${count(found.slots)} slots. Words whose ` +
        `addresses agree in these bits share a slot: those that lie ${bytes(period)} apart, or a multiple of it.`,
    );
  } else if (found.slots === 1) {
    lines.push('All atomics share one slot, wherever their words lie. No padding helps.');
  } else {
    lines.push('It is unknown which words share a slot.');
  }
  lines.push(
    ` One slot does ${quantity(found.contended_mops, 'Mops/s')}, many together ` +
      `${quantity(found.uncontended_mops, 'Mops/s')}.`,
  );
  return [element('p', {}, lines)];
}

function paddingTable(sheet) {
  const found = sheet.lock_table;
  const period = 2 ** found.address_bits;
  const used = (stride) => ({
    numeric: true,
    cell: (row) => count(slotsUsed(found, stride(row))),
    sort: (row) => slotsUsed(found, stride(row)),
  });
  return [
    table({
      caption: 'Slots that latches use at most, by the distance between them',
      columns: [
        { heading: 'Distance', rowHeading: true, numeric: true, cell: bytes, sort: (row) => row },
        { heading: 'Slots', ...used((row) => row) },
        { heading: `Slots with ${bytes(wordBytes)} of padding each`, ...used((row) => row + wordBytes) },
      ],
      data: [...new Set([...strides, period])].filter((stride) => stride <= period).sort((left, right) => left - right),
    }),
    element(
      'p',
      {},
      `Objects of ${bytes(period)} back to back have all their latches in one slot. ${bytes(wordBytes)} of ` +
        'padding after each object make the low bits vary, so that the latches spread over ' +
        `${count(slotsUsed(found, period + wordBytes))} slots.`,
    ),
  ];
}

function queuePairSentence(sheet) {
  const from = sheet.queue_pair_cache?.queue_pairs ?? null;
  if (from === null) return null;
  return element(
    'p',
    { class: 'queue-pair-cache' },
    `Queue pairs: from ${count(from)} queue pairs of one client on, the rate falls.`,
  );
}

export function lockTableSection(sheets) {
  return section(
    'lock-table',
    'Lock table of the atomics',
    sheets.map((sheet) =>
      element(
        'div',
        { class: 'sheet' },
        sheets.length > 1 && element('h3', {}, sheet.label),
        sentences(sheet),
        sheet.lock_table && whole(sheet.lock_table) && sheet.lock_table.slots > 1 && paddingTable(sheet),
        queuePairSentence(sheet),
      ),
    ),
  );
}
