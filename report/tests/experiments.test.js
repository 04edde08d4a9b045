// Results of `sidelatch bench`: a section for each, with the paper's figure, its targets and its numbers.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';

import {
  atomicsStride,
  brokenExperiments,
  flowControl,
  hostileExperiment,
  kvStore,
  latchAblation,
  onNic,
  onSoftnic,
  optimisticScaling,
  optimisticSize,
  ycsb,
} from './experiment_fixtures.js';
import { connectx5, mlx5 } from './fixtures.js';
import { crowded } from './looks.js';
import { filled, launch, open } from './page.js';

let browser;
before(async () => {
  browser = await launch();
});
after(() => browser.close());

const show = (...documents) => open(browser, filled(documents.map((document, index) => [`${index}.json`, document])));
const texts = (place, selector) => place.locator(selector).allTextContents();
const spaced = (text) => text.replaceAll('\u202f', ' ');
const headings = (page) => texts(page, 'main > section > h2');

/** The tick labels of a chart's axis with their positions, in the order of the axis. */
const ticks = (chart, axis) =>
  chart.locator(`[aria-label^="${axis}-axis tick label"] text`).evaluateAll((labels) =>
    labels.map((label) => {
      const { left, right, top, bottom } = label.getBoundingClientRect();
      return { text: label.textContent.replaceAll('\u202f', ' '), x: (left + right) / 2, y: (top + bottom) / 2 };
    }),
  );
const panel = (page, name) => page.locator(`[data-panel="${name}"]`);

test('a page of experiments alone has no section of a datasheet, and its title says what it holds', async () => {
  const page = await show(kvStore(), latchAblation());
  assert.deepEqual(await headings(page), [
    'A store of 20 million tuples on four memory nodes by skew, latches',
    'One worker, the optimizations of latches one after the other',
  ]);
  assert.equal(await page.title(), 'Experiments kv-store, latch-ablation');
  assert.equal(await page.locator('h1').innerText(), await page.title());
  assert.equal(await page.locator('#empty, #problems, #glance, #schemes').count(), 0);
  assert.deepEqual(page.faults, []);
  await page.done();
  const one = await show(kvStore());
  assert.equal(await one.title(), 'Experiment kv-store');
  await one.done();
  const many = await show(kvStore(), latchAblation(), atomicsStride(), optimisticSize(), ycsb());
  assert.equal(await many.title(), '5 experiments');
  await many.done();
});

test('experiments come after the datasheets, in the order given', async () => {
  const page = await show(latchAblation(), connectx5(), kvStore());
  const all = await headings(page);
  assert.equal(all[0], 'At a glance');
  assert.deepEqual(
    all.slice(-2).map((heading) => heading.split(' ').slice(0, 2).join(' ')),
    ['One worker,', 'A store'],
  );
  assert.equal(await page.title(), 'Datasheet of sim:connectx5, and experiments latch-ablation, kv-store');
  await page.done();
});

test('a simulated experiment is said to be no NIC, and among others it is named', async () => {
  const alone = await show(kvStore());
  assert.equal(await alone.locator('#simulated').innerText(), 'This shows schemes under a profile, not a NIC.');
  await alone.done();
  const page = await show(mlx5(), kvStore(), onNic(latchAblation()));
  assert.equal(
    await page.locator('#simulated').innerText(),
    'kv-store: This shows schemes under a profile, not a NIC.',
  );
  await page.done();
});

test('below its heading stands where an experiment ran, and which figure it is', async () => {
  const facts = async (experiment) => {
    const page = await show(experiment);
    const found = await page
      .locator('.facts > div')
      .evaluateAll((rows) => rows.map((row) => [...row.children].map((cell) => cell.textContent).join(': ')));
    await page.done();
    return found;
  };
  assert.deepEqual(await facts({ ...kvStore(), seed: 20000 }), [
    'Experiment: kv-store',
    'Figure: TODS 2025, figure 10',
    'Fabric: sim (simulated)',
    'Profile: connectx5',
    'Seed: 20000',
    'Version: sidelatch 0.1.0',
    'File: 0.json',
  ]);
  const nic = await facts(onNic(kvStore()));
  assert.ok(nic.includes('Fabric: verbs (a NIC)') && nic.includes('Device: mlx5_0'), nic.join());
  const software = await facts(onSoftnic(kvStore()));
  assert.ok(software.includes('Fabric: softnic (the software NIC)'), software.join());
  assert.ok(software.includes('Device: sidelatch0'), software.join());
  assert.ok(!software.some((fact) => fact.startsWith('Profile')), software.join());
  assert.ok(!(await facts(ycsb())).some((fact) => fact.startsWith('Figure')));
});

