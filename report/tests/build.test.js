// The committed page equals a new build, and the C++ side finds its hole in it.

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';

import { filled, folder, hole } from './page.js';

const page = readFileSync(join(folder, 'page.html'));
const text = page.toString('utf8');

test('page.html is up to date: building it again gives the same bytes', () => {
  const scratch = mkdtempSync(join(tmpdir(), 'sidelatch-report-'));
  execFileSync(process.execPath, [join(folder, 'build.js'), join(scratch, 'page.html')]);
  const built = readFileSync(join(scratch, 'page.html'));
  rmSync(scratch, { recursive: true });
  assert.ok(built.equals(page), 'report/page.html is out of date; run report/build and commit it');
});

test('page.html is below 600 kB and has its hole once', () => {
  assert.ok(page.length < 600_000, `${page.length} bytes`);
  assert.equal(text.split(hole).length, 2);
});

test('page.html names nothing that a browser would fetch', () => {
  assert.doesNotMatch(text, /<(?:script|img|link|iframe)[^>]*\s(?:src|href)=/i);
  assert.doesNotMatch(text, /@import|url\(["']?https?:/i);
});

test('page.html holds the licences of what is bundled', () => {
  for (const name of ['@observablehq/plot', 'd3-scale', 'd3-array', 'interval-tree-1d', 'isoformat']) {
    assert.match(text, new RegExp(`${name} \\d`), name);
  }
  assert.match(text, /Observable, Inc\./);
  assert.match(text, /Mike Bostock/);
});

test('a template without its hole is refused', () => {
  assert.throws(() => filled([], text.replace(hole, '')), /hole/);
});
