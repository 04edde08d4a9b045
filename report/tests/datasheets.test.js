// The page's treatment of datasheets that are simulated, cut short, broken, newer, hostile or missing.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';

import { connectx5, hostile, mlx5, softnic, specimens } from './fixtures.js';
import { filled, hole, launch, open } from './page.js';

let browser;
before(async () => {
  browser = await launch();
});
after(() => browser.close());

const text = (page, selector) => page.locator(selector).first().innerText();

test('without datasheets the page says so', async () => {
  const page = await open(browser, filled([]));
  assert.match(await text(page, '#empty'), /There is no datasheet and no experiment in this page/);
  assert.equal(await page.locator('table, .drawing').count(), 0);
  assert.deepEqual(page.faults, []);
  await page.done();
});

test('the first line of a simulated device says that it is no NIC', async () => {
  const page = await open(browser, filled([['a.json', connectx5()]]));
  assert.equal(
    await page.evaluate(() => document.querySelector('h1').nextElementSibling.textContent),
    'This shows schemes under a profile, not a NIC.',
  );
  await page.done();
});

test('a NIC has no such line, and among others the simulated one is named', async () => {
  const alone = await open(browser, filled([['b.json', mlx5()]]));
  assert.equal(await alone.locator('#simulated').count(), 0);
  await alone.done();
  const page = await open(
    browser,
    filled([
      ['b.json', mlx5()],
      ['a.json', connectx5()],
    ]),
  );
  assert.equal(await text(page, '#simulated'), 'sim:connectx5: This shows schemes under a profile, not a NIC.');
  await page.done();
});

test('a datasheet of the software NIC is read as one of a NIC, and says which NIC it is', async () => {
  const page = await open(browser, filled([['a.json', softnic()]]));
  assert.equal(await page.locator('#problems, #simulated').count(), 0);
  const rows = await page
    .locator('#environment tbody tr')
    .evaluateAll((all) => all.map((row) => [...row.cells].map((cell) => cell.textContent).join(': ')));
  for (const row of [
    'Device: sidelatch0',
    'Fabric: softnic (the software NIC)',
    'Memory at: this machine',
    'Seed: none',
    'Firmware: unknown',
  ])
    assert.ok(rows.includes(row), `${row} should be among ${rows.join('; ')}`);
  assert.deepEqual(page.faults, []);
  await page.done();
});

test('a failure and an incomplete run are said plainly', async () => {
  const page = await open(browser, filled([['a.json', { ...mlx5(), complete: false, failure: 'the link went down' }]]));
  assert.match(await text(page, 'header .failure'), /mlx5_0: the run failed\. the link went down/);
  assert.match(await text(page, 'header .incomplete'), /mlx5_0: the run is incomplete/);
  await page.done();
  const whole = await open(browser, filled([['a.json', mlx5()]]));
  assert.equal(await whole.locator('header .notice').count(), 0);
  await whole.done();
});

test('a datasheet that is newer or lacks a part is named with its file and field, and the others are shown', async () => {
  const cases = specimens();
  const page = await open(browser, filled([...cases.map(([file, sheet]) => [file, sheet]), ['good.json', mlx5()]]));
  const said = await page.locator('#problems li').allInnerTexts();
  assert.equal(said.length, cases.length, said.join('\n'));
  cases.forEach(([file, , problem, shown], index) => {
    assert.ok(said[index].startsWith(`${file}: ${problem}`), `${said[index]} should begin with ${file}: ${problem}`);
    assert.equal(said[index].endsWith('It is not shown.'), !shown, said[index]);
  });
  const labels = await page.locator('#glance h3').allInnerTexts();
  assert.deepEqual(
    labels.filter((label) => label.startsWith('sim:')),
    cases.filter(([file, , , shown]) => shown && file !== 'no-device.json').map(([file]) => `sim:connectx5 (${file})`),
  );
  assert.equal(labels.at(-1), 'mlx5_0');
  // Faults in one datasheet do not affect another.
  const last = page.locator('[data-series="atomics/uncontended"] .points').last();
  assert.equal(await last.evaluate((points) => points.childElementCount), 10);
  assert.deepEqual(page.faults, []);
  await page.done();
});

test('a datasheet alone with parts missing shows what is there', async () => {
  const some = ['newer.json', 'no-probes.json', 'no-schemes.json', 'no-environment.json', 'no-series.json'];
  for (const [file, sheet, problem, shown] of specimens().filter(([name]) => some.includes(name))) {
    const page = await open(browser, filled([[file, sheet]]));
    assert.match(await text(page, '#problems'), new RegExp(file));
    assert.ok((await text(page, '#problems')).includes(problem), file);
    assert.equal(await page.locator('#glance').count(), shown ? 1 : 0, file);
    assert.equal(await page.locator('#empty').count(), shown ? 0 : 1, file);
    assert.deepEqual(page.faults, [], file);
    await page.done();
  }
});

test('a whole datasheet has no problem, and unknown fields are none', async () => {
  const sheet = { ...connectx5(), future: { deep: [1] } };
  Object.assign(sheet.environment, { weather: { sun: true } });
  sheet.probes.forEach((probe) => {
    probe.future = 1;
  });
  const page = await open(browser, filled([['a.json', sheet]]));
  assert.equal(await page.locator('#problems').count(), 0);
  await page.done();
});

test('numbers that are null are shown as unknown', async () => {
  const sheet = connectx5();
  const forget = (value, name) => {
    if (typeof value === 'number' && !['size', 'x', 'version'].includes(name)) return null;
    if (Array.isArray(value)) return value.map((item) => forget(item));
    if (value === null || typeof value !== 'object') return value;
    return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, forget(item, key)]));
  };
  const page = await open(browser, filled([['a.json', forget(sheet)]]));
  assert.equal(await page.locator('#problems').count(), 0);
  assert.deepEqual(page.faults, []);
  assert.match(await text(page, '#glance'), /0 of 12 seen; 1 skipped; 11 unknown/);
  assert.doesNotMatch(await text(page, 'main'), /NaN|undefined|\bnull\b|Infinity/);
  await page.done();
});

test('markup in a datasheet is shown as text', async () => {
  const { markup, sheet } = hostile();
  const html = filled([
    [`a${markup}.json`, sheet],
    ['b.json', { ...sheet, schema: null }],
  ]);
  const page = await open(browser, html);
  assert.deepEqual(page.faults, []);
  assert.equal(await page.evaluate(() => window.broken), undefined);
  assert.equal(await page.locator('main script, main img').count(), 0);
  assert.ok((await page.locator('main').textContent()).includes(markup));
  assert.ok((await page.title()).includes(markup));
  assert.equal(await page.locator('#schemes tbody tr th code', { hasText: markup }).count(), sheet.schemes.length);
  await page.done();
});

test('data that ends its element or is no list is reported, not shown as nothing', async () => {
  const template = filled([]);
  for (const [data, expected] of [
    ['[{"file":', /no JSON/],
    ['{"file": "a.json"}', /should be a list/],
  ]) {
    const page = await open(
      browser,
      template.replace(hole, () => hole.replace('[]', () => data)),
    );
    assert.match(await text(page, '#problems'), expected);
    assert.deepEqual(page.faults, []);
    await page.done();
  }
});