test('the same experiment under two profiles, on NICs, or twice alike: headings tell them apart', async () => {
  const title = 'A store of 20 million tuples on four memory nodes by skew, latches';
  const other = { ...kvStore(), profile: 'connectx7' };
  const page = await show(kvStore(), other, onNic(kvStore()), onSoftnic(kvStore()), latchAblation());
  assert.equal(await page.locator('#problems').count(), 0);
  assert.deepEqual((await headings(page)).slice(0, 4), [
    `${title} (sim:connectx5)`,
    `${title} (sim:connectx7)`,
    `${title} (mlx5_0)`,
    `${title} (sidelatch0)`,
  ]);
  assert.match(
    await page.locator('#simulated').innerText(),
    /^kv-store \(sim:connectx5\), kv-store \(sim:connectx7\), latch-ablation: /,
  );
  await page.done();
  const again = await show(kvStore(), { ...kvStore(), seed: 2 }, other);
  assert.deepEqual(await headings(again), [
    `${title} (sim:connectx5, seed 1)`,
    `${title} (sim:connectx5, seed 2)`,
    `${title} (sim:connectx7)`,
  ]);
  await again.done();
  const twice = await open(
    browser,
    filled([
      ['a.json', kvStore()],
      ['b.json', kvStore()],
      ['b.json', kvStore()],
    ]),
  );
  const all = await headings(twice);
  assert.equal(all[0], `${title} (a.json)`);
  assert.equal(new Set(all).size, 3, all.join('\n'));
  await twice.done();
});

test('panels stand side by side in the order of the data, each with its lines and all its points', async () => {
  const page = await show(kvStore());
  const names = await page.locator('[data-panel]').evaluateAll((all) => all.map((one) => one.dataset.panel));
  assert.deepEqual(names, ['write-only', 'mixed', 'read-only']);
  assert.deepEqual(await texts(page, '[data-panel] figcaption'), names);
  const boxes = await Promise.all(names.map((name) => panel(page, name).locator('.drawing').boundingBox()));
  assert.ok(boxes[0].x < boxes[1].x && boxes[1].x < boxes[2].x);
  assert.ok(boxes.every((box) => box.y === boxes[0].y && box.height === boxes[0].height));
  for (const name of names) {
    assert.equal(await panel(page, name).locator('.lines').count(), 3);
    assert.deepEqual(
      await panel(page, name)
        .locator('.points')
        .evaluateAll((groups) => groups.map((group) => group.childElementCount)),
      [5, 5, 5],
    );
  }
  await page.done();
});

test('panels share the axis below them, and each has its own beside it', async () => {
  const experiment = kvStore();
  // Even if one panel was measured at fewer points, its axis is the same as the others'.
  experiment.series.slice(0, 3).forEach((series) => series.points.splice(3));
  experiment.series.slice(3, 6).forEach((series) => series.points.forEach((point) => Object.assign(point, { y: 0.2 })));
  const page = await show(experiment);
  const below = await Promise.all(['write-only', 'mixed', 'read-only'].map((name) => ticks(panel(page, name), 'x')));
  for (const labels of below)
    assert.deepEqual(
      labels.map(({ text }) => text),
      ['0', '0.5', '1', '1.5', '2'],
    );
  const beside = await Promise.all(['write-only', 'mixed'].map((name) => ticks(panel(page, name), 'y')));
  assert.ok(beside[0].some(({ text }) => text === '20'));
  assert.ok(!beside[1].some(({ text }) => Number(text) > 3), 'the second panel has small values only');
  await page.done();
});

