// Experiment results for the tests. They are made up, modelled on the simulator and the paper; nothing here was
// measured. Each call returns a new copy of the same result.

const workers = [1, 2, 4, 8, 16, 32, 64, 128];
const rounded = (value) => Number(value.toPrecision(4));

/** A series with an interval of this share around each value. */
const line = (panel, name, xs, y, share = 0.02) => ({
  panel,
  name,
  unit: 'Mops/s',
  points: xs.map((x, index) => ({ x, y: rounded(y(x, index)), half_width: rounded(share * y(x, index)) })),
});

const number = (id, expected, measured, unit = 'Mops/s') => ({
  id,
  kind: 'number',
  expected,
  measured,
  unit,
  ratio: measured / expected,
  ok: Math.abs(measured / expected - 1) <= 0.1,
});

const shape = (id, measured, ok) => ({ id, kind: 'shape', expected: null, measured, unit: '', ratio: null, ok });

const result = (experiment, title, figure, x, scale, series, targets) => ({
  schema: { name: 'sidelatch-experiment', version: 1 },
  version: 'sidelatch 0.1.0',
  experiment,
  title,
  figure,
  fabric: 'sim',
  profile: 'connectx5',
  seed: 1,
  x,
  x_scale: scale,
  series,
  targets,
});

/** Three panels with the same three lines, on a linear axis. */
export function kvStore() {
  const exponents = [0, 0.5, 1, 1.5, 2];
  const drop = (top, at1, at2) => (x, index) => [top, top, at1, (at1 * at2) ** 0.5, at2][index];
  const panel = (name, basic, optimized, padded) => [
    line(name, 'NAM-DB', exponents, drop(...basic)),
    line(name, 'NAM-DB++ unpadded', exponents, drop(...optimized)),
    line(name, 'NAM-DB++', exponents, drop(...padded), 0.08),
  ];
  return result(
    'kv-store',
    'a store of 20 million tuples on four memory nodes by skew, latches',
    'TODS 2025, figure 10',
    'exponent',
    'linear',
    [
      ...panel('write-only', [12.82, 0.501, 0.045], [24.1, 0.52, 0.053], [24.1, 0.524, 0.05]),
      ...panel('mixed', [14.65, 0.509, 0.042], [24.46, 0.577, 0.051], [24.46, 0.6, 0.053]),
      ...panel('read-only', [17.09, 16.64, 1.97], [24.85, 17.2, 1.986], [24.85, 20.67, 1.976]),
    ],
    [
      number('N11.uniform', 2, 1.454, 'x'),
      number('N11.zipf1', 2, 1.93, 'x'),
      number('N12.write', 0.17, 0.05),
      shape('N12.order', 'read-only 24.9 Mops/s NAM-DB++, 17.1 NAM-DB', true),
    ],
  );
}

/** One panel of nine lines on a logarithmic axis; most of the lines coincide. */
export function atomicsStride() {
  const lines = [
    ['8 B', 51.28],
    ['64 B', 51.28],
    ['256 B', 38.37],
    ['512 B', 19.19],
    ['4096 B', 2.398],
    ['64 B + 8', 51.28],
    ['256 B + 8', 51.28],
    ['512 B + 8', 51.28],
    ['4096 B + 8', 51.28],
  ];
  return result(
    'atomics-stride',
    'CAS on private counters by stride, padded and not',
    'TODS 2025, figure 4',
    'workers',
    'log',
    lines.map(([name, most]) => line('', name, workers, (x) => Math.min(most, 0.547 * x), 0.005)),
    [
      number('N4', 40, 38.369),
      number('N5', 20, 19.185),
      shape('N5.scaling', '19.2 Mops/s with 64 workers, 19.2 with 128', true),
      number('N8', 12, 12, 'bits'),
    ],
  );
}

/** Bars of two latches by level; one latch lacks a level. */
export function latchAblation() {
  const levels = [1, 2, 3, 4, 5];
  const of =
    (...values) =>
    (x) =>
      values[x - 1];
  return {
    ...result(
      'latch-ablation',
      'one worker, the optimizations of latches one after the other',
      'TODS 2025, figure 6',
      'level',
      'categories',
      [
        line('', 'exclusive', levels, of(0.136, 0.174, 0.232, 0.346, 0.404)),
        line('', 'shared', levels.slice(0, 4), of(0.18, 0.255, 0.255, 0.399), 0.05),
      ],
      [shape('N9', '0.136 basic, 0.174 speculative, 0.232 combined, 0.346 async, 0.404 write unlatch', true)],
    ),
    x_names: ['basic', 'speculative read', 'write combining', 'asynchronous unlatch', 'write unlatch'],
  };
}

