// Verdicts: a word, a mark and a colour, so that none is the only signal.

import { element } from './dom.js';

const marks = { safe: '✓', unsafe: '✗', 'not exercised': '○' };
const order = ['unsafe', 'not exercised', 'safe'];

export const verdictRank = (word) => (order.includes(word) ? order.indexOf(word) : null);

/** The badge of a good, bad or neutral word. */
export const badge = (word, kind, mark) =>
  element('span', { class: `badge ${kind}` }, element('span', { 'aria-hidden': 'true' }, mark), ` ${word}`);

export function verdictBadge(word) {
  const kind = { safe: 'good', unsafe: 'bad' }[word] ?? 'neither';
  return badge(word, kind, marks[word] ?? '?');
}
