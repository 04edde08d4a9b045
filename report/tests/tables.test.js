// Tables sort by click and by keyboard, say so to screen readers, and compare datasheets.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';

import { connectx5, mlx5 } from './fixtures.js';
import { filled, launch, open } from './page.js';

let browser;
before(async () => {
  browser = await launch();
});
after(() => browser.close());

const one = (sheet = connectx5()) => filled([['a.json', sheet]]);
const two = () =>
  filled([
    ['a.json', connectx5()],
    ['b.json', mlx5()],
  ]);

/** The table in this section whose caption begins with this text. */
const tableOf = (page, id, caption) =>
  page
    .locator(`#${id} table`)
    .filter({ has: page.locator('caption', { hasText: caption }) })
    .first();

/** The texts of the column with this heading, row by row. */
const column = (table, heading) =>
  table.evaluate((node, wanted) => {
    const index = [...node.tHead.rows[0].cells].findIndex((cell) => cell.textContent === wanted);
    return [...node.tBodies[0].rows].map((row) => row.cells[index].textContent.trim());
  }, heading);

const sorted = (table, heading) =>
  table.evaluate(
    (node, wanted) =>
      [...node.tHead.rows[0].cells].find((cell) => cell.textContent === wanted).getAttribute('aria-sort'),
    heading,
  );

const ascending = (values) => values.every((value, index) => index === 0 || values[index - 1] <= value);
const numbers = (texts) => texts.map((text) => Number(text.replaceAll('\u202f', '')));

test('a click on a heading sorts by number, a second click the other way round', async () => {
  const page = await open(browser, one());
  const table = tableOf(page, 'torn-reads', 'Torn reads by size');
  assert.ok(!ascending(numbers(await column(table, 'Detected'))));
  assert.equal(await sorted(table, 'Detected'), 'none');
  await table.getByRole('button', { name: 'Detected', exact: true }).click();
  assert.ok(ascending(numbers(await column(table, 'Detected'))));
  assert.equal(await sorted(table, 'Detected'), 'ascending');
  await table.getByRole('button', { name: 'Detected', exact: true }).click();
  assert.ok(ascending(numbers(await column(table, 'Detected')).reverse()));
  assert.equal(await sorted(table, 'Detected'), 'descending');
  await table.getByRole('button', { name: 'Size' }).click();
  assert.equal(await sorted(table, 'Detected'), 'none');
  assert.equal(await sorted(table, 'Size'), 'ascending');
  assert.equal((await column(table, 'Size'))[0], '64\u202fB');
  await page.done();
});

test('Enter and Space sort too, and the focus stays', async () => {
  const page = await open(browser, one());
  const table = tableOf(page, 'schemes', 'Verdict of each scheme');
  await table.getByRole('button', { name: 'Scheme' }).focus();
  await page.keyboard.press('Enter');
  assert.equal(await sorted(table, 'Scheme'), 'ascending');
  assert.ok((await column(table, 'Scheme'))[0].startsWith('broken/bookend'));
  await page.keyboard.press('Space');
  assert.equal(await sorted(table, 'Scheme'), 'descending');
  assert.ok((await column(table, 'Scheme'))[0].startsWith('optimistic/two-read+write-unlatch'));
  await page.keyboard.press('Tab');
  await page.keyboard.press('Enter');
  assert.equal(await sorted(table, 'Verdict'), 'ascending');
  await page.done();
});

test('verdicts sort from unsafe to safe, and schemes that are no specimens come first at the start', async () => {
  const page = await open(browser, one());
  const table = tableOf(page, 'schemes', 'Verdict of each scheme');
  const broken = (await column(table, 'Scheme')).map((name) => name.startsWith('broken/'));
  assert.equal(broken.indexOf(true), 10);
  assert.ok(broken.slice(10).every(Boolean));
  await table.getByRole('button', { name: 'Verdict' }).click();
  const rank = { '✗ unsafe': 0, '○ not exercised': 1, '✓ safe': 2 };
  assert.ok(ascending((await column(table, 'Verdict')).map((text) => rank[text])));
  await page.done();
});

test('unknown numbers come last in both directions', async () => {
  const sheet = connectx5();
  sheet.probes[4].detected = null;
  const page = await open(browser, one(sheet));
  const table = tableOf(page, 'torn-reads', 'Torn reads by size');
  for (const direction of ['ascending', 'descending']) {
    await table.getByRole('button', { name: 'Detected', exact: true }).click();
    assert.equal(await sorted(table, 'Detected'), direction);
    assert.equal((await column(table, 'Detected')).at(-1), 'unknown');
  }
  await page.done();
});