test('a panel with other x has its own axis below it, and fills it', async () => {
  const page = await show(flowControl());
  const names = await page.locator('[data-panel]').evaluateAll((all) => all.map((one) => one.dataset.panel));
  const below = await Promise.all(names.map((name) => ticks(panel(page, name), 'x')));
  const [flows, bytes, shares, consumers] = below.map((labels) => labels.map(({ text }) => text));
  assert.deepEqual([flows[0], flows.at(-1)], ['0', '8']);
  assert.deepEqual([bytes[0], bytes.at(-1)], ['0', '15 000']);
  // These two are by ms, and the second one has all the x of the first one.
  assert.deepEqual([shares[0], shares.at(-1)], ['0', '14']);
  assert.deepEqual(consumers, shares);
  for (const [index, name] of names.entries()) {
    const { x: left, width } = await panel(page, name).locator('.drawing').boundingBox();
    const points = await panel(page, name)
      .locator('.points > *')
      .evaluateAll((all) => all.map((point) => point.getBoundingClientRect().right));
    const share = (Math.max(...points) - left) / width;
    assert.ok(share > (index === 2 ? 0.5 : 0.9), `${name}: its points end at ${share} of its width`);
  }
  await page.done();
});

test('a panel with other x has its own logarithmic axis, and its numbers are by its own x', async () => {
  const experiment = optimisticScaling();
  experiment.series
    .filter((series) => series.panel === 'update')
    .forEach((series) => series.points.forEach((point) => Object.assign(point, { x: point.x * 1024 })));
  const page = await show(experiment);
  const labels = async (name) => (await ticks(panel(page, name), 'x')).map(({ text }) => text);
  assert.deepEqual(await labels('read 256 B'), ['8', '16', '32', '64', '128']);
  assert.deepEqual(await labels('read 16 KiB'), await labels('read 256 B'));
  const update = await labels('update');
  assert.deepEqual([update[0], update.length < 6], ['8 192', true]);
  await page.locator('details.numbers summary').click();
  const last = page.locator('details.numbers table').last();
  assert.equal(spaced(await last.locator('tbody th').first().innerText()), '8 192');
  await page.done();
});

test('the axis of values begins at 0, far from all values too, and has its unit as label', async () => {
  const experiment = kvStore();
  experiment.series.forEach((series) => series.points.forEach((point) => Object.assign(point, { y: 50 + point.x })));
  const page = await show(experiment);
  const chart = panel(page, 'read-only');
  const labels = await ticks(chart, 'y');
  assert.equal(labels[0].text, '0');
  assert.ok(
    labels.every(({ y }) => y <= labels[0].y),
    'it is the lowest one',
  );
  assert.match((await texts(chart, '[aria-label="y-axis label"]')).join(), /Mops\/s/);
  assert.match((await texts(chart, '[aria-label="x-axis label"]')).join(), /exponent/);
  await page.done();
});

test('a logarithmic axis has powers of two, equally far from each other', async () => {
  const page = await show(atomicsStride());
  const labels = await ticks(page, 'x');
  assert.deepEqual(
    labels.map(({ text }) => text),
    ['1', '2', '4', '8', '16', '32', '64', '128'],
  );
  const steps = labels.slice(1).map(({ x }, index) => x - labels[index].x);
  assert.ok(Math.max(...steps) - Math.min(...steps) < 3, steps.join());
  await page.done();
});

test('a logarithmic axis between powers of two shows those that lie in it, else what was measured', async () => {
  const experiment = latchAblation();
  const labelsOf = async (xs) => {
    const series = experiment.series.slice(0, 1).map((one) => ({
      ...one,
      points: xs.map((x) => ({ x, y: 1, half_width: null })),
    }));
    const page = await show({ ...experiment, x: 'workers', x_scale: 'log', series });
    const labels = await ticks(page, 'x');
    await page.done();
    return labels.map(({ text }) => text);
  };
  assert.deepEqual(await labelsOf([24, 56, 112, 224]), ['32', '64', '128']);
  assert.deepEqual(await labelsOf([5, 6, 7]), ['5', '6', '7']);
  assert.deepEqual(await labelsOf([112]), ['112']);
  assert.deepEqual(await labelsOf([1024, 2048]), ['1 024', '2 048']);
});

test('bytes are shown in KiB and MiB', async () => {
  const page = await show(optimisticSize());
  const labels = (await ticks(page, 'x')).map(({ text }) => text);
  assert.equal(labels[0], '256 B');
  assert.ok(labels.includes('1 KiB') && labels.includes('256 KiB'), labels.join());
  await page.done();
});

