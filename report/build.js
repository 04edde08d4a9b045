// Makes page.html: src/page.html with the style, the script and the licences of the libraries in it.
// node build.js [FILE]; the default is page.html beside this file.

import { readFileSync, readdirSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

import { build } from 'esbuild';

const here = dirname(fileURLToPath(import.meta.url));
const hole = '<script type="application/json" id="documents">[]</script>';
const largest = 600_000; // bytes

/** The text of every library that is in the bundle; libraries with the same text share it. */
function licences(inputs) {
  const folders = new Set(
    Object.keys(inputs)
      .map((path) => path.match(/^node_modules\/(@[^/]+\/)?[^/]+/)?.[0])
      .filter(Boolean),
  );
  const byText = new Map();
  for (const folder of [...folders].sort()) {
    const file = readdirSync(join(here, folder)).find((name) => /^licen[cs]e/i.test(name));
    if (!file) throw new Error(`${folder} has no licence file`);
    const text = readFileSync(join(here, folder, file), 'utf8').trim();
    const { name, version } = JSON.parse(readFileSync(join(here, folder, 'package.json'), 'utf8'));
    byText.set(text, [...(byText.get(text) ?? []), `${name} ${version}`]);
  }
  return [...byText]
    .map(([text, names]) => `${names.join(', ')}\n\n${text}`)
    .join('\n\n----\n\n')
    .replaceAll('&', '&amp;')
    .replaceAll('<', '&lt;');
}

/** Puts a text where the template has its mark, which must be there once. */
function put(page, mark, text) {
  const parts = page.split(mark);
  if (parts.length !== 2) throw new Error(`src/page.html should have ${mark} once`);
  return parts.join(text);
}

async function bundle(entry) {
  const result = await build({
    entryPoints: [entry],
    absWorkingDir: here,
    bundle: true,
    minify: true,
    format: 'iife',
    target: 'es2022',
    charset: 'utf8',
    legalComments: 'none',
    metafile: true,
    write: false,
    logLevel: 'warning',
  });
  return { text: result.outputFiles[0].text.trim(), inputs: result.metafile.inputs };
}

const script = await bundle('src/main.js');
const style = await bundle('src/style.css');
if (/<\/script|<!--/i.test(script.text)) throw new Error('the script holds a string that would end its element');

let page = readFileSync(join(here, 'src/page.html'), 'utf8');
page = put(page, '/* STYLE */', style.text);
page = put(page, '<!-- LICENCES -->', licences(script.inputs));
page = put(page, '/* SCRIPT */', script.text);
if (page.split(hole).length !== 2) throw new Error(`the page should have its hole once: ${hole}`);
const size = Buffer.byteLength(page);
if (size >= largest) throw new Error(`the page has ${size} bytes, and should have less than ${largest}`);
writeFileSync(process.argv[2] ?? join(here, 'page.html'), page);
