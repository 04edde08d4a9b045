// Builds the page from the datasheets and experiments that `sidelatch report` put into it.

import { readDocuments } from './documents.js';
import { element } from './dom.js';
import { environmentSection, head } from './environment.js';
import { experimentSections } from './experiments.js';
import { glanceSection } from './glance.js';
import { lockTableSection } from './lock_table.js';
import { orderSection } from './order.js';
import { schemesSection } from './schemes.js';
import { seriesSection } from './series.js';
import { tornReadsSection } from './torn_reads.js';

/** Paper has no folding, so everything is open while the page prints, and as before afterwards. */
function openForPrint() {
  let opened = [];
  window.addEventListener('beforeprint', () => {
    opened = [...document.querySelectorAll('main details:not([open])')];
    opened.forEach((details) => {
      details.open = true;
    });
  });
  window.addEventListener('afterprint', () =>
    opened.forEach((details) => {
      details.open = false;
    }),
  );
}

function show() {
  const { sheets, experiments, problems } = readDocuments(document.getElementById('documents').textContent);
  const main = document.querySelector('main');
  main.append(head(sheets, experiments, problems));
  if (sheets.length + experiments.length === 0) {
    main.append(
      element(
        'p',
        { id: 'empty' },
        'There is no datasheet and no experiment in this page. ',
        element('code', {}, 'sidelatch report FILE.json... -o page.html'),
        ' makes one with what sidelatch check and sidelatch bench have saved.',
      ),
    );
    return;
  }
  document.title = main.querySelector('h1').textContent;
  const sections = [
    glanceSection,
    environmentSection,
    schemesSection,
    tornReadsSection,
    orderSection,
    lockTableSection,
    seriesSection,
  ];
  if (sheets.length > 0) main.append(...sections.map((make) => make(sheets)));
  main.append(...experimentSections(experiments));
  openForPrint();
}

show();
