// Numbers as Python prints them. toFixed rounds an exact tie up, Python to the even digit; everything else agrees.

const SURE = 40; // further digits that tell a tie from its neighbours

function halfEven(rounded, exact, head) {
  const tail = exact.slice(head);
  if (!/^5?0*$/.test(tail) || tail[0] !== "5") return rounded;
  const kept = exact.slice(0, head).replace(/\.$/, "");
  return Number(kept[kept.length - 1]) % 2 === 0 ? kept : rounded;
}

// f"{x:.{digits}f}"
export function fixed(x, digits) {
  if (Number.isNaN(x)) return "nan";
  if (!Number.isFinite(x)) return x > 0 ? "inf" : "-inf";
  const sign = x < 0 || Object.is(x, -0) ? "-" : "";
  const size = Math.abs(x);
  const exact = size.toFixed(digits + SURE);
  return sign + halfEven(size.toFixed(digits), exact, exact.length - SURE);
}

// f"{x:.{digits}g}"
export function general(x, digits) {
  if (Number.isNaN(x)) return "nan";
  if (!Number.isFinite(x)) return x > 0 ? "inf" : "-inf";
  if (x === 0) return Object.is(x, -0) ? "-0" : "0";
  const sign = x < 0 ? "-" : "";
  let [mantissa, power] = Math.abs(x).toExponential(digits - 1).split("e");
  const [exact, below] = Math.abs(x).toExponential(digits - 1 + SURE).split("e");
  if (below === power) mantissa = halfEven(mantissa, exact, exact.length - SURE);
  const exponent = Number(power);
  const strip = (text) => (text.includes(".") ? text.replace(/\.?0*$/, "") : text);
  if (exponent < -4 || exponent >= digits) {
    const size = String(Math.abs(exponent)).padStart(2, "0");
    return `${sign}${strip(mantissa)}e${exponent < 0 ? "-" : "+"}${size}`;
  }
  const figures = mantissa.replace(".", "");
  if (exponent < 0) return sign + strip(`0.${"0".repeat(-exponent - 1)}${figures}`);
  return sign + strip(`${figures.slice(0, exponent + 1)}.${figures.slice(exponent + 1)}`);
}

// f"{n:,}" of a whole number, and of another with one decimal
export function grouped(n) {
  const text = Number.isInteger(n) ? String(n) : fixed(n, 1);
  return text.replace(/\B(?=(\d{3})+(?!\d))/g, ",");
}

// dial/estimate.py, rounded: more decimals where two significant digits need them, also of what a share lacks of the whole
export function rounded(x, decimals = 3, whole = 1) {
  const size = Math.abs(x);
  const least = size > whole / 2 && size < whole ? whole - size : size;
  if (!(least > 0 && least < Infinity)) return fixed(x, decimals);
  const exponent = Number(least.toExponential(1).split("e")[1]);
  return fixed(x, Math.max(decimals, exponent >= -9 ? 1 - exponent : 0));
}

export function percent(share, digits = 1) {
  return `${rounded(100 * share, digits, 100)} %`;
}

// An estimate as Python's str prints it
export function printed({ value, low, high }) {
  if (Number.isNaN(value)) return "–";
  return `${rounded(value)} [${rounded(low)}, ${rounded(high)}]`;
}

// A number a person typed or a list holds: short, and exact enough to be read back
export function plain(x) {
  return String(Number(x.toPrecision(12)));
}