test('where all panels have the same lines there is one legend, else one for each', async () => {
  const same = await show(kvStore());
  assert.deepEqual(await texts(same, '.legend li'), ['NAM-DB', 'NAM-DB++ unpadded', 'NAM-DB++']);
  assert.equal(await same.locator('.legend').count(), 1);
  await same.done();
  const page = await show(optimisticScaling());
  assert.equal(await page.locator('.legend').count(), 3);
  assert.deepEqual(await texts(page, '[data-panel="read 16 KiB"] .legend li'), ['latch-rw/async', 'farm']);
  await page.done();
});

/** Colour, dash and symbol of each key in a legend. */
const keys = (place) =>
  place
    .locator('.legend li')
    .evaluateAll((items) =>
      Object.fromEntries(items.map((item) => [item.textContent, item.querySelector('svg').innerHTML])),
    );

test('a line looks the same in all panels, and nine lines look different from each other', async () => {
  const page = await show(optimisticScaling());
  const [first, second] = await Promise.all(['read 256 B', 'read 16 KiB'].map((name) => keys(panel(page, name))));
  assert.equal(first.farm, second.farm);
  // No two names share a look either, in any panels.
  const all = { ...first, ...second, ...(await keys(panel(page, 'update'))) };
  assert.equal(Object.keys(all).length, 7);
  assert.equal(new Set(Object.values(all)).size, 7);
  await page.done();
  const stride = await show(atomicsStride());
  const nine = Object.values(await keys(stride));
  assert.equal(nine.length, 9);
  assert.equal(new Set(nine).size, 9);
  // The chart matches the legend: the seventh line has the first one's colour and a hollow symbol.
  const fills = await stride
    .locator('.points')
    .evaluateAll((groups) => groups.map((group) => getComputedStyle(group).fill));
  const strokes = await stride
    .locator('.points')
    .evaluateAll((groups) => groups.map((group) => getComputedStyle(group).stroke));
  assert.equal(strokes[6], strokes[0]);
  assert.equal(fills[0], strokes[0]);
  assert.equal(fills[6], 'rgb(255, 255, 255)');
  await stride.done();
});

test('a line alone is named, too', async () => {
  const experiment = atomicsStride();
  experiment.series = experiment.series.slice(0, 1);
  const page = await show(experiment);
  assert.deepEqual(await texts(page, '.legend li'), ['8 B']);
  assert.deepEqual(await texts(page, 'figcaption'), ['Mops/s by workers']);
  await page.done();
});

test('intervals are drawn as long as they are, and not where they are not known', async () => {
  const experiment = kvStore();
  const [series] = experiment.series;
  series.points.forEach((point) => Object.assign(point, { half_width: null }));
  Object.assign(series.points[0], { y: 20, half_width: 5 });
  Object.assign(series.points[2], { y: 1, half_width: 3 });
  const page = await show({ ...experiment, series: [series] });
  const bars = await page
    .locator('.intervals line')
    .evaluateAll((all) => all.map((bar) => [bar.y1.baseVal.value, bar.y2.baseVal.value].sort((a, b) => a - b)));
  assert.equal(bars.length, 2);
  const labels = await page
    .locator('[aria-label="y-axis tick"] path')
    .evaluateAll((all) => all.map((tick) => Number(tick.getAttribute('transform').match(/,([\d.]+)\)/)[1])));
  const perUnit = (labels[0] - labels[1]) / 5;
  assert.ok(Math.abs(bars[0][1] - bars[0][0] - 10 * perUnit) < 1.5, `${bars[0]} at ${perUnit} pixels each`);
  // Rates are never below 0: the second one ends on the axis.
  assert.ok(Math.abs(bars[1][1] - labels[0]) < 1.5, `${bars[1]} and ${labels}`);
  await page.done();
});

test('categories are groups of bars under their names, and symbols tell the bars apart', async () => {
  const page = await show(latchAblation());
  assert.equal(await page.locator('.bars rect').count(), 9);
  assert.equal(await page.locator('.feet path, .feet circle').count(), 9);
  assert.equal(await page.locator('.intervals line').count(), 9);
  assert.deepEqual(
    (await ticks(page, 'fx')).map(({ text }) => text),
    ['basic', 'speculative read', 'write combining', 'asynchronous unlatch', 'write unlatch'],
  );
  assert.deepEqual(await texts(page, '.legend li'), ['exclusive', 'shared']);
  const tall = await page.locator('.bars rect').evaluateAll((bars) => {
    const first = bars.filter(
      (bar) => getComputedStyle(bar.parentElement.closest('.bars')).fill === 'rgb(0, 114, 178)',
    );
    return first.map((bar) => bar.height.baseVal.value);
  });
  assert.equal(tall.length, 5);
  assert.ok(Math.abs(tall[4] / tall[0] - 0.404 / 0.136) < 0.05, tall.join());
  await page.done();
});

