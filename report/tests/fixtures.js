// Datasheets for the tests. They are made up: the counts follow docs/check.svg and the rates docs/numbers.md, so they
// resemble those of a ConnectX-5, but nothing here was measured. Each call returns a new copy of the same datasheet.

const sizes = [64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384];
const reads = 20000;

/** The probe of torn reads; `detected` and `undetected` have one count per size. */
function tornReads(detected, undetected) {
  return sizes.map((size, index) => ({
    name: 'torn-read',
    size,
    reads,
    consistent: reads - detected[index] - undetected[index],
    detected: detected[index],
    undetected: undetected[index],
    writes: reads + 1,
    evidence: undetected[index] > 0 ? { slot: 904, words: [0, 905, 905, 0] } : null,
  }));
}

/** The 95 % upper bound of the probability of an effect that was not seen in so many chances. */
const bound95 = (chances) => 1 - 0.05 ** (1 / chances);

const effect = (name, chances, seen, detail = {}) => ({
  name,
  chances,
  seen,
  bound95: seen === 0 ? bound95(chances) : null,
  detail,
});

function scheme(name, verdict, evidence, { assuming = [], torn = 0, broken = false } = {}) {
  return {
    scheme: name,
    verdict,
    known_broken: broken,
    evidence,
    assuming,
    sizes: sizes.map((size, index) => {
      const bad = index > 1 ? Math.round((torn * index) / 35) : 0;
      return {
        size,
        reads,
        accepted: reads - index,
        rejected: index,
        torn: bad,
        evidence: bad > 0 ? { slot: 597, words: [0, 598] } : null,
      };
    }),
  };
}

const ascending = (share) =>
  `lines of one WRITE become visible in order: not refuted in 180000 chances (at most ${share} %)`;
const atomicThenRead =
  'a READ stays behind the atomic posted before it: not refuted in 100000 chances (at most 0.003 %)';
const quiet = 'no tear in 180000 chances';

function schemes() {
  const proved = 'no execution of the model breaks it, and its assumptions were not refuted';
  const proof = { assuming: [ascending('0.0017'), atomicThenRead] };
  return [
    scheme('latch-exclusive/combined', 'safe', proved, { assuming: [atomicThenRead] }),
    scheme('latch-rw/combined', 'safe', proved, { assuming: [atomicThenRead] }),
    scheme('optimistic/two-read', 'safe', proved, proof),
    scheme('optimistic/crc64', 'safe', proved, proof),
    scheme('optimistic/farm', 'safe', proved, proof),
    scheme('optimistic/farm+v16', 'not exercised', quiet),
    scheme('optimistic/copy-on-write', 'safe', proved, { assuming: [atomicThenRead] }),
    scheme('optimistic/two-read+write-unlatch', 'not exercised', quiet),
    scheme('optimistic/crc64+write-unlatch', 'not exercised', quiet),
    scheme('optimistic/farm+write-unlatch', 'not exercised', quiet),
    scheme('broken/bookend', 'unsafe', 'torn: 1789 in 180000 reads; first at 256 B, object 904: 0 x8, 905 x8, 0 x16', {
      torn: 1789,
      broken: true,
    }),
    scheme('broken/naive', 'unsafe', 'torn: 10 in 180000 reads; first at 128 B, object 4810: 4811 x6, 0 x8', {
      torn: 10,
      broken: true,
    }),
    scheme('broken/marking', 'unsafe', 'torn: 968 in 180000 reads; first at 128 B, object 597: 0 x6, 598 x8', {
      torn: 968,
      broken: true,
    }),
    scheme('broken/overlapped-reads', 'not exercised', quiet, { broken: true }),
    scheme('broken/version-only-validation', 'not exercised', quiet, { broken: true }),
  ];
}

const workers = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512];
const points = (xs, y) => xs.map((x) => ({ x, y: y(x) }));
const capped = (rate, cap) => (x) => Math.min(rate * x, cap);

