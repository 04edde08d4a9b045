// Each chart has a mark for each number of the datasheets, a name, and a legend if there are several datasheets.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';

import { connectx5, mlx5 } from './fixtures.js';
import { filled, launch, open } from './page.js';

let browser;
before(async () => {
  browser = await launch();
});
after(() => browser.close());

const count = (page, selector) => page.locator(selector).count();
const pointsOf = (sheet, name) =>
  sheet.series.find((series) => series.name === name).points.filter((point) => point.y !== null).length;

test('torn reads: three bars per size, and two in the enlarged chart', async () => {
  const sheet = connectx5();
  const page = await open(browser, filled([['a.json', sheet]]));
  const sizes = sheet.probes.filter((probe) => probe.name === 'torn-read').length;
  assert.equal(sizes, 9);
  assert.equal(await count(page, '[data-chart=torn-reads] .bars rect'), 3 * sizes);
  assert.equal(await count(page, '[data-chart=torn-reads-enlarged] .bars rect'), 2 * sizes);
  // The bars of one size lie end to end and together are as long as the axis of all reads.
  const ends = await page
    .locator('[data-chart=torn-reads] .bars rect')
    .evaluateAll((bars) => bars.map((bar) => [bar.y.baseVal.value, bar.x.baseVal.value, bar.width.baseVal.value]));
  const last = ends
    .filter(([y]) => y === Math.max(...ends.map(([other]) => other)))
    .sort((left, right) => left[1] - right[1]);
  assert.equal(last.length, 3);
  assert.ok(Math.abs(last[1][1] - (last[0][1] + last[0][2])) < 1);
  assert.ok(Math.abs(last[0][2] / last.reduce((sum, bar) => sum + bar[2], 0) - 19284 / 20000) < 0.01);
  await page.done();
});

test('torn reads: where none was torn the page says so instead of an empty chart', async () => {
  const sheet = connectx5();
  for (const probe of sheet.probes.filter((one) => one.name === 'torn-read')) {
    Object.assign(probe, { consistent: probe.reads, detected: 0, undetected: 0 });
  }
  const page = await open(browser, filled([['a.json', sheet]]));
  assert.equal(await count(page, '[data-chart=torn-reads-enlarged]'), 0);
  assert.match(await page.locator('#torn-reads').innerText(), /No read was torn/);
  await page.done();
});

test('order: a mark per probe that was not skipped and has a bound if it saw nothing, hollow with a line where the effect was not seen', async () => {
  const sheet = connectx5();
  const probes = sheet.probes.filter((probe) => probe.name !== 'torn-read' && (probe.seen > 0 || probe.bound95 > 0));
  const page = await open(browser, filled([['a.json', sheet]]));
  assert.equal(await count(page, '[data-chart=order] .marks > *'), probes.length);
  const hollow = await page
    .locator('[data-chart=order] .marks > *')
    .evaluateAll((marks) => marks.filter((mark) => getComputedStyle(mark).fill === 'rgb(255, 255, 255)').length);
  assert.equal(hollow, probes.filter((probe) => probe.seen === 0).length);
  assert.equal(await count(page, '[data-chart=order] .bounds line'), hollow);
  await page.done();
});

test('series: one chart per name, a mark per known value, a line per datasheet', async () => {
  const sheets = [connectx5(), mlx5()];
  const page = await open(
    browser,
    filled([
      ['a.json', sheets[0]],
      ['b.json', sheets[1]],
    ]),
  );
  assert.equal(await count(page, '[data-series]'), sheets[0].series.length);
  for (const { name } of sheets[0].series) {
    const chart = `[data-series="${name}"]`;
    const points = await page
      .locator(`${chart} .points`)
      .evaluateAll((groups) => groups.map((group) => group.childElementCount));
    assert.deepEqual(
      points,
      sheets.map((sheet) => pointsOf(sheet, name)),
      name,
    );
    assert.equal(await count(page, `${chart} .lines path`), 2);
    assert.equal(await count(page, `${chart} .legend li`), 2);
  }
  // The unknown value breaks its line in two.
  const broken = await page
    .locator('[data-series="atomics/by-stride"] .lines path')
    .evaluateAll((paths) => paths.map((path) => path.getAttribute('d').match(/M/g).length));
  assert.deepEqual(broken, [1, 2]);
  await page.done();
});

test('series: datasheets differ by colour, by symbol and by dash', async () => {
  const page = await open(
    browser,
    filled([
      ['a.json', connectx5()],
      ['b.json', mlx5()],
    ]),
  );
  const chart = page.locator('[data-series="atomics/uncontended"]');
  const looks = await chart.locator('.lines').evaluateAll((lines) =>
    lines.map((line) => {
      const path = line.querySelector('path') ?? line;
      return `${getComputedStyle(path).stroke} ${getComputedStyle(path).strokeDasharray}`;
    }),
  );
  assert.equal(new Set(looks.map((look) => look.split(') ')[0])).size, 2);
  assert.equal(new Set(looks.map((look) => look.split(') ')[1])).size, 2);
  const shapes = await chart
    .locator('.points > *:first-child')
    .evaluateAll((marks) => marks.map((mark) => mark.tagName + (mark.getAttribute('d') ?? '')));
  assert.equal(new Set(shapes).size, 2);
  await page.done();
});

