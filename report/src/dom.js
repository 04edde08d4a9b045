// Elements. Every string becomes a text node or an attribute's value, never markup: a datasheet may hold any text.

const svgNamespace = 'http://www.w3.org/2000/svg';

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === null || value === false) continue;
    node.setAttribute(name, value === true ? '' : String(value));
  }
  node.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return node;
}

/** element('p', {class: 'note'}, 'text', otherNode, [more]); null and false among the children are left out. */
export const element = (name, attributes = {}, ...children) => fill(document.createElement(name), attributes, children);

/** The same for the parts of a drawing. */
export const svg = (name, attributes = {}, ...children) =>
  fill(document.createElementNS(svgNamespace, name), attributes, children);

/** A section of the page, with its heading. */
export const section = (id, heading, ...children) =>
  element(
    'section',
    { id, 'aria-labelledby': `${id}-heading` },
    element('h2', { id: `${id}-heading` }, heading),
    children,
  );
