// Reads what `sidelatch report` put into the page: an array of {"file", "datasheet"} and {"file", "experiment"}.

import { readDatasheets } from './datasheet.js';
import { readExperiments } from './experiment.js';

const nothing = (problem) => ({
  sheets: [],
  experiments: [],
  problems: [{ file: 'this page', problem, shown: false }],
});

/** {sheets, experiments, problems} of the JSON text in the page; a problem is {file, problem, shown}. */
export function readDocuments(json) {
  let entries;
  try {
    entries = JSON.parse(json);
  } catch (error) {
    return nothing(`its data is no JSON: ${error.message}`);
  }
  if (!Array.isArray(entries)) return nothing('its data should be a list');
  const problems = [];
  const named = entries.map((entry, index) => ({
    ...entry,
    file: typeof entry?.file === 'string' ? entry.file : `document ${index + 1}`,
  }));
  const of = (kind) => named.filter((entry) => Object.hasOwn(entry, kind));
  named
    .filter((entry) => !Object.hasOwn(entry, 'datasheet') && !Object.hasOwn(entry, 'experiment'))
    .forEach(({ file }) => problems.push({ file, problem: 'is no datasheet and no experiment', shown: false }));
  const sheets = readDatasheets(of('datasheet'), problems);
  return { sheets, experiments: readExperiments(of('experiment'), problems), problems };
}
