// Formats the page's numbers: digits in groups of three with a thin space, rates with at most three significant digits,
// every number with its unit. Also capitalises headings.

const thin = '\u202f'; // a thin space that does not break lines

const known = (value) => typeof value === 'number' && Number.isFinite(value);

/** Replaces an unknown number. */
export const unknown = 'unknown';

function grouped(digits) {
  const [whole, fraction] = digits.split('.');
  const groups = whole.replace(/\B(?=(\d{3})+$)/g, thin);
  return fraction ? `${groups}.${fraction}` : groups;
}

/** Plain decimal digits of a number, rounded to so many significant ones; 1e-7 becomes 0.0000001. */
function decimals(value, significant, round = Math.round) {
  if (value === 0) return '0';
  const exponent = Math.floor(Math.log10(Math.abs(value)));
  const places = significant - 1 - exponent;
  // The small term cancels floating-point error: 0.003 is 30.000000000000004 steps of 0.0001.
  const slack = round === Math.ceil ? -1e-9 : 0;
  const steps = round(value * 10 ** places + slack);
  const text = places > 0 ? (steps / 10 ** places).toFixed(Math.min(places, 100)) : String(steps * 10 ** -places);
  return text.includes('.') ? text.replace(/\.?0+$/, '') : text;
}

/** A count, exact: 20 000. */
export const count = (value, unit = '') =>
  known(value) ? grouped(String(value)) + (unit ? `${thin}${unit}` : '') : unknown;

/** A rate or a time, with at most three significant digits: 51.2 Mops/s. */
export function quantity(value, unit = '') {
  if (!known(value)) return unknown;
  return grouped(decimals(value, 3)) + (unit ? `${thin}${unit}` : '');
}

/** Bytes, in KiB or MiB if that is a whole number. */
export function bytes(value) {
  if (!known(value)) return unknown;
  if (value > 0 && value % 2 ** 20 === 0) return `${count(value / 2 ** 20)}${thin}MiB`;
  if (value > 0 && value % 2 ** 10 === 0) return `${count(value / 2 ** 10)}${thin}KiB`;
  return `${count(value)}${thin}B`;
}

/** A share of 0 to 1 in per cent, with three significant digits. Less than all is never shown as 100 %. */
export function percent(share) {
  if (!known(share)) return unknown;
  if (share < 1 && share > 0.9995) return `>${thin}99.9${thin}%`;
  return `${grouped(decimals(share * 100, 3))}${thin}%`;
}

/** An upper bound of a probability in per cent, rounded up to remain a bound: at most 0.0017 %. */
export function bound(probability) {
  if (!known(probability)) return unknown;
  return `at most ${decimals(Math.min(probability, 1) * 100, 2, Math.ceil)}${thin}%`;
}

/**
 * A value with half the width of its interval: 24.096 ± 0.004. Both have as many places as the width's second digit,
 * but the value has at most six digits. The width is rounded up, so that the interval remains valid.
 */
export function interval(value, halfWidth) {
  if (!known(value) || !known(halfWidth) || halfWidth <= 0) {
    return quantity(value) + (known(value) && halfWidth === 0 ? `${thin}±${thin}0` : '');
  }
  const exponent = (number) => Math.floor(Math.log10(Math.abs(number)));
  const finest = value === 0 ? 12 : 5 - exponent(value);
  const places = Math.min(Math.max(0, Math.min(1 - exponent(halfWidth), finest)), 100);
  const width = Math.ceil(halfWidth * 10 ** places - 1e-9) / 10 ** places;
  return `${grouped(value.toFixed(places))}${thin}±${thin}${grouped(width.toFixed(places))}`;
}

/** The words with a capital first letter, for headings. */
export const capitalised = (words) => words.charAt(0).toUpperCase() + words.slice(1);

/** A value of an axis in its unit. */
export const axisValue = (value, unit) => (unit === 'B' ? bytes(value) : quantity(value, unit));
