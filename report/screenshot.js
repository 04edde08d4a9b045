// Makes docs/datasheet.png: the page of a simulated ConnectX-5, out of the made-up numbers in tests/fixtures.js.
// A picture of all of it would be too long: the environment, the lock table and the tables below charts are left out.

import { writeFileSync } from 'node:fs';
import { join } from 'node:path';

import { shrink } from './png.js';
import { connectx5 } from './tests/fixtures.js';
import { filled, folder, launch, open } from './tests/page.js';

const target = process.argv[2] ?? join(folder, '../docs/datasheet.png');
const browser = await launch();
const page = await open(browser, filled([['connectx5.json', connectx5()]]), { colorScheme: 'light' });
await page.evaluate(() =>
  document
    .querySelectorAll(
      '#environment, #lock-table, #torn-reads .frame, #order .frame, #series [data-series]:nth-child(n+5), footer',
    )
    .forEach((node) => node.remove()),
);
writeFileSync(target, shrink(await page.screenshot({ fullPage: true })));
await page.done();
await browser.close();