/** Sizes in bytes; the intervals are unknown. */
export function optimisticSize() {
  const sizes = Array.from({ length: 11 }, (_, index) => 256 * 2 ** index);
  const names = ['latch-rw/async', 'broken/naive', 'farm', 'crc64 (table)', 'two-read', 'crc64 (our own)'];
  const found = result(
    'optimistic-size',
    'reads by size, one worker',
    'TODS 2025, figure 12',
    'bytes',
    'log',
    names.map((name, index) => line('', name, sizes, (x) => 0.5 / (1 + 0.3 * index + x / (40000 / (index + 1))))),
    [shape('N14.pessimistic', '256 B: 0.459 Mops/s pessimistic, 0.272 best optimistic', true)],
  );
  found.series.forEach((series) => series.points.forEach((point) => Object.assign(point, { half_width: null })));
  return found;
}

/** Panels with different lines. */
export function optimisticScaling() {
  const some = [8, 16, 32, 64, 128];
  const rate = (each, most) => (x) => Math.min(most, each * x);
  return result(
    'optimistic-scaling',
    'reads and updates by optimistic schemes',
    'TODS 2025, figures 13 and 14',
    'workers',
    'log',
    [
      line('read 256 B', 'latch-rw/async', some, rate(0.45, 17.6)),
      line('read 256 B', 'farm', some, rate(0.27, 25.6)),
      line('read 256 B', 'crc64', some, rate(0.26, 25.6)),
      line('read 256 B', 'two-read', some, rate(0.18, 17.1)),
      line('read 16 KiB', 'latch-rw/async', some, rate(0.1, 0.754)),
      line('read 16 KiB', 'farm', some, rate(0.09, 0.762)),
      line('update', 'farm+write-unlatch', some, rate(0.4, 24.8)),
      line('update', 'farm, atomic unlatch', some, rate(0.39, 16.9)),
      line('update', 'unsynchronised', some, rate(0.45, 25.6)),
    ],
    [number('N15.ratio', 1.9, 1.452, 'x')],
  );
}

/** The same experiment on a NIC. */
export function onNic(experiment) {
  const { profile, ...rest } = experiment;
  return { ...rest, fabric: 'verbs', device: 'mlx5_0' };
}

/** The same experiment on the software NIC. */
export const onSoftnic = (experiment) => ({ ...onNic(experiment), fabric: 'softnic', device: 'sidelatch0' });

/** Four panels, whose x are flows, bytes, ms and ms: `x` cannot name them all. */
export function flowControl() {
  const ms = [2, 4, 6, 8, 10, 12, 14];
  const shares = 'shares that change, by ms';
  const lines = [
    line('flows between two nodes', '4 KiB', [1, 4, 8], () => 11.9),
    line('flows between two nodes', '1024 KiB', [1, 4, 8], () => 12.1),
    line('shuffle among 4 nodes by bytes of a tuple', 'each node', [64, 256, 1024, 4096, 16384], () => 11.7),
    line(shares, 'flow 1', ms.slice(0, 4), (_, index) => [3.3, 6.7, 1.7, 6][index]),
    line(shares, 'flow 2', ms.slice(0, 4), (_, index) => [3.3, 1.7, 3.3, 3][index]),
    line('consumers that join and leave, by ms', 'all consumers', ms, (_, index) => 2 * [1, 2, 3, 4, 3, 2, 1][index]),
  ];
  const series = lines.map((one) => ({ ...one, unit: 'Gbyte/s' }));
  const title = 'zero-sided flows side by side, with rate limits, and elastic ones (simulator only)';
  return result('flow-control', title, 'SIGMOD 2024, figures 6, 9, 11 and 13', 'see the panels', 'linear', series, [
    shape('Z10', '4 and 8 flows side by side, 4 KiB to 1 MiB: at least 11.9 of 12.5 Gbyte/s', true),
  ]);
}

