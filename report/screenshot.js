// Makes a picture of a page that `sidelatch report` wrote: node screenshot.js PAGE PNG
// A picture of all of it would be too long: the environment, the lock table, the tables below charts, the reads of each
// scheme by size and all but the first four charts of series are left out, and assumptions are folded; of experiments
// there are the charts alone.

import { readFileSync, writeFileSync } from 'node:fs';

import { shrink } from './png.js';
import { launch, open } from './tests/page.js';

const [source, target] = process.argv.slice(2);
const browser = await launch();
const page = await open(browser, readFileSync(source, 'utf8'), { colorScheme: 'light' });
if (page.faults.length > 0) throw new Error(page.faults.join('\n'));
await page.evaluate(() => {
  document
    .querySelectorAll(
      '#environment, #lock-table, #torn-reads .frame, #order .frame, #series [data-series]:nth-child(n+5), footer, ' +
        '#schemes details:not(.assumptions), [id^=experiment-] .facts, [id^=experiment-] .numbers, ' +
        '[id^=experiment-] .frame',
    )
    .forEach((node) => node.remove());
  document.querySelectorAll('#schemes details').forEach((details) => {
    details.open = false;
  });
});
writeFileSync(target, shrink(await page.screenshot({ fullPage: true })));
await page.done();
await browser.close();
