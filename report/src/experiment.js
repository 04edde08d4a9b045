// Checks the results of experiments in the page: schema "sidelatch-experiment", version 1, as `sidelatch bench NAME
// --json` prints it. Missing or wrong parts are omitted and reported with file and field; the rest is shown. Unknown
// fields are ignored.

import { fabrics, hasDevice } from './fabrics.js';
import { capitalised } from './numbers.js';
import {
  flag,
  lenientRecord,
  listOf,
  notNegative,
  nullable,
  number,
  oneOf,
  optional,
  orElse,
  record,
  scalar,
  text,
} from './shape.js';

const schemaName = 'sidelatch-experiment';
const schemaVersion = 1;

const point = record({
  x: number,
  y: nullable(number),
  // A value without its interval is still a value.
  half_width: orElse(optional(nullable(notNegative)), null),
});

const series = record({ panel: optional(text, ''), name: text, unit: text, points: listOf(point) });

// A number's measured value is a number, a shape's is a text that describes the result.
const target = record({
  id: text,
  kind: oneOf('number', 'shape'),
  expected: nullable(number),
  measured: scalar,
  unit: text,
  ratio: nullable(number),
  ok: flag,
});

const always = {
  version: text,
  experiment: text,
  title: text,
  figure: text,
  fabric: oneOf(...Object.keys(fabrics)),
  seed: nullable(number),
  x: text,
  x_scale: oneOf('log', 'linear', 'categories'),
  series: listOf(series),
  targets: listOf(target),
};

// Replaces wrong fields. Unknown series and targets are left undefined, so that the page does not claim that there are
// none.
const instead = { experiment: 'unknown experiment', title: '', figure: '', x: 'x', x_scale: 'linear', x_names: [] };

const maybe = optional(nullable(text));

/** Fields that depend on other fields. */
const dependent = ({ fabric, x_scale: scale }) => ({
  profile: fabric === 'sim' ? text : maybe,
  device: hasDevice(fabric) ? text : maybe,
  // The third name belongs to x = 3, whatever the second one is.
  ...(scale === 'categories' && { x_names: listOf(orElse(text, null)) }),
});

/** Why the page cannot read this schema, if it cannot. */
function schemaProblem(value) {
  if (value === null || typeof value !== 'object' || Array.isArray(value)) return "is not an experiment's result";
  const { schema } = value;
  if (schema === undefined) return "schema: is missing; this is not an experiment's result, or an old one";
  if (schema === null || typeof schema !== 'object') return 'schema: should be a name and a version';
  if (schema.name !== schemaName) {
    return `schema.name: should be ${JSON.stringify(schemaName)}, not ${JSON.stringify(schema.name) ?? 'missing'}`;
  }
  if (schema.version === schemaVersion) return null;
  const advice = schema.version > schemaVersion ? '; a newer sidelatch can read it' : '';
  return (
    `schema.version: is ${JSON.stringify(schema.version) ?? 'missing'}, ` +
    `and this page knows version ${schemaVersion} only${advice}`
  );
}

function readOne({ file, experiment: value }, problems) {
  const unreadable = schemaProblem(value);
  if (unreadable) {
    problems.push({ file, problem: unreadable, shown: false });
    return null;
  }
  const found = [];
  const result = lenientRecord(always, instead)(value, '', found);
  const more = lenientRecord(dependent(result), instead)(value, '', found);
  problems.push(...found.map((problem) => ({ file, problem, shown: true })));
  return { ...result, ...more, file };
}

/** Where the experiment ran: a NIC's device, or a simulated NIC in the notation of `sidelatch devices`. */
export const worldOf = ({ fabric, profile, device }) =>
  (hasDevice(fabric) ? device : profile && `${fabric ?? 'unknown'}:${profile}`) ?? 'an unknown NIC';

/**
 * A unique name for each experiment. Equal names get their difference appended: (sim:connectx7), or (mlx5_0, b.json).
 */
function toldApart(experiments, nameOf) {
  const differences = [
    (experiment) => experiment.experiment,
    worldOf,
    ({ seed }) => `seed ${seed ?? 'unknown'}`,
    ({ file }) => file,
    (experiment) => `number ${experiments.indexOf(experiment) + 1}`,
  ];
  return experiments.map((experiment) => {
    let alike = experiments.filter((other) => nameOf(other) === nameOf(experiment));
    const said = [];
    for (const difference of differences) {
      const own = difference(experiment);
      if (alike.every((other) => difference(other) === own)) continue;
      said.push(own);
      alike = alike.filter((other) => difference(other) === own);
    }
    return nameOf(experiment) + (said.length > 0 ? ` (${said.join(', ')})` : '');
  });
}

/** Gives each experiment a `heading` for its section and a short `label`; no two are the same. */
function name(experiments) {
  const headings = toldApart(experiments, ({ title, experiment }) => capitalised(title) || experiment);
  const labels = toldApart(experiments, ({ experiment }) => experiment);
  return experiments.map((experiment, index) => ({ ...experiment, heading: headings[index], label: labels[index] }));
}

/** The experiments of entries {file, experiment}. Adds their faults to the problems. */
export const readExperiments = (entries, problems) =>
  name(entries.map((entry) => readOne(entry, problems)).filter((experiment) => experiment !== null));