test('a category without a name, or with a wrong one, is shown by its number', async () => {
  const experiment = latchAblation();
  experiment.x_names = ['basic', 7, 'write combining', 'asynchronous unlatch'];
  const page = await show(experiment);
  assert.deepEqual(
    (await ticks(page, 'fx')).map(({ text }) => text),
    ['basic', '2', 'write combining', 'asynchronous unlatch', '5'],
  );
  assert.match(await page.locator('#problems').innerText(), /0\.json: x_names\[1\]: should be a string/);
  await page.done();
  const { x_names: names, ...without } = latchAblation();
  const bare = await show(without);
  assert.deepEqual(
    (await ticks(bare, 'fx')).map(({ text }) => text),
    names.map((_, index) => String(index + 1)),
  );
  assert.match(await bare.locator('#problems').innerText(), /x_names: is missing/);
  await bare.done();
});

test('targets: expected, measured, ratio, and in words whether they are met', async () => {
  const page = await show(kvStore());
  const table = page.locator('table.targets');
  assert.equal(await table.locator('caption').innerText(), 'kv-store against the papers: 2 of 4 targets met');
  const rows = await table
    .locator('tbody tr')
    .evaluateAll((all) => all.map((row) => [...row.cells].map((cell) => cell.textContent.replaceAll('\u202f', ' '))));
  assert.deepEqual(rows, [
    ['N11.uniform', '2 x', '1.45 x', '0.727', '✗ MISSED'],
    ['N11.zipf1', '2 x', '1.93 x', '0.965', '✓ met'],
    ['N12.write', '0.17 Mops/s', '0.05 Mops/s', '0.294', '✗ MISSED'],
    ['N12.order', 'a shape', 'read-only 24.9 Mops/s NAM-DB++, 17.1 NAM-DB', '', '✓ met'],
  ]);
  await table.getByRole('button', { name: 'Result' }).click();
  assert.match(await table.locator('tbody tr').first().innerText(), /MISSED/);
  await page.done();
});

test('an experiment that no paper has says so', async () => {
  const page = await show(ycsb());
  assert.equal(await page.locator('table.targets').count(), 0);
  assert.match(await page.locator('#experiment-1').innerText(), /The papers give nothing to compare this with\./);
  assert.equal(await page.locator('.bars rect').count(), 23); // one is unknown
  await page.done();
});

test('the numbers are folded, one table for each panel, with their intervals', async () => {
  const page = await show(kvStore());
  const details = page.locator('details.numbers');
  assert.equal(await details.getAttribute('open'), null);
  await details.locator('summary').click();
  const tables = details.locator('table');
  assert.equal(await tables.count(), 3);
  assert.equal(
    spaced(await tables.first().locator('caption').innerText()),
    'kv-store, write-only, in Mops/s: value ± half the width of its 95 % interval',
  );
  const rows = await tables
    .first()
    .locator('tr')
    .evaluateAll((all) => all.map((row) => [...row.cells].map((cell) => cell.textContent.replaceAll('\u202f', ' '))));
  assert.deepEqual(rows[0], ['exponent', 'NAM-DB', 'NAM-DB++ unpadded', 'NAM-DB++']);
  assert.deepEqual(rows[1], ['0', '12.82 ± 0.26', '24.10 ± 0.49', '24.1 ± 2.0']);
  await page.done();
  const bars = await show(latchAblation());
  const cells = await bars
    .locator('details.numbers tbody tr')
    .last()
    .evaluate((row) => [...row.cells].map((cell) => cell.textContent.replaceAll('\u202f', ' ')));
  assert.deepEqual(cells, ['write unlatch', '0.4040 ± 0.0081', '']);
  await bars.done();
  const plain = await show(optimisticSize());
  assert.doesNotMatch(await plain.locator('details.numbers').textContent(), /±/);
  await plain.done();
});