test('every table has a caption, column headings and row headings', async () => {
  const page = await open(browser, two());
  const poor = await page
    .locator('table')
    .evaluateAll(
      (tables) =>
        tables.filter(
          (table) =>
            !table.caption?.textContent ||
            !table.querySelector('thead th[scope=col]') ||
            [...table.tBodies[0].rows].some((row) => !row.querySelector('th[scope=row]')),
        ).length,
    );
  assert.equal(poor, 0);
  assert.ok((await page.locator('table').count()) > 10);
  await page.done();
});

test('two datasheets: a column of verdicts for each, and the changed ones marked', async () => {
  const page = await open(browser, two());
  const table = tableOf(page, 'schemes', 'Verdict of each scheme');
  const changed = (await column(table, 'Changed'))
    .map((text, index) => [text, index])
    .filter(([text]) => text !== 'same');
  const names = await column(table, 'Scheme');
  assert.deepEqual(
    changed.map(([text, index]) => [names[index], text]),
    [
      ['optimistic/crc64+write-unlatch', 'changed: not exercised → unsafe'],
      ['optimistic/farm+write-unlatch', 'changed: not exercised → unsafe'],
    ],
  );
  const at = names.indexOf('optimistic/farm+write-unlatch');
  assert.equal((await column(table, 'sim:connectx5'))[at], '○ not exercised');
  assert.equal((await column(table, 'mlx5_0'))[at], '✗ unsafe');
  assert.match((await column(table, 'Reason'))[at], /mlx5_0: torn: 4 in 180000 reads/);
  await page.done();
});

test('a scheme that one datasheet does not have is marked as changed', async () => {
  const sheet = mlx5();
  sheet.schemes = sheet.schemes.filter((scheme) => scheme.scheme !== 'optimistic/farm');
  const page = await open(
    browser,
    filled([
      ['a.json', connectx5()],
      ['b.json', sheet],
    ]),
  );
  const table = tableOf(page, 'schemes', 'Verdict of each scheme');
  const row = (await column(table, 'Scheme')).indexOf('optimistic/farm');
  assert.equal((await column(table, 'Changed'))[row], 'changed: safe → not there');
  await page.done();
});

test('two datasheets that agree have no mark', async () => {
  const page = await open(
    browser,
    filled([
      ['a.json', connectx5()],
      ['b.json', connectx5()],
    ]),
  );
  assert.equal(await page.locator('.changed').count(), 0);
  // The files distinguish devices of the same name.
  assert.deepEqual(await page.locator('#glance h3').allInnerTexts(), [
    'sim:connectx5 (a.json)',
    'sim:connectx5 (b.json)',
  ]);
  await page.done();
});

test('the order matrix has every probe, the bound of what was not seen, and why a probe was skipped', async () => {
  const page = await open(browser, one());
  const table = tableOf(page, 'order', 'Effects that the probes look for');
  const names = await table.locator('tbody th code').allInnerTexts();
  assert.equal(names.length, 12);
  const row = (name) => table.locator('tbody tr').nth(names.indexOf(name)).innerText();
  assert.match(await row('order/read-read'), /seen\s+412\s+100\u202f000\s+0\.412\u202f%\s+distance: 64 B/);
  assert.match(await row('order/write-read'), /not seen\s+0\s+100\u202f000\s+at most 0\.003\u202f%/);
  assert.match(await row('atomics/cpu'), /skipped: the simulator has no CPU/);
  assert.match(
    await row('order/write-write'),
    /not seen\s+0\s+100\u202f000\s+no bound\s+control\schances:\s100\u202f000/,
  );
  await page.done();
});

test('each probe has a sentence, a latch that of its name, and the probes of torn reads by size are elsewhere', async () => {
  const sheet = connectx5();
  sheet.probes.push({ ...sheet.probes.at(-1), name: 'latch/rw/' }, { ...sheet.probes.at(-1), name: 'constructor' });
  const page = await open(browser, one(sheet));
  const table = tableOf(page, 'order', 'Effects that the probes look for');
  const said = Object.fromEntries(
    await table
      .locator('tbody th')
      .evaluateAll((cells) => cells.map((cell) => [...cell.children].map((part) => part.textContent))),
  );
  assert.equal(
    said['latch/exclusive/combined'],
    'an update under the latch exclusive/combined was lost or saw a mixture',
  );
  assert.equal(said['latch/rw/'], 'an update under the latch rw/ was lost or saw a mixture');
  assert.equal(said['torn-read/offset'], 'blocks that begin in the middle of a line are mixed');
  assert.equal(said['torn-read'], undefined);
  assert.equal(said.constructor, ''); // unknown, and no sentence is made up
  assert.deepEqual(
    Object.keys(said).filter((name) => said[name] === ''),
    ['constructor'],
  );
  assert.equal(await tableOf(page, 'torn-reads', 'Torn reads by size').locator('tbody tr').count(), 9);
  await page.done();
});

