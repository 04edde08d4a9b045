// Fills a page with datasheets and experiments like the C++ side, and opens it in a browser with the network off.

import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';

import { chromium } from 'playwright-core';

export const folder = join(dirname(fileURLToPath(import.meta.url)), '..');
export const hole = '<script type="application/json" id="documents">[]</script>';

/** {file, experiment} for a document that names its experiment, {file, datasheet} for any other. */
const entry = ([file, value]) => ({
  file,
  [typeof value?.experiment === 'string' ? 'experiment' : 'datasheet']: value,
});

/** The template with these documents in its hole: [[file, datasheet or experiment], ...]. */
export function filled(documents, template = readFileSync(join(folder, 'page.html'), 'utf8')) {
  const json = JSON.stringify(documents.map(entry)).replaceAll('<', '\\u003c');
  const parts = template.split(hole);
  if (parts.length !== 2) throw new Error('the template should have its hole once');
  return parts.join(hole.replace('[]', () => json));
}

// Milliseconds for a step of the browser, on a machine where others work, too.
const kPatience = 300_000;

/** Debian's Chromium, or the program named by CHROMIUM. Root cannot use its sandbox. */
export const launch = () =>
  chromium.launch({
    timeout: kPatience,
    executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium',
    args: process.getuid() === 0 ? ['--no-sandbox'] : [],
  });

/** Opens HTML from a file. `page.faults` collects forbidden events: a fetch, or an error report. */
export async function open(browser, html, options = {}) {
  const scratch = mkdtempSync(join(tmpdir(), 'sidelatch-report-'));
  const file = join(scratch, 'page.html');
  writeFileSync(file, html);
  const context = await browser.newContext({ viewport: { width: 1200, height: 900 }, offline: true, ...options });
  context.setDefaultTimeout(kPatience);
  const page = await context.newPage();
  page.faults = [];
  await page.route('**/*', (route) => {
    if (route.request().url() === pathToFileURL(file).href) return route.continue();
    page.faults.push(`request: ${route.request().url()}`);
    return route.abort();
  });
  page.on('console', (message) => {
    if (['error', 'warning'].includes(message.type())) page.faults.push(`console: ${message.text()}`);
  });
  page.on('pageerror', (error) => page.faults.push(`error: ${error.message}`));
  page.done = async () => {
    await context.close();
    rmSync(scratch, { recursive: true });
  };
  await page.goto(pathToFileURL(file).href);
  // Charts are drawn once the layout is known. A page with a fault may never get there; the test then shows the fault.
  const drawn = () =>
    page.evaluate(() => [...document.querySelectorAll('.drawing')].every((place) => place.querySelector('svg')));
  while (page.faults.length === 0 && !(await drawn()));
  return page;
}