/** Series of a NIC whose slots do `slot` Mops/s each, and `most` together. */
function series(slot, most, latency) {
  return [
    {
      name: 'atomics/by-stride',
      title: 'CAS on private words, by distance',
      x: 'stride',
      x_unit: 'B',
      x_scale: 'log',
      unit: 'Mops/s',
      points: points([8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192], (x) =>
        Math.min(most, slot * Math.max(1, 4096 / x)),
      ),
    },
    {
      name: 'atomics/uncontended',
      title: 'CAS on private words, by workers',
      x: 'workers',
      x_unit: '',
      x_scale: 'log',
      unit: 'Mops/s',
      points: points(workers, (x) => (x > 256 ? 0.82 * most : capped(0.43, most)(x))),
    },
    {
      name: 'atomics/contended',
      title: 'CAS on one word, by workers',
      x: 'workers',
      x_unit: '',
      x_scale: 'log',
      unit: 'Mops/s',
      points: points(workers, capped(0.43, slot)),
    },
    {
      name: 'read/by-queue-pairs',
      title: 'READs of 64 B, by queue pairs',
      x: 'queue pairs',
      x_unit: '',
      x_scale: 'log',
      unit: 'Mops/s',
      points: points(workers, (x) => (x > 256 ? 0.8 * most : capped(0.45, most)(x))),
    },
    {
      name: 'latency/READ',
      title: 'READ latency, median',
      x: 'size',
      x_unit: 'B',
      x_scale: 'log',
      unit: 'us',
      points: points(sizes, (x) => latency + x / 9000),
    },
    {
      name: 'latency/WRITE',
      title: 'WRITE latency, median',
      x: 'size',
      x_unit: 'B',
      x_scale: 'log',
      unit: 'us',
      points: points(sizes, (x) => 0.85 * latency + x / 9000),
    },
  ];
}

/** A simulated ConnectX-5. */
export function connectx5() {
  return {
    schema: { name: 'sidelatch-datasheet', version: 1 },
    sidelatch: '0.1.0',
    device: 'sim:connectx5',
    fabric: 'sim',
    seed: 1,
    seconds: 24.83,
    complete: true,
    environment: {
      firmware: null,
      driver: null,
      kernel: '6.1.0-31-amd64',
      pcie_link: null,
      relaxed_ordering: false,
      cpu: 'AMD EPYC 7443P 24-Core Processor',
      numa_node: null,
      mtu: 4096,
    },
    probes: [
      ...tornReads([0, 18, 15, 23, 22, 18, 8, 6, 6], [0, 0, 22, 69, 136, 208, 236, 408, 710]),
      effect('order/read-read', 100000, 412, { distance: '64 B' }),
      effect('order/read-write', 100000, 57),
      effect('order/write-read', 100000, 0),
      effect('order/atomic-read', 100000, 0),
      effect('lines/within-write', 180000, 0, { lines: 4 }),
      effect('unlatch/write-against-fetch-add', 50000, 3),
      effect('unlatch/write-against-cas', 50000, 0),
      effect('visibility/after-completion', 20000, 0),
      { name: 'atomics/cpu', skipped: 'the simulator has no CPU that works on the memory' },
      effect('latch/exclusive/combined', 40000, 0),
      effect('torn-read/offset', 20000, 31, { bytes: 512 }),
      // Its control saw nothing either, so there is no bound.
      { ...effect('order/write-write', 100000, 0, { control_chances: 100000, control_seen: 0 }), bound95: null },
    ],
    lock_table: { address_bits: 12, slots: 512, contended_mops: 2.4, uncontended_mops: 51.2345 },
    queue_pair_cache: { queue_pairs: 256 },
    series: series(2.4, 51.2345, 1.9),
    schemes: schemes(),
  };
}

/** A NIC that differs in two verdicts, one effect, the lock table and the rates. */
export function mlx5() {
  const sheet = connectx5();
  delete sheet.seed;
  Object.assign(sheet, {
    device: 'mlx5_0',
    fabric: 'verbs',
    memory: '10.0.0.1:18515',
    seconds: 25.1,
    environment: {
      firmware: '28.39.1002',
      driver: 'mlx5_core 24.01',
      kernel: '6.1.0-31-amd64',
      pcie_link: '32.0 GT/s x16',
      relaxed_ordering: 'off, and on for torn-read/relaxed-ordering',
      cpu: 'Intel(R) Xeon(R) Gold 6430',
      numa_node: 1,
      mtu: '4096',
    },
    lock_table: { address_bits: 12, slots: 512, contended_mops: 2.51, uncontended_mops: 83.9 },
    queue_pair_cache: null,
    series: series(2.51, 83.9, 1.6),
  });
  sheet.probes = [
    ...tornReads([0, 3, 9, 14, 20, 11, 5, 2, 1], [0, 0, 4, 31, 70, 144, 203, 371, 655]),
    ...sheet.probes
      .filter((probe) => probe.name !== 'torn-read')
      .map((probe) => (probe.name === 'lines/within-write' ? effect(probe.name, 180000, 22, { lines: 4 }) : probe))
      .map((probe) => (probe.name === 'atomics/cpu' ? effect(probe.name, 40000, 9) : probe))
      .map((probe) => (probe.name === 'order/write-write' ? effect(probe.name, 100000, 5) : probe)),
  ];
  const turned = {
    'optimistic/farm+write-unlatch': 'torn: 4 in 180000 reads; first at 256 B, object 12: 13 x8, 0 x24',
    'optimistic/crc64+write-unlatch': 'torn: 2 in 180000 reads; first at 512 B, object 33: 34 x8, 0 x56',
  };
  for (const scheme of sheet.schemes) {
    if (turned[scheme.scheme]) Object.assign(scheme, { verdict: 'unsafe', evidence: turned[scheme.scheme] });
  }
  // This NIC was measured at one point fewer, and one value is unknown.
  const stride = sheet.series.find((one) => one.name === 'atomics/by-stride');
  stride.points.pop();
  stride.points[3].y = null;
  return sheet;
}