test('up to three assumptions are open, more are folded', async () => {
  const sheet = connectx5();
  sheet.schemes[0].assuming = ['one', 'two', 'three'];
  sheet.schemes[1].assuming = ['one', 'two', 'three', 'four'];
  const page = await open(browser, one(sheet));
  const row = (name) => page.locator('#schemes tbody tr').filter({ has: page.getByText(name, { exact: true }) });
  assert.ok(await row('latch-exclusive/combined').locator('li', { hasText: 'three' }).isVisible());
  assert.ok(!(await row('latch-rw/combined').locator('li', { hasText: 'three' }).isVisible()));
  await page.done();
});

test('the environment: MTU in bytes, relaxed ordering in words, and no empty rows of a simulated machine', async () => {
  const cells = async (...sheets) => {
    const page = await open(browser, filled(sheets.map((sheet, index) => [`${index}.json`, sheet])));
    const rows = await page
      .locator('#environment tbody tr')
      .evaluateAll((all) => all.map((row) => [...row.cells].map((cell) => cell.textContent)));
    await page.done();
    return Object.fromEntries(rows.map(([name, ...values]) => [name, values]));
  };
  const simulated = { ...connectx5(), environment: {} };
  const both = await cells(simulated, mlx5());
  assert.deepEqual(both.MTU, ['unknown', '4\u202f096\u202fB']);
  assert.deepEqual(both['Relaxed ordering'], ['unknown', 'off, and on for torn-read/relaxed-ordering']);
  const alone = await cells(simulated);
  assert.equal(alone.MTU, undefined);
  assert.equal(alone.Firmware, undefined);
  assert.deepEqual(alone.Seed, ['1']);
  const nic = await cells({ ...mlx5(), environment: {} });
  assert.deepEqual(nic.Firmware, ['unknown']);
});

test('from how many queue pairs on the rate falls is said where it is known', async () => {
  for (const [found, expected] of [
    [{ queue_pairs: 256 }, 1],
    [{ queue_pairs: null }, 0],
    [null, 0],
    [undefined, 0],
  ]) {
    const page = await open(browser, one({ ...connectx5(), queue_pair_cache: found }));
    assert.equal(
      await page.locator('#lock-table').getByText('from 256 queue pairs of one client on').count(),
      expected,
    );
    assert.equal(await page.locator('#problems').count(), 0);
    await page.done();
  }
});

test('effects on which two datasheets disagree are marked', async () => {
  const page = await open(browser, two());
  const table = tableOf(page, 'order', 'Effects that the probes look for');
  const marked = table.locator('tbody tr').filter({ has: page.locator('.changed') });
  assert.deepEqual(await marked.locator('code').allInnerTexts(), ['lines/within-write', 'lines/within-write']);
  await page.done();
});

test('the lock table: which words share a slot, and how many slots padding gives', async () => {
  const page = await open(browser, one());
  assert.match(
    await page.locator('#lock-table p').first().innerText(),
    /low 12 bits of an address choose one of 512 slots.*those that lie 4\u202fKiB apart/,
  );
  const table = tableOf(page, 'lock-table', 'Slots that latches use at most');
  assert.deepEqual(await column(table, 'Slots'), ['64', '16', '8', '4', '1']);
  assert.deepEqual(new Set(await column(table, 'Slots with 8\u202fB of padding each')), new Set(['512']));
  await page.done();
});

test('a lock table that is not known, or has one slot, promises nothing of padding', async () => {
  for (const [found, expected] of [
    [null, /was not measured/],
    [{ address_bits: null, slots: null, contended_mops: 1, uncontended_mops: null }, /unknown which words/],
    [{ address_bits: 12, slots: 1, contended_mops: 1, uncontended_mops: 1 }, /No padding helps/],
  ]) {
    const page = await open(browser, one({ ...connectx5(), lock_table: found }));
    assert.match(await page.locator('#lock-table').innerText(), expected);
    assert.equal(await page.locator('#lock-table table').count(), 0);
    assert.deepEqual(page.faults, []);
    await page.done();
  }
});
