// The head of the page: devices, experiments, problems, and the machines on which the datasheets were made.

import { element, section } from './dom.js';
import { fabrics, hasDevice } from './fabrics.js';
import { capitalised, count, quantity, unknown } from './numbers.js';
import { table } from './table.js';

const simulated = 'This shows schemes under a profile, not a NIC.';

function simulationLine(documents) {
  const some = documents.filter(({ fabric }) => fabric === 'sim');
  if (some.length === 0) return null;
  // If it applies to all documents, no names are needed.
  const names = some.length === documents.length ? '' : `${some.map(({ label }) => label).join(', ')}: `;
  return element('p', { class: 'notice', id: 'simulated' }, names + simulated);
}

function runLines(sheets) {
  return sheets.flatMap((sheet) => [
    sheet.failure &&
      element(
        'p',
        { class: 'notice failure', role: 'note' },
        element('strong', {}, `${sheet.label}: the run failed. `),
        sheet.failure,
      ),
    sheet.complete === false &&
      element(
        'p',
        { class: 'notice incomplete', role: 'note' },
        element('strong', {}, `${sheet.label}: the run is incomplete. `),
        'It was cut short; what was measured by then is shown.',
      ),
  ]);
}

export function problemLines(problems) {
  if (problems.length === 0) return null;
  return element(
    'section',
    { class: 'notice failure', id: 'problems', 'aria-label': 'Problems of the files' },
    element('p', {}, element('strong', {}, 'Not everything could be read.')),
    element(
      'ul',
      {},
      problems.map(({ file, problem, shown }) =>
        element(
          'li',
          {},
          element('code', {}, file),
          `: ${problem}. `,
          shown ? 'This part is left out.' : 'It is not shown.',
        ),
      ),
    ),
  );
}

function listed(experiments) {
  const names = [...new Set(experiments.map(({ experiment }) => experiment))];
  // More names would not fit into a title.
  if (names.length > 4) return `${experiments.length} experiments`;
  return `${experiments.length === 1 ? 'experiment' : 'experiments'} ${names.join(', ')}`;
}

function title(sheets, experiments) {
  const devices = [...new Set(sheets.map((sheet) => sheet.device))].join(', ');
  const parts = [
    ...(sheets.length > 0 ? [`datasheet of ${devices}`] : []),
    ...(experiments.length > 0 ? [listed(experiments)] : []),
  ];
  return capitalised(parts.join(', and ')) || 'sidelatch report';
}

/** The title, and the notices that a reader must not miss. */
export function head(sheets, experiments, problems) {
  return element(
    'header',
    {},
    element('h1', {}, title(sheets, experiments)),
    simulationLine([...sheets, ...experiments]),
    problemLines(problems),
    runLines(sheets),
  );
}

const yesNo = (value) => (value === true ? 'yes' : value === false ? 'no' : value);

/** A number, or the same as text, as "4 096 B", not "4 KiB", as is usual for an MTU. Other text stays unchanged. */
const inBytes = (value) => (/^\d+$/.test(value ?? '') ? count(Number(value), 'B') : value);

const fields = [
  ['File', (sheet) => sheet.file],
  ['Device', (sheet) => sheet.device],
  ['Fabric', (sheet) => fabrics[sheet.fabric]],
  ['Memory at', (sheet) => (sheet.fabric === 'sim' ? 'a simulated machine' : sheet.memory)],
  ['Seed', (sheet) => (hasDevice(sheet.fabric) ? 'none' : sheet.seed)],
  ['Firmware', (sheet) => sheet.environment.firmware],
  ['Driver', (sheet) => sheet.environment.driver],
  ['Kernel', (sheet) => sheet.environment.kernel],
  ['PCIe link', (sheet) => sheet.environment.pcie_link],
  ['Relaxed ordering', (sheet) => yesNo(sheet.environment.relaxed_ordering)],
  ['CPU', (sheet) => sheet.environment.cpu],
  ['NUMA node', (sheet) => sheet.environment.numa_node],
  ['MTU', (sheet) => inBytes(sheet.environment.mtu)],
  ['sidelatch', (sheet) => sheet.sidelatch],
  ['Time taken', (sheet) => quantity(sheet.seconds, 's')],
  ['Complete', (sheet) => yesNo(sheet.complete)],
];

export function environmentSection(sheets) {
  const known = (field, sheet) => ![null, undefined, unknown].includes(field[1](sheet));
  const value = (field, sheet) =>
    known(field, sheet) ? String(field[1](sheet)) : element('span', { class: 'aside' }, unknown);
  return section(
    'environment',
    'Environment',
    table({
      caption: 'Where and how this was measured',
      columns: [
        { heading: 'Property', rowHeading: true, cell: (field) => field[0] },
        ...sheets.map((sheet) => ({
          heading: sheets.length === 1 ? 'Value' : sheet.label,
          cell: (field) => value(field, sheet),
        })),
      ],
      // Most fields of a simulated machine are always unknown. Such rows are omitted if all datasheets are simulated.
      data: fields.filter((field) => sheets.some((sheet) => sheet.fabric !== 'sim' || known(field, sheet))),
    }),
  );
}
