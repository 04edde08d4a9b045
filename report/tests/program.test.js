// The program itself, end to end: it checks two simulated NICs, runs an experiment, and makes a page of them that shows
// everything.

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';

import { filled, launch, open } from './page.js';

const program = process.env.SIDELATCH_PROGRAM;
const skip = program ? false : 'SIDELATCH_PROGRAM does not name the program sidelatch, and build/release has none';
const profiles = ['connectx5', 'connectx7'];

/** Runs the program, which must end with one of these statuses. Returns its output. */
function run(statuses, ...words) {
  const { status, stdout, stderr, error } = spawnSync(program, words, { encoding: 'utf8' });
  assert.ok(statuses.includes(status), `${program} ${words.join(' ')} ended with ${status}: ${error ?? stderr}`);
  return stdout;
}

/** Clicks each heading twice and returns texts of unsorted columns; compares only columns of plain numbers. */
const unsorted = (page) =>
  page.evaluate(() => {
    const number = (text) => (/^[\d\u202f.]+$/.test(text) ? Number(text.replaceAll('\u202f', '')) : null);
    const found = [];
    let clicked = 0;
    for (const table of document.querySelectorAll('main table')) {
      const rows = table.tBodies[0].rows.length;
      [...table.tHead.rows[0].cells].forEach((heading, index) => {
        const button = heading.querySelector('button');
        if (!button) return;
        for (const direction of ['ascending', 'descending']) {
          button.click();
          clicked += 1;
          const values = [...table.tBodies[0].rows].map((row) => number(row.cells[index].textContent));
          const sign = direction === 'ascending' ? 1 : -1;
          const plain = values.every((value) => value !== null);
          const inOrder = !plain || values.every((value, row) => row === 0 || sign * (value - values[row - 1]) >= 0);
          if (heading.ariaSort !== direction || !inOrder || values.length !== rows)
            found.push(`${table.caption.textContent}: ${heading.textContent}, ${direction}`);
        }
      });
    }
    return { clicked, found };
  });

/** The charts without a single mark, by their headings. */
const empty = (page) =>
  page
    .locator('figure.chart')
    .evaluateAll((figures) =>
      figures
        .filter((figure) => !figure.querySelector('.bars rect, .marks > *, .points > *'))
        .map((figure) => figure.querySelector('figcaption').textContent),
    );

describe('the program', { skip }, () => {
  let browser;
  let scratch;
  before(async () => {
    browser = await launch();
    scratch = mkdtempSync(join(tmpdir(), 'sidelatch-report-'));
    for (const profile of profiles) {
      // 1: a scheme tore that is not known to be broken. The page shows that like everything else.
      const small = ['--reads', '500', '--sizes', '64,512'];
      run([0, 1], 'check', '--fabric', 'sim', '--profile', profile, ...small, '--out', join(scratch, profile));
    }
    run([0], 'report', ...profiles.map((profile) => join(scratch, profile)), '-o', join(scratch, 'page.html'));
  });
  after(async () => {
    await browser?.close();
    if (scratch) rmSync(scratch, { recursive: true });
  });

  const sheet = (profile) => JSON.parse(readFileSync(join(scratch, profile, 'check.json'), 'utf8'));
  const entries = (names) => names.map((profile) => [`${profile}/check.json`, sheet(profile)]);
  const pages = [
    // The page compiled into the program, and the one that the next build compiles in.
    ['its own page', 2, () => readFileSync(join(scratch, 'page.html'), 'utf8')],
    ['report/page.html', 2, () => filled(entries(profiles))],
    ['report/page.html with one datasheet', 1, () => filled(entries(profiles.slice(0, 1)))],
  ];
  for (const [name, datasheets, html] of pages) {
    test(`${name} shows what it measured, without a fault`, async () => {
      const page = await open(browser, html());
      assert.equal(await page.locator('#glance article').count(), datasheets);
      assert.equal(await page.locator('#problems').count(), 0);
      const main = await page.locator('main').textContent();
      assert.doesNotMatch(main, /: is missing|: should be|NaN|undefined|\[object/);

      const measured = profiles.slice(0, datasheets).map(sheet);
      const charts = await page.locator('figure.chart').count();
      assert.ok(charts >= datasheets + 1, `${charts} charts`); // torn reads of each, and the effects
      assert.deepEqual(await empty(page), []);
      for (const { series } of measured)
        assert.equal((await page.locator('[data-series]').count()) > 0, series.length > 0);
      for (const effect of measured.flatMap(({ probes }) => probes).filter((probe) => probe.name !== 'torn-read'))
        assert.ok((await page.locator('#order tbody th code', { hasText: effect.name }).count()) > 0, effect.name);

      const { clicked, found } = await unsorted(page);
      assert.ok(clicked > 20, `${clicked} clicks`);
      assert.deepEqual(found, []);
      assert.deepEqual(page.faults, []);
      await page.done();
    });
  }

  test('an experiment of it becomes a figure with its targets and numbers', async () => {
    const text = run([0], 'bench', 'latch-ablation', '--json');
    const experiment = JSON.parse(text);
    const file = join(scratch, 'latch-ablation.json');
    writeFileSync(file, text);
    run([0], 'report', file, '-o', join(scratch, 'experiment.html'));
    for (const html of [readFileSync(join(scratch, 'experiment.html'), 'utf8'), filled([[file, experiment]])]) {
      const page = await open(browser, html);
      assert.equal(await page.locator('#problems').count(), 0, await page.locator('main').innerText());
      assert.equal(await page.title(), 'Experiment latch-ablation');
      assert.equal(await page.locator('main > section').count(), 1);
      assert.deepEqual(await empty(page), []);
      const { series, targets, x_names: names } = experiment;
      const points = series.flatMap((one) => one.points);
      assert.equal(await page.locator('.bars rect').count(), points.length);
      // Each value has its interval, because it is known on a simulated NIC.
      assert.equal(await page.locator('.intervals line').count(), points.filter((one) => one.half_width > 0).length);
      assert.ok(points.every((one) => typeof one.half_width === 'number'));
      const labels = await page.locator('[aria-label^="fx-axis tick label"] text').allTextContents();
      assert.deepEqual(labels, names);
      assert.deepEqual(
        await page.locator('.legend li').allTextContents(),
        series.map(({ name }) => name),
      );
      assert.equal(await page.locator('table.targets tbody tr').count(), targets.length);
      assert.equal(await page.locator('details.numbers tbody tr').count(), names.length);
      assert.doesNotMatch(await page.locator('main').textContent(), /unknown|NaN|undefined|\[object/);
      assert.deepEqual(page.faults, []);
      await page.done();
    }
  });
});
