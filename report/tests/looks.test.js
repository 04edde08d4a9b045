// The page is readable in light and dark, on narrow screens and on paper, and fetches nothing.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';

import { atomicsStride, kvStore, latchAblation } from './experiment_fixtures.js';
import { connectx5, mlx5 } from './fixtures.js';
import { lowContrast, overflow } from './looks.js';
import { filled, launch, open } from './page.js';

let browser;
before(async () => {
  browser = await launch();
});
after(() => browser.close());

const all = () =>
  filled([
    ['connectx5.json', connectx5()],
    ['mlx5.json', mlx5()],
    ['kv-store.json', kvStore()],
    ['atomics-stride.json', atomicsStride()],
    ['latch-ablation.json', latchAblation()],
  ]);
const openAll = (page) =>
  page.evaluate(() =>
    document.querySelectorAll('details').forEach((details) => {
      details.open = true;
    }),
  );

test('the page loads with the network off, without a request and without an error', async () => {
  const page = await open(browser, all());
  await openAll(page);
  assert.deepEqual(page.faults, []);
  assert.equal(
    await page.title(),
    'Datasheet of sim:connectx5, mlx5_0, and experiments kv-store, atomics-stride, latch-ablation',
  );
  await page.done();
});

test('a request, a page error and a console error are noticed', async () => {
  const unguarded = all().replace(/<meta http-equiv="Content-Security-Policy"[^>]*>/, '');
  const seen = async (addition) => {
    const page = await open(browser, unguarded.replace('</body>', `${addition}</body>`));
    await page.waitForTimeout(0);
    await page.done();
    return page.faults.join('\n');
  };
  assert.match(await seen('<img src="https://example.invalid/a.png">'), /request: https:\/\/example\.invalid/);
  assert.match(await seen('<script>throw new Error("on purpose")</script>'), /error: on purpose/);
  assert.match(await seen('<script>console.error("said so")</script>'), /console: said so/);
});

test('the page itself forbids its scripts the network', async () => {
  const page = await open(browser, all());
  const blocked = await page.evaluate(() =>
    fetch('https://example.invalid/').then(
      () => false,
      () => true,
    ),
  );
  assert.ok(blocked);
  assert.match(page.faults.join('\n'), /Content Security Policy/);
  await page.done();
});

for (const colorScheme of ['light', 'dark']) {
  test(`every text has a contrast of at least 4.5 in ${colorScheme} mode`, async () => {
    const page = await open(browser, all(), { colorScheme });
    await openAll(page);
    const { texts, found } = await lowContrast(page, 4.5);
    assert.ok(texts > 500, `only ${texts} texts were looked at`);
    assert.deepEqual(found, []);
    const surface = await page.evaluate(() => getComputedStyle(document.body).backgroundColor);
    assert.equal(surface, { light: 'rgb(255, 255, 255)', dark: 'rgb(20, 23, 27)' }[colorScheme]);
    await page.done();
  });
}

test('a text with too little contrast is noticed', async () => {
  const page = await open(browser, all().replace('</style>', '.note { color: #999 !important }</style>'));
  assert.ok((await lowContrast(page, 4.5)).found.some((line) => line.startsWith('P.note')));
  await page.done();
});

test('a screen 375 pixels wide needs no horizontal scrolling', async () => {
  const page = await open(browser, all(), { viewport: { width: 375, height: 800 } });
  assert.equal(await overflow(page), 0);
  await openAll(page);
  assert.equal(await overflow(page), 0);
  await page.evaluate(() => document.querySelector('h1').style.setProperty('width', '700px'));
  assert.ok((await overflow(page)) > 0, 'too wide a heading should be noticed');
  await page.done();
});

test('charts are drawn again when the window becomes narrow', async () => {
  const page = await open(browser, all());
  const widths = () =>
    page.evaluate(() =>
      [...document.querySelectorAll('.drawing')].map((place) => [
        place.clientWidth,
        place.firstChild.width.baseVal.value,
      ]),
    );
  assert.ok((await widths()).every(([place, drawing]) => place === drawing && place > 320));
  await page.setViewportSize({ width: 375, height: 800 });
  await page.waitForFunction(() => document.querySelector('.drawing svg').width.baseVal.value < 375);
  assert.ok((await widths()).every(([place, drawing]) => place === drawing));
  assert.deepEqual(page.faults, []);
  await page.done();
});

test('paper is light, and all that can be opened is open on it', async () => {
  const page = await open(browser, all(), { colorScheme: 'dark' });
  const closed = () => page.evaluate(() => document.querySelectorAll('main details:not([open])').length);
  const before = await closed();
  await page.emulateMedia({ media: 'print', colorScheme: 'dark' });
  assert.equal(await page.evaluate(() => getComputedStyle(document.body).backgroundColor), 'rgb(255, 255, 255)');
  await page.evaluate(() => window.dispatchEvent(new Event('beforeprint')));
  assert.equal(await closed(), 0);
  await page.evaluate(() => window.dispatchEvent(new Event('afterprint')));
  assert.equal(await closed(), before);
  await page.done();
});

test('the focus is visible', async () => {
  const page = await open(browser, all());
  for (let presses = 0; presses < 6; presses += 1) {
    await page.keyboard.press('Tab');
    const outline = await page.evaluate(() => getComputedStyle(document.activeElement).outlineWidth);
    assert.equal(outline, '3px');
  }
  await page.done();
});