/** YCSB has no figure in the papers, and no targets. */
export function ycsb() {
  const found = {
    ...result(
      'ycsb-btree',
      'YCSB A to F on a B-tree whose clients cache its inner nodes, by scheme',
      '',
      'workload',
      'categories',
      ['latch-rw/async', 'two-read', 'crc64', 'farm'].map((name, index) =>
        line('', name, [1, 2, 3, 4, 5, 6], (x) => (12 + 2 * index) / (x === 5 ? 10 : 1 + 0.1 * x)),
      ),
      [],
    ),
    x_names: ['A', 'B', 'C', 'D', 'E', 'F'],
  };
  found.series[1].points[2].y = null;
  return found;
}

/** An experiment with markup in every text. */
export function hostileExperiment() {
  const markup = '<script>window.broken = 1</script><img src=x onerror="window.broken = 1">&amp;</td>';
  const poison = (value, name) => {
    if (typeof value === 'string' && !['fabric', 'x_scale', 'kind'].includes(name)) return `${value}${markup}`;
    if (Array.isArray(value)) return value.map((item) => poison(item));
    if (value === null || typeof value !== 'object') return value;
    return Object.fromEntries(
      Object.entries(value).map(([key, item]) => [key, key === 'schema' ? item : poison(item, key)]),
    );
  };
  return { markup, experiment: poison(latchAblation()) };
}

/** [file, experiment, problem, still shown]: the fault is in the experiment, and the page must name the problem. */
export function brokenExperiments() {
  const cases = [
    [
      'newer.json',
      (found) => Object.assign(found.schema, { version: 2 }),
      'schema.version: is 2, and this page',
      false,
    ],
    ['other.json', (found) => Object.assign(found.schema, { name: 'else' }), 'schema.name: should be', false],
    ['new.json', (found) => Object.assign(found, { schema: 2 }), 'schema: should be a name and a version', false],
    ['text.json', (found) => Object.assign(found, { schema: '1' }), 'schema: should be a name and a version', false],
    ['null.json', (found) => Object.assign(found, { schema: null }), 'schema: should be a name and a version', false],
    ['old.json', (found) => delete found.schema, 'schema: is missing', false],
    ['no-title.json', (found) => delete found.title, 'title: is missing', true],
    ['no-figure.json', (found) => delete found.figure, 'figure: is missing', true],
    ['no-profile.json', (found) => delete found.profile, 'profile: is missing', true],
    [
      'no-device.json',
      (found) => Object.assign(found, onSoftnic(found), { device: undefined }),
      'device: is missing',
      true,
    ],
    [
      'fabric.json',
      (found) => Object.assign(found, { fabric: 'pigeon' }),
      'fabric: should be "sim" or "verbs" or "softnic"',
      true,
    ],
    ['seed.json', (found) => Object.assign(found, { seed: 'one' }), 'seed: should be a number', true],
    ['scale.json', (found) => Object.assign(found, { x_scale: 'ln' }), 'x_scale: should be "log" or', true],
    ['no-x.json', (found) => delete found.x, 'x: is missing', true],
    ['no-series.json', (found) => delete found.series, 'series: is missing', true],
    ['series.json', (found) => delete found.series[1].name, 'series[1].name: is missing', true],
    [
      'panel.json',
      (found) => Object.assign(found.series[2], { panel: 3 }),
      'series[2].panel: should be a string',
      true,
    ],
    ['point.json', (found) => found.series[0].points.push(5), 'series[0].points[5]: should be an object', true],
    [
      'value.json',
      (found) => Object.assign(found.series[4].points[3], { y: 'much' }),
      'series[4].points[3].y: should be a number',
      true,
    ],
    [
      'width.json',
      (found) => Object.assign(found.series[0].points[1], { half_width: -1 }),
      'series[0].points[1].half_width: should be a number of at least 0',
      true,
    ],
    ['no-targets.json', (found) => delete found.targets, 'targets: is missing', true],
    ['target.json', (found) => Object.assign(found.targets[0], { ok: 'yes' }), 'targets[0].ok: should be true', true],
    ['kind.json', (found) => Object.assign(found.targets[3], { kind: 'idea' }), 'targets[3].kind: should be', true],
  ];
  return cases.map(([file, change, problem, shown]) => {
    const found = kvStore();
    change(found);
    return [file, found, problem, shown];
  });
}
