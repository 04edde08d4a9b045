// Numbers are rounded as documented, and a bound is never rounded down.

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { bound, bytes, count, interval, percent, quantity } from '../src/numbers.js';

const same = (text, expected) => assert.equal(text.replaceAll('\u202f', ' '), expected);

test('counts are exact and in groups of three', () => {
  same(count(0), '0');
  same(count(999), '999');
  same(count(20000), '20 000');
  same(count(1234567), '1 234 567');
  same(count(null), 'unknown');
});

test('rates have at most three significant digits and a unit', () => {
  same(quantity(51.2345, 'Mops/s'), '51.2 Mops/s');
  same(quantity(2.4, 'Mops/s'), '2.4 Mops/s');
  same(quantity(1234.5, 'us'), '1 230 us');
  same(quantity(0.00012345, 's'), '0.000123 s');
  same(quantity(100), '100');
  same(quantity(0, 's'), '0 s');
  same(quantity(null, 's'), 'unknown');
});

test('bytes are in KiB or MiB where that is whole', () => {
  same(bytes(64), '64 B');
  same(bytes(1000), '1 000 B');
  same(bytes(4096), '4 KiB');
  same(bytes(1048576), '1 MiB');
});

test('what is not all reads is not shown as 100 %', () => {
  same(percent(1), '100 %');
  same(percent(0.99996), '> 99.9 %');
  same(percent(0.03547), '3.55 %');
  same(percent(0), '0 %');
});

test('an interval has the places of its half width, which is rounded up', () => {
  same(interval(24.096, 0.0312), '24.096 ± 0.032');
  same(interval(0.0823, 0.00117), '0.0823 ± 0.0012');
  same(interval(0.136, 0.0099), '0.1360 ± 0.0099');
  same(interval(0.136, 0.00991), '0.1360 ± 0.0100');
  same(interval(123456.7, 1234), '123 457 ± 1 234');
  same(interval(24.096, 1e-9), '24.0960 ± 0.0001');
  same(interval(0.3, 5), '0.3 ± 5.0');
  same(interval(0, 0.25), '0.00 ± 0.25');
  same(interval(51.282, 0), '51.3 ± 0');
  same(interval(51.282, null), '51.3');
  same(interval(null, 0.1), 'unknown');
  for (let step = 1; step < 2000; step += 7) {
    const width = step / 1999993;
    const said = Number(interval(0.5, width).split('±')[1].trim());
    assert.ok(said >= width * (1 - 1e-6), String(width));
  }
});

test('a bound is rounded up', () => {
  same(bound(0.00003), 'at most 0.003 %');
  same(bound(3 / 180000), 'at most 0.0017 %');
  same(bound(0.000030001), 'at most 0.0031 %');
  same(bound(1), 'at most 100 %');
  for (let step = 1; step < 2000; step += 7) {
    const probability = step / 1999993;
    assert.ok(Number(bound(probability).match(/[\d.]+/)[0]) >= probability * 100 * (1 - 1e-9), String(probability));
  }
});
