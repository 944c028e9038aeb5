// The arrays of the payload: base64, deflate, byte planes, steps, order-preserving integers (explorer/payload.py).

function bytesOf(text) {
  if (Uint8Array.fromBase64) return Uint8Array.fromBase64(text);
  const raw = atob(text);
  const bytes = new Uint8Array(raw.length);
  for (let i = 0; i < raw.length; i++) bytes[i] = raw.charCodeAt(i);
  return bytes;
}

async function inflate(bytes) {
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate-raw"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

function word(bytes, at, width, size) {
  const codes = new Uint32Array(size);
  for (let k = 0; k < width; k++) {
    const plane = at + k * size;
    for (let i = 0; i < size; i++) codes[i] |= bytes[plane + i] << (8 * k);
  }
  return codes;
}

function addUp(codes, width, steps) {
  const mask = width === 4 ? 0xffffffff : 2 ** (8 * width) - 1;
  const sign = steps === "rising" ? 1 : -1;
  let sum = 0;
  for (let i = 0; i < codes.length; i++) {
    sum = ((sum + sign * codes[i]) & mask) >>> 0;
    codes[i] = sum;
  }
}

function addUpWide(low, high, steps) {
  let [a, b] = [0, 0];
  for (let i = 0; i < low.length; i++) {
    if (steps === "rising") {
      const sum = a + low[i];
      b = (b + high[i] + (sum > 0xffffffff ? 1 : 0)) >>> 0;
      a = sum >>> 0;
    } else {
      const rest = a - low[i];
      b = (b - high[i] - (rest < 0 ? 1 : 0)) >>> 0;
      a = rest >>> 0;
    }
    low[i] = a;
    high[i] = b;
  }
}

const TOP = 0x80000000;

function float32(codes) {
  for (let i = 0; i < codes.length; i++) codes[i] = codes[i] & TOP ? codes[i] ^ TOP : ~codes[i];
  return Float64Array.from(new Float32Array(codes.buffer));
}

function float64(low, high) {
  const pairs = new Uint32Array(2 * low.length);
  for (let i = 0; i < low.length; i++) {
    const positive = high[i] & TOP;
    pairs[2 * i] = positive ? low[i] : ~low[i];
    pairs[2 * i + 1] = positive ? high[i] ^ TOP : ~high[i];
  }
  return new Float64Array(pairs.buffer); // every processor that runs a browser is little-endian
}

export async function decode({ index, data }) {
  const bytes = await inflate(bytesOf(data));
  const found = {};
  let at = 0;
  for (const { name, kind, width, size, steps } of index) {
    if (kind === "float64") {
      const [low, high] = [word(bytes, at, 4, size), word(bytes, at + 4 * size, 4, size)];
      if (steps !== "none") addUpWide(low, high, steps);
      found[name] = float64(low, high);
    } else {
      const codes = word(bytes, at, width, size);
      if (steps !== "none") addUp(codes, width, steps);
      found[name] = kind === "float32" ? float32(codes) : codes;
    }
    at += width * size;
  }
  return found;
}
