// At a glance: a few lines per datasheet that answer the first questions about a new NIC.

import { element, section } from './dom.js';
import { bytes, count, percent, quantity } from './numbers.js';
import { effectProbes, outcome } from './order.js';
import { share, tornReadProbes } from './torn_reads.js';

const list = (words) => words.join(', ');

function schemes(sheet) {
  const usable = sheet.schemes.filter((scheme) => !scheme.known_broken);
  const specimens = sheet.schemes.filter((scheme) => scheme.known_broken);
  if (sheet.schemes.length === 0) return 'none was judged';
  const of = (verdict) => usable.filter((scheme) => scheme.verdict === verdict);
  const parts = ['safe', 'not exercised', 'unsafe']
    .filter((verdict) => of(verdict).length > 0)
    .map((verdict) => `${of(verdict).length} ${verdict}`);
  const unsafe = of('unsafe').map((scheme) => scheme.scheme);
  const caught = specimens.filter((scheme) => scheme.verdict === 'unsafe').length;
  return (
    list(parts) +
    (unsafe.length > 0 ? ` (${list(unsafe)})` : '') +
    (specimens.length > 0 ? `; ${caught} of ${specimens.length} broken specimens were caught` : '')
  );
}

function tornReads(sheet) {
  const probes = tornReadProbes(sheet).filter((probe) => share(probe, 'undetected') !== null);
  if (probes.length === 0) return 'not measured';
  const worst = probes.reduce((left, right) => (share(right, 'undetected') > share(left, 'undetected') ? right : left));
  if (share(worst, 'undetected') === 0) return 'none passed header and footer';
  return (
    `${percent(share(worst, 'undetected'))} of the reads of ${bytes(worst.size)} were torn, and header and footer ` +
    'did not tell'
  );
}

function effects(sheet) {
  const probes = effectProbes(sheet);
  if (probes.length === 0) return 'not probed';
  const seen = probes.filter((probe) => outcome(probe) === 'seen').map((probe) => probe.name);
  const others = ['skipped', 'no chance', 'unknown']
    .map((word) => [word, probes.filter((probe) => outcome(probe) === word).length])
    .filter(([, times]) => times > 0)
    .map(([word, times]) => `; ${times} ${word}`);
  return `${seen.length} of ${probes.length} seen${seen.length > 0 ? `: ${list(seen)}` : ''}${others.join('')}`;
}

function atomics(sheet) {
  const found = sheet.lock_table;
  if (found === null || found.contended_mops === null || found.uncontended_mops === null) return 'not measured';
  return (
    `${quantity(found.contended_mops, 'Mops/s')} where all share a slot of the lock table, ` +
    `${quantity(found.uncontended_mops, 'Mops/s')} over ` +
    (found.slots === null ? 'many' : `${count(found.slots)} slots`)
  );
}

export function glanceSection(sheets) {
  const facts = [
    ['Schemes', schemes],
    ['Torn reads', tornReads],
    ['Effects', effects],
    ['Atomics', atomics],
  ];
  return section(
    'glance',
    'At a glance',
    element(
      'div',
      { class: 'cards' },
      sheets.map((sheet) =>
        element(
          'article',
          { class: 'card' },
          element('h3', {}, sheet.label),
          element(
            'dl',
            {},
            facts.map(([name, of]) => [element('dt', {}, name), element('dd', {}, of(sheet))]),
          ),
        ),
      ),
    ),
  );
}
