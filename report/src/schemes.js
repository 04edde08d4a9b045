// The verdicts on the schemes, as a table. It has one column of verdicts per datasheet and marks the schemes on which
// they disagree.

import { element, section } from './dom.js';
import { bytes, count } from './numbers.js';
import { table } from './table.js';
import { verdictBadge, verdictRank } from './verdict.js';

/** One row per scheme: {name, broken, of: the scheme in each datasheet or undefined, change: text or null}. */
export function schemeRows(sheets) {
  const names = [...new Set(sheets.flatMap((sheet) => sheet.schemes.map((scheme) => scheme.scheme)))];
  const rows = names.map((name) => {
    const of = sheets.map((sheet) => sheet.schemes.find((scheme) => scheme.scheme === name));
    return { name, of, broken: of.some((scheme) => scheme?.known_broken), change: change(of) };
  });
  // Specimens are wrong on purpose. They come last, so that readers who choose a scheme need not read past them.
  return [...rows.filter((row) => !row.broken), ...rows.filter((row) => row.broken)];
}

/** How the verdicts differ, from the first datasheet on; null if they do not. */
function change(of) {
  const verdicts = of.map((scheme) => scheme?.verdict ?? 'not there');
  return new Set(verdicts).size > 1 ? verdicts.join(' → ') : null;
}

function assumptions(scheme) {
  if (scheme.assuming.length === 0) return null;
  const things = scheme.assuming.length === 1 ? '1 assumption' : `${scheme.assuming.length} assumptions`;
  return element(
    'details',
    // A few assumptions are quick to read; many would push the next scheme away.
    { class: 'assumptions', open: scheme.assuming.length <= 3 },
    element('summary', {}, things),
    element(
      'ul',
      {},
      scheme.assuming.map((line) => element('li', {}, line)),
    ),
  );
}

function bySize(scheme, label) {
  if (scheme.sizes.length === 0) return null;
  const of = label ? `, ${label}` : '';
  const number = (heading, field) => ({ heading, numeric: true, cell: (row) => count(row[field]) });
  return element(
    'details',
    {},
    element('summary', {}, `Reads by size${of}`),
    table({
      caption: `${scheme.scheme}, reads by size${of}`,
      columns: [
        { heading: 'Size', rowHeading: true, cell: (row) => bytes(row.size) },
        number('Reads', 'reads'),
        number('Accepted', 'accepted'),
        number('Rejected', 'rejected'),
        number('Torn', 'torn'),
      ],
      data: scheme.sizes,
    }),
  );
}

/** The reasons for the verdicts of a row; datasheets with the same reason share the sentence. */
function reasons(row, sheets) {
  const groups = new Map();
  row.of.forEach((scheme, index) => {
    if (!scheme) return;
    const said = JSON.stringify([scheme.evidence, scheme.assuming]);
    groups.set(said, [...(groups.get(said) ?? []), { scheme, label: sheets[index].label }]);
  });
  const several = sheets.length > 1;
  return [...groups.values()].map((group) =>
    element(
      'div',
      { class: 'reason' },
      element(
        'p',
        {},
        groups.size > 1 && element('strong', {}, `${group.map((one) => one.label).join(', ')}: `),
        group[0].scheme.evidence ?? 'no reason given',
      ),
      assumptions(group[0].scheme),
      group.map((one) => bySize(one.scheme, several ? one.label : null)),
    ),
  );
}

function columns(sheets) {
  const verdicts = sheets.map((sheet, index) => ({
    heading: sheets.length === 1 ? 'Verdict' : sheet.label,
    cell: (row) => (row.of[index] ? verdictBadge(row.of[index].verdict) : 'not there'),
    sort: (row) => verdictRank(row.of[index]?.verdict),
  }));
  const changed = {
    heading: 'Changed',
    cell: (row) => (row.change ? element('span', { class: 'changed' }, `changed: ${row.change}`) : 'same'),
    sort: (row) => (row.change ? 0 : 1),
  };
  return [
    {
      heading: 'Scheme',
      rowHeading: true,
      sort: (row) => row.name,
      cell: (row) => [
        element('code', {}, row.name),
        row.broken && element('span', { class: 'aside' }, 'a specimen, known to be broken'),
      ],
    },
    ...verdicts,
    ...(sheets.length > 1 ? [changed] : []),
    { heading: 'Reason', wide: true, cell: (row) => reasons(row, sheets) },
  ];
}

export function schemesSection(sheets) {
  const rows = schemeRows(sheets);
  const intro = element(
    'p',
    {},
    element('strong', {}, 'unsafe'),
    ': a read accepted a mixture of two writes, or an update was lost. ',
    element('strong', {}, 'not exercised'),
    ': nothing of that was seen, which proves nothing. ',
    element('strong', {}, 'safe'),
    ': the explorer finds no execution of the memory model that breaks the scheme, for small programs, under the ' +
      'assumptions that its row names; each of these had chances to be refuted by a probe, and was not. In the source ' +
      'tree, docs/schemes.md says what each scheme guarantees and costs, and docs/verdicts.md why the broken ones are ' +
      'broken.',
  );
  if (rows.length === 0) return section('schemes', 'Schemes', element('p', {}, 'No scheme was judged.'));
  return section(
    'schemes',
    'Schemes',
    intro,
    table({
      caption: 'Verdict of each scheme',
      className: 'schemes',
      columns: columns(sheets),
      data: rows,
    }),
  );
}
