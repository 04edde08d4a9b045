// Makes a PNG small: at most 256 colours, one byte a pixel. Reads what Chromium's screenshots are: 8 bits a channel,
// with or without alpha, not interlaced.

import { deflateSync, inflateSync } from 'node:zlib';

function crc(bytes) {
  let value = ~0;
  for (const byte of bytes) {
    value ^= byte;
    for (let bit = 0; bit < 8; bit += 1) value = (value >>> 1) ^ (0xedb88320 & -(value & 1));
  }
  return ~value >>> 0;
}

function chunk(name, data) {
  const body = Buffer.concat([Buffer.from(name, 'latin1'), data]);
  const result = Buffer.alloc(body.length + 8);
  result.writeUInt32BE(data.length, 0);
  body.copy(result, 4);
  result.writeUInt32BE(crc(body), body.length + 4);
  return result;
}

function chunks(png) {
  const found = [];
  for (let at = 8; at < png.length; at += 12 + png.readUInt32BE(at)) {
    found.push([png.toString('latin1', at + 4, at + 8), png.subarray(at + 8, at + 8 + png.readUInt32BE(at))]);
  }
  return found;
}

/** Undoes the filter of each row: every byte was stored as the difference from its neighbours. */
function unfilter(data, height, rowBytes, step) {
  const rows = Buffer.alloc(height * rowBytes);
  for (let y = 0; y < height; y += 1) {
    const filter = data[y * (rowBytes + 1)];
    for (let x = 0; x < rowBytes; x += 1) {
      const at = y * rowBytes + x;
      const left = x >= step ? rows[at - step] : 0;
      const up = y > 0 ? rows[at - rowBytes] : 0;
      const corner = x >= step && y > 0 ? rows[at - rowBytes - step] : 0;
      const guess = left + up - corner;
      const far = (value) => Math.abs(guess - value);
      const paeth = far(left) <= far(up) && far(left) <= far(corner) ? left : far(up) <= far(corner) ? up : corner;
      rows[at] = data[y * (rowBytes + 1) + 1 + x] + [0, left, up, (left + up) >> 1, paeth][filter];
    }
  }
  return rows;
}

/** The same picture with the 256 colours that occur most; every other colour becomes the nearest of them. */
export function shrink(png) {
  const parts = chunks(png);
  const header = parts[0][1];
  const [width, height, step] = [header.readUInt32BE(0), header.readUInt32BE(4), header[9] === 6 ? 4 : 3];
  const data = inflateSync(Buffer.concat(parts.filter(([name]) => name === 'IDAT').map(([, part]) => part)));
  const rows = unfilter(data, height, width * step, step);

  const times = new Map();
  const colorAt = (pixel) => rows.readUIntBE(pixel * step, 3);
  for (let pixel = 0; pixel < width * height; pixel += 1)
    times.set(colorAt(pixel), (times.get(colorAt(pixel)) ?? 0) + 1);
  const palette = [...times]
    .sort((left, right) => right[1] - left[1])
    .slice(0, 256)
    .map(([color]) => color);
  const distance = (left, right) =>
    [16, 8, 0].reduce((sum, shift) => sum + (((left >> shift) & 255) - ((right >> shift) & 255)) ** 2, 0);
  const nearest = new Map(
    [...times.keys()].map((color) => [
      color,
      palette.reduce(
        (best, other, index) => (distance(color, other) < distance(color, palette[best]) ? index : best),
        0,
      ),
    ]),
  );

  const indexed = Buffer.alloc(height * (width + 1)); // each row begins with its filter, 0: none
  for (let pixel = 0; pixel < width * height; pixel += 1) {
    indexed[Math.floor(pixel / width) * (width + 1) + 1 + (pixel % width)] = nearest.get(colorAt(pixel));
  }
  const colors = Buffer.alloc(palette.length * 3);
  palette.forEach((color, index) => colors.writeUIntBE(color, index * 3, 3));
  const indexedHeader = Buffer.from(header);
  indexedHeader[9] = 3;
  return Buffer.concat([
    png.subarray(0, 8),
    chunk('IHDR', indexedHeader),
    chunk('PLTE', colors),
    chunk('IDAT', deflateSync(indexed, { level: 9 })),
    chunk('IEND', Buffer.alloc(0)),
  ]);
}