test('series: each value of a logarithmic axis of few values has its label', async () => {
  const page = await open(browser, filled([['a.json', connectx5()]]), { viewport: { width: 1000, height: 800 } });
  const labels = await page.locator('[data-series="latency"] [aria-label^="x-axis tick label"] text').allTextContents();
  assert.ok(labels.includes('64\u202fB') && labels.includes('16\u202fKiB'), labels.join());
  assert.ok(labels.every((label) => label !== ''));
  await page.done();
});

test('series: in one datasheet those of a family share a chart, if they share their axes', async () => {
  const sheet = connectx5();
  sheet.series.push({ ...sheet.series[4], name: 'latency/CAS', title: 'CAS latency', unit: 'ns' });
  const page = await open(browser, filled([['a.json', sheet]]));
  const charts = await page.locator('[data-series]').evaluateAll((nodes) => nodes.map((node) => node.dataset.series));
  assert.deepEqual(charts, ['atomics/by-stride', 'atomics', 'read/by-queue-pairs', 'latency', 'latency/CAS']);
  const latency = page.locator('[data-series=latency]');
  assert.equal(await latency.locator('figcaption').innerText(), 'Latency by size');
  assert.deepEqual(await latency.locator('.legend li').allInnerTexts(), [
    'READ latency, median',
    'WRITE latency, median',
  ]);
  const points = latency.locator('.points');
  assert.deepEqual(await points.evaluateAll((groups) => groups.map((group) => group.childElementCount)), [9, 9]);
  const colors = await latency
    .locator('.lines')
    .evaluateAll((lines) => lines.map((line) => getComputedStyle(line.querySelector('path') ?? line).stroke));
  assert.equal(new Set(colors).size, 2);
  await latency.locator('summary').click();
  assert.deepEqual(
    await latency
      .locator('thead th')
      .allInnerTexts()
      .then((all) => all.map((text) => text.trim().split('\u00a0')[0])),
    ['size', 'READ latency, median', 'WRITE latency, median'],
  );
  assert.match(await latency.locator('.drawing svg').getAttribute('aria-label'), /WRITE latency, median: 9 points/);
  assert.deepEqual(page.faults, []);
  await page.done();
});

test('series: a family of more lines than there are looks is not drawn in one chart', async () => {
  const sheet = connectx5();
  const [first] = sheet.series;
  sheet.series = Array.from({ length: 7 }, (_, index) => ({ ...first, name: `rate/${index}` }));
  const page = await open(browser, filled([['a.json', sheet]]));
  assert.equal(await count(page, '[data-series]'), 7);
  await page.done();
});

test('series of one name in two units get a chart each', async () => {
  const sheets = [connectx5(), mlx5()];
  sheets[1].series[0].unit = 'ops/s';
  const page = await open(
    browser,
    filled([
      ['a.json', sheets[0]],
      ['b.json', sheets[1]],
    ]),
  );
  assert.equal(await count(page, '[data-series="atomics/by-stride"]'), 2);
  await page.done();
});

test('a series whose logarithmic axis would hold a 0, or that has no known value, does no harm', async () => {
  const sheet = connectx5();
  sheet.series[0].points[0].x = 0;
  sheet.series[1].points.forEach((point) => {
    point.y = null;
  });
  sheet.series[2].points = [];
  const page = await open(browser, filled([['a.json', sheet]]));
  assert.deepEqual(page.faults, []);
  assert.equal(await count(page, '[data-series="atomics/by-stride"] .points > *'), 11);
  assert.equal(await count(page, '[data-series="atomics/uncontended"] .points > *'), 0);
  await page.done();
});

test('every chart is an image with a name of its own', async () => {
  const page = await open(
    browser,
    filled([
      ['a.json', connectx5()],
      ['b.json', mlx5()],
    ]),
  );
  const names = await page
    .locator('.drawing svg')
    .evaluateAll((drawings) =>
      drawings.map((drawing) => (drawing.getAttribute('role') === 'img' ? drawing.getAttribute('aria-label') : '')),
    );
  assert.equal(names.length, 2 * 2 + 1 + 6);
  assert.ok(
    names.every((name) => name.length > 20),
    names.join('\n'),
  );
  assert.match(names.join('\n'), /CAS on one word, by workers\. sim:connectx5: 10 points, largest 2\.4/);
  await page.done();
});