test("the paper's points have their ratio to what was measured", async () => {
  const experiment = atomicsStride();
  const points = [
    { x: 64, y: 20, half_width: null }, // 19.19 here
    { x: 100, y: 20, half_width: null }, // nothing here
  ];
  experiment.series.push({ panel: '', name: 'paper: 512 B', unit: 'Mops/s', points });
  experiment.series.push({ panel: '', name: 'paper: all', unit: 'Mops/s', points: points.slice(0, 1) }); // no such line
  const page = await show(experiment);
  const rows = await page
    .locator('details.numbers tr')
    .evaluateAll((all) => all.map((row) => [...row.cells].map((cell) => cell.textContent).slice(-2)));
  assert.deepEqual(rows[0], ['paper: 512 B', 'paper: all']);
  assert.deepEqual(
    rows.slice(1).filter((cells) => cells.join('') !== ''),
    [
      ['20 (here 0.96 of it)', '20'],
      ['20', ''],
    ],
  );
  await page.done();
});

test('a value that is not known leaves a gap in its line, and is said to be unknown', async () => {
  const experiment = atomicsStride();
  experiment.series[4].points[3].y = null;
  const page = await show(experiment);
  const parts = await page
    .locator('.lines path')
    .evaluateAll((paths) => paths.map((path) => path.getAttribute('d').match(/M/g).length));
  assert.deepEqual(parts, [1, 1, 1, 1, 2, 1, 1, 1, 1]);
  assert.match(await page.locator('details.numbers').textContent(), /unknown/);
  assert.equal(await page.locator('#problems').count(), 0);
  await page.done();
});

test('series of one panel in two units get a chart each', async () => {
  const experiment = kvStore();
  experiment.series[1].unit = 'us';
  const page = await show(experiment);
  assert.deepEqual(await texts(page, '[data-panel] figcaption'), [
    'write-only: Mops/s by exponent',
    'write-only: us by exponent',
    'mixed',
    'read-only',
  ]);
  await page.done();
});

test('a logarithmic axis that would hold a 0 is linear, and no values at all do no harm', async () => {
  const zero = atomicsStride();
  zero.series.forEach((series) => series.points.unshift({ x: 0, y: 0, half_width: 0 }));
  const empty = { ...atomicsStride(), title: 'nothing in it', series: [] };
  const hollow = atomicsStride();
  hollow.title = 'no values';
  hollow.series.forEach((series) => series.points.forEach((point) => Object.assign(point, { y: null })));
  const bare = atomicsStride();
  bare.title = 'no points';
  bare.series.forEach((series) => Object.assign(series, { points: [] }));
  const page = await show(zero, empty, hollow, bare);
  assert.deepEqual(page.faults, []);
  assert.equal(await page.locator('#problems').count(), 0);
  assert.equal(await page.locator('#experiment-1 .points > *').count(), 81);
  assert.ok((await ticks(page.locator('#experiment-1'), 'x')).some(({ text }) => text === '0'));
  assert.match(await page.locator('#experiment-2').innerText(), /Nothing was measured\./);
  assert.equal(await page.locator('#experiment-3 .points > *').count(), 0);
  assert.match(await page.locator('#experiment-4').innerText(), /Nothing was measured\./);
  assert.doesNotMatch(await page.locator('main').textContent(), /NaN|undefined|\bnull\b|Infinity/);
  await page.done();
});

