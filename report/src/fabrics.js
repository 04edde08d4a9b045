// What a document was measured on: a simulated NIC, which has a profile, or one that has a device.

/** The fabrics by their name in a document, as the page shows them. */
export const fabrics = {
  sim: 'sim (simulated)',
  verbs: 'verbs (a NIC)',
  softnic: 'softnic (the software NIC)',
};

/** The software NIC is a device as a NIC is. False for an unknown fabric. */
export const hasDevice = (fabric) => fabric === 'verbs' || fabric === 'softnic';