/** The software NIC, which is no hardware: its system says less of it. */
export function softnic() {
  const sheet = mlx5();
  Object.assign(sheet, { device: 'sidelatch0', fabric: 'softnic', memory: 'this machine' });
  Object.assign(sheet.environment, { firmware: null, driver: null, pcie_link: null, numa_node: null });
  return sheet;
}

/** A datasheet with markup in every text. */
export function hostile() {
  const markup = '<script>window.broken = 1</script><img src=x onerror="window.broken = 1">&amp;</td>';
  const poison = (value, name) => {
    if (typeof value === 'string' && !['fabric', 'verdict', 'x_scale'].includes(name)) return `${value}${markup}`;
    if (Array.isArray(value)) return value.map((item) => poison(item));
    if (value === null || typeof value !== 'object') return value;
    return Object.fromEntries(
      Object.entries(value).map(([key, item]) => [key, key === 'schema' ? item : poison(item, key)]),
    );
  };
  return { markup, sheet: { ...poison(mlx5()), failure: markup, complete: false } };
}

/** [name, datasheet, problem, still shown]: the fault is in the datasheet, and the page must name the problem. */
export function specimens() {
  const changed = (change) => {
    const sheet = connectx5();
    return change(sheet) ?? sheet;
  };
  const cases = [
    [
      'newer.json',
      (sheet) => {
        sheet.schema.version = 2;
      },
      'schema.version: is 2',
      false,
    ],
    [
      'other.json',
      (sheet) => {
        sheet.schema.name = 'else';
      },
      'schema.name: should be',
      false,
    ],
    [
      'check.json',
      (sheet) => {
        delete sheet.schema;
      },
      'schema: is missing',
      false,
    ],
    ['list.json', () => [], 'is not a datasheet', false],
    [
      'no-probes.json',
      (sheet) => {
        delete sheet.probes;
      },
      'probes: is missing',
      true,
    ],
    [
      'no-schemes.json',
      (sheet) => {
        delete sheet.schemes;
      },
      'schemes: is missing',
      true,
    ],
    [
      'no-environment.json',
      (sheet) => {
        delete sheet.environment;
      },
      'environment: is missing',
      true,
    ],
    [
      'no-device.json',
      (sheet) => {
        delete sheet.device;
      },
      'device: is missing',
      true,
    ],
    [
      'no-series.json',
      (sheet) => {
        sheet.series = null;
      },
      'series: should be a list, not null',
      true,
    ],
    [
      'no-slots.json',
      (sheet) => {
        delete sheet.lock_table.slots;
      },
      'lock_table.slots: is missing',
      true,
    ],
    [
      'chances.json',
      (sheet) => {
        sheet.probes[9].chances = 'many';
      },
      'probes[9].chances: should be a number',
      true,
    ],
    [
      'size.json',
      (sheet) => {
        sheet.probes[2].size = null;
      },
      'probes[2].size: should be a number',
      true,
    ],
    [
      'point.json',
      (sheet) => {
        sheet.series[1].points[2] = 5;
      },
      'series[1].points[2]: should be an object',
      true,
    ],
    [
      'verdict.json',
      (sheet) => {
        sheet.schemes[4].verdict = 'fine';
      },
      'schemes[4].verdict: should be "safe" or',
      true,
    ],
    [
      'fabric.json',
      (sheet) => {
        sheet.fabric = 'pigeon';
      },
      'fabric: should be "sim" or "verbs" or "softnic"',
      true,
    ],
  ];
  return cases.map(([file, change, problem, shown]) => [file, changed(change), problem, shown]);
}