test('what is missing or wrong in an experiment is named, and the rest is shown', async () => {
  const cases = brokenExperiments();
  const page = await open(
    browser,
    filled([...cases.map(([file, found]) => [file, found]), ['good.json', latchAblation()]]),
  );
  const said = await page.locator('#problems li').allInnerTexts();
  assert.equal(said.length, cases.length, said.join('\n'));
  cases.forEach(([file, , problem, shown], index) => {
    assert.ok(said[index].startsWith(`${file}: ${problem}`), `${said[index]} should begin with ${file}: ${problem}`);
    assert.equal(said[index].endsWith('It is not shown.'), !shown, said[index]);
  });
  const files = await page
    .locator('.facts > div:last-child dd')
    .evaluateAll((cells) => cells.map((cell) => cell.textContent));
  assert.deepEqual(files, [...cases.filter(([, , , shown]) => shown).map(([file]) => file), 'good.json']);
  assert.deepEqual(page.faults, []);
  assert.doesNotMatch(await page.locator('main').textContent(), /NaN|undefined|\[object/);
  await page.done();
});

test('a broken experiment alone shows what is there', async () => {
  const charts = { 'no-series.json': 0, 'series.json': 3, 'point.json': 3, 'width.json': 3, 'no-targets.json': 3 };
  for (const [file, found] of brokenExperiments().filter(([name]) => name in charts)) {
    const page = await open(browser, filled([[file, found]]));
    assert.equal(await page.locator('.drawing').count(), charts[file], file);
    assert.equal(await page.locator('table.targets').count(), file === 'no-targets.json' ? 0 : 1, file);
    assert.equal(
      await page.locator('[data-panel=write-only] .points > *').count(),
      { 'no-series.json': 0, 'series.json': 10 }[file] ?? 15,
      file,
    );
    // Unknown values are not reported as none.
    assert.doesNotMatch(await page.locator('#experiment-1').innerText(), /Nothing was measured|give nothing/, file);
    assert.deepEqual(page.faults, [], file);
    await page.done();
  }
});

test('an experiment of another version alone is an empty page that says why', async () => {
  const page = await open(
    browser,
    filled([['new.json', { ...kvStore(), schema: { name: 'sidelatch-experiment', version: 2 } }]]),
  );
  assert.match(
    await page.locator('#problems').innerText(),
    /new\.json: schema\.version: is 2.*a newer sidelatch can read it\. It is not shown/,
  );
  assert.equal(await page.locator('#empty').count(), 1);
  await page.done();
});

test('a document that is neither is named', async () => {
  const html = filled([['a.json', kvStore()]]).replace('"experiment":{', '"surprise":{');
  const page = await open(browser, html);
  assert.match(
    await page.locator('#problems').innerText(),
    /a\.json: is no datasheet and no experiment\. It is not shown/,
  );
  await page.done();
});

test('a whole experiment has no problem, and unknown fields are none', async () => {
  const experiment = { ...kvStore(), future: { deep: [1] } };
  experiment.series.forEach((series) => Object.assign(series, { future: 1 }));
  experiment.targets.forEach((target) => Object.assign(target, { future: 1 }));
  const page = await show(experiment, ycsb(), optimisticScaling());
  assert.equal(await page.locator('#problems').count(), 0);
  await page.done();
});

test('markup in an experiment is shown as text', async () => {
  const { markup, experiment } = hostileExperiment();
  const page = await open(browser, filled([[`a${markup}.json`, experiment]]));
  assert.deepEqual(page.faults, []);
  assert.equal(await page.evaluate(() => window.broken), undefined);
  assert.equal(await page.locator('main script, main img').count(), 0);
  assert.ok((await page.locator('h2').textContent()).includes(markup));
  assert.ok((await page.locator('.legend').textContent()).includes(markup));
  assert.ok((await page.locator('.drawing').textContent()).includes(markup));
  await page.done();
});

test('every chart of an experiment is an image with a name that says what is in it', async () => {
  const page = await show(kvStore(), latchAblation());
  const names = await page
    .locator('.drawing svg[role=img]')
    .evaluateAll((drawings) => drawings.map((drawing) => drawing.getAttribute('aria-label').replaceAll('\u202f', ' ')));
  assert.equal(names.length, 4);
  assert.match(names[0], /^Line chart: write-only\. NAM-DB: 5 values, largest 12\.8 Mops\/s at exponent 0\./);
  assert.match(
    names[3],
    /^Bars: Mops\/s by level\. exclusive: 5 values, largest 0\.404 Mops\/s at level write unlatch\./,
  );
  await page.done();
});

for (const width of [1200, 580, 375]) {
  test(`no label is cut or stands on another one, ${width} pixels wide`, async () => {
    const results = [kvStore(), atomicsStride(), latchAblation(), optimisticSize(), optimisticScaling()];
    const all = [...results, ycsb(), flowControl()];
    const page = await open(browser, filled(all.map((one, index) => [`${index}.json`, one])), {
      viewport: { width, height: 900 },
    });
    const { labels, found } = await crowded(page);
    assert.ok(labels > 80, `only ${labels} labels were looked at`);
    assert.deepEqual(found, []);
    await page.evaluate(() => document.querySelector('.drawing text').setAttribute('x', '-90'));
    assert.ok((await crowded(page)).found.length > 0, 'a label that is cut should be noticed');
    await page.done();
  });
}
