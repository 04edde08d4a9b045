// Rules for the form of values. A rule takes a value, the path that names it and a list of problems. It returns the
// usable value, or adds a line such as "probes[3].chances: is missing" and returns `invalid`.

export const invalid = Symbol('invalid');

const described = (value) => {
  if (value === null) return 'null';
  if (Array.isArray(value)) return 'a list';
  return typeof value === 'object' ? 'an object' : `the ${typeof value} ${JSON.stringify(value)}`;
};

function expect(holds, wanted) {
  return (value, path, problems) => {
    if (value !== undefined && holds(value)) return value;
    problems.push(`${path}: ${value === undefined ? 'is missing' : `should be ${wanted}, not ${described(value)}`}`);
    return invalid;
  };
}

export const text = expect((value) => typeof value === 'string', 'a string');
export const flag = expect((value) => typeof value === 'boolean', 'true or false');
export const number = expect((value) => typeof value === 'number', 'a number');
export const positive = expect((value) => typeof value === 'number' && value > 0, 'a number above 0');
export const notNegative = expect((value) => typeof value === 'number' && value >= 0, 'a number of at least 0');
export const scalar = expect((value) => value === null || typeof value !== 'object', 'a string, a number or null');

export const oneOf = (...words) =>
  expect((value) => words.includes(value), words.map((word) => JSON.stringify(word)).join(' or '));

export const nullable = (rule) => (value, path, problems) => (value === null ? null : rule(value, path, problems));

/** An optional field; `otherwise` is its default. */
export function optional(rule, otherwise = null) {
  return (value, path, problems) => (value === undefined ? otherwise : rule(value, path, problems));
}

/** Reports a wrong value and replaces it by `otherwise`. */
export const orElse = (rule, otherwise) => (value, path, problems) => {
  const found = rule(value, path, problems);
  return found === invalid ? otherwise : found;
};

/** A list. Omits invalid items and reports them. */
export function listOf(rule) {
  const list = expect(Array.isArray, 'a list');
  return (value, path, problems) => {
    const items = list(value, path, problems);
    if (items === invalid) return invalid;
    return items.map((item, index) => rule(item, `${path}[${index}]`, problems)).filter((item) => item !== invalid);
  };
}

const object = expect((value) => value !== null && typeof value === 'object' && !Array.isArray(value), 'an object');

/** An object with these fields; others are ignored. One wrong field makes the whole object invalid. */
export function record(fields) {
  return (value, path, problems) => {
    if (object(value, path, problems) === invalid) return invalid;
    const result = {};
    let whole = true;
    for (const [name, rule] of Object.entries(fields)) {
      result[name] = rule(
        Object.hasOwn(value, name) ? value[name] : undefined,
        path ? `${path}.${name}` : name,
        problems,
      );
      whole = whole && result[name] !== invalid;
    }
    return whole ? result : invalid;
  };
}

/** As record(), but a wrong field takes its value from `instead`, and the others are still used. */
export function lenientRecord(fields, instead) {
  return (value, path, problems) => {
    if (object(value, path, problems) === invalid) return invalid;
    const result = {};
    for (const [name, rule] of Object.entries(fields)) {
      const field = rule(
        Object.hasOwn(value, name) ? value[name] : undefined,
        path ? `${path}.${name}` : name,
        problems,
      );
      result[name] = field === invalid ? (instead[name] ?? null) : field;
    }
    return result;
  };
}

/** An object with any keys, whose values the rule accepts. */
export function mapOf(rule) {
  return (value, path, problems) => {
    if (object(value, path, problems) === invalid) return invalid;
    const entries = Object.entries(value).map(([name, item]) => [name, rule(item, `${path}.${name}`, problems)]);
    return entries.filter(([, item]) => item !== invalid);
  };
}
