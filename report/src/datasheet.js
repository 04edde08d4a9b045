// Checks the datasheets in the page: schema "sidelatch-datasheet", version 1. Missing or wrong parts are omitted and
// reported with file and field; the rest is shown. Unknown fields are ignored.

import { fabrics } from './fabrics.js';
import {
  flag,
  invalid,
  lenientRecord,
  listOf,
  mapOf,
  nullable,
  number,
  oneOf,
  optional,
  positive,
  record,
  scalar,
  text,
} from './shape.js';

const schemaName = 'sidelatch-datasheet';
const schemaVersion = 1;

const count = nullable(number);

const skippedProbe = record({ name: text, title: optional(nullable(text)), skipped: text });

const tornReadProbe = record({
  name: text,
  size: positive,
  reads: count,
  consistent: count,
  detected: count,
  undetected: count,
});

// `title` is a sentence that describes the effect; it is optional.
const effectProbe = record({
  name: text,
  title: optional(nullable(text)),
  chances: count,
  seen: count,
  bound95: optional(count),
  detail: optional(nullable(mapOf(scalar))),
});

function probe(value, path, problems) {
  if (value !== null && typeof value === 'object' && Object.hasOwn(value, 'skipped')) {
    return skippedProbe(value, path, problems);
  }
  return (value?.name === 'torn-read' ? tornReadProbe : effectProbe)(value, path, problems);
}

const lockTable = record({
  address_bits: count,
  slots: count,
  contended_mops: count,
  uncontended_mops: count,
});

const queuePairCache = record({ queue_pairs: count });

const series = record({
  name: text,
  title: optional(nullable(text)),
  x: text,
  x_unit: optional(nullable(text)),
  x_scale: optional(oneOf('log', 'linear'), 'linear'),
  unit: text,
  points: listOf(record({ x: number, y: count })),
});

const scheme = record({
  scheme: text,
  verdict: oneOf('safe', 'unsafe', 'not exercised'),
  known_broken: flag,
  evidence: nullable(text),
  assuming: optional(listOf(text), []),
  sizes: listOf(record({ size: positive, reads: count, accepted: count, rejected: count, torn: count })),
});

const maybe = optional(nullable(scalar));

const environment = lenientRecord(
  {
    firmware: maybe,
    driver: maybe,
    kernel: maybe,
    pcie_link: maybe,
    relaxed_ordering: maybe,
    cpu: maybe,
    numa_node: maybe,
    mtu: maybe,
  },
  {},
);

const datasheet = lenientRecord(
  {
    sidelatch: text,
    device: text,
    fabric: oneOf(...Object.keys(fabrics)),
    memory: maybe,
    seed: maybe,
    seconds: count,
    complete: flag,
    failure: optional(nullable(text)),
    environment,
    probes: listOf(probe),
    lock_table: nullable(lockTable),
    queue_pair_cache: optional(nullable(queuePairCache)),
    series: listOf(series),
    schemes: listOf(scheme),
  },
  { sidelatch: 'unknown', device: 'unknown device', environment: {}, probes: [], series: [], schemes: [] },
);

/** Why the page cannot read this schema, if it cannot. */
function schemaProblem(value) {
  if (value === null || typeof value !== 'object' || Array.isArray(value)) return 'is not a datasheet';
  const schema = value.schema;
  if (schema === null || typeof schema !== 'object') return 'schema: is missing; this is not a datasheet';
  if (schema.name !== schemaName) {
    return `schema.name: should be ${JSON.stringify(schemaName)}, not ${JSON.stringify(schema.name) ?? 'missing'}`;
  }
  if (schema.version !== schemaVersion) {
    const version = JSON.stringify(schema.version) ?? 'missing';
    const advice = schema.version > schemaVersion ? '; a newer sidelatch can read it' : '';
    return `schema.version: is ${version}, and this page knows version ${schemaVersion} only${advice}`;
  }
  return null;
}

function readOne({ file, datasheet: value }, problems) {
  const found = [];
  const unreadable = schemaProblem(value);
  if (unreadable) {
    problems.push({ file, problem: unreadable, shown: false });
    return null;
  }
  const sheet = datasheet(value, '', found);
  problems.push(...found.map((problem) => ({ file, problem, shown: true })));
  return sheet === invalid ? null : { ...sheet, file };
}

/** Gives each datasheet a unique label: the device, with the file if two devices have the same name. */
function label(sheets) {
  const times = (key, value) => sheets.filter((sheet) => sheet[key] === value).length;
  sheets.forEach((sheet, index) => {
    sheet.index = index;
    sheet.label = sheet.device;
    if (times('device', sheet.device) > 1) sheet.label += ` (${sheet.file})`;
    if (times('device', sheet.device) > 1 && times('file', sheet.file) > 1) sheet.label += ` ${index + 1}`;
  });
  return sheets;
}

/** The datasheets of entries {file, datasheet}. Adds their faults to the problems. */
export const readDatasheets = (entries, problems) =>
  label(entries.map((entry) => readOne(entry, problems)).filter((sheet) => sheet !== null));
