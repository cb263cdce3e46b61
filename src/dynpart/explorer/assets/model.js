// The numbers: unpacks what Python packed and answers who owns what. Knows no element of the page.

const raw = JSON.parse(document.getElementById("data").textContent);
const VIEWS = { u8: Uint8Array, u16: Uint16Array, u32: Uint32Array, f32: Float32Array };

function unpacked(packed) {
  const text = atob(packed.data);
  const bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
  const view = new VIEWS[packed.type](bytes.buffer);
  if (packed.low === undefined) return view;
  const steps = packed.type === "u8" ? 255 : 65535;
  const scale = (packed.high - packed.low) / steps;
  return Float32Array.from(view, (v) => packed.low + scale * v);
}

const K = raw.experts;
const D = raw.variables;
const means = unpacked(raw.means);
const variances = raw.variances ? unpacked(raw.variances) : null;
const ranks = unpacked(raw.ranks);
const expertise = unpacked(raw.expertise);
const sampleValues = unpacked(raw.samples);
const togetherCounts = raw.together ? unpacked(raw.together.counts) : null;
const isImage = raw.image !== null;
const isBinary = raw.family === "bernoulli";
const nSamples = raw.orders.length;

// What experts say on average, each as often as it is active: the yardstick of "distinctive".
const usual = new Float64Array(D);
{
  const total = raw.usage.reduce((sum, count) => sum + count + 0.5, 0);
  for (let k = 0; k < K; k++) {
    const weight = (raw.usage[k] + 0.5) / total;
    for (let d = 0; d < D; d++) usual[d] += weight * means[k * D + d];
  }
}

function sampleOf(n) {
  const x = new Float32Array(D);
  if (raw.samples.kind === "bits") {
    const start = n * Math.ceil(D / 8);
    for (let d = 0; d < D; d++) x[d] = (sampleValues[start + (d >> 3)] >> (7 - (d & 7))) & 1;
  } else {
    x.set(sampleValues.subarray(n * D, (n + 1) * D));
  }
  return x;
}

// Equation 2: the active expert of the best rank owns the variable; -1 where nobody is active.
function ownersOf(active) {
  const owner = new Int32Array(D).fill(-1);
  const best = new Uint32Array(D).fill(K);
  for (const k of active) {
    const start = k * D;
    for (let d = 0; d < D; d++) {
      const rank = ranks[start + d];
      if (rank < best[d]) {
        best[d] = rank;
        owner[d] = k;
      }
    }
  }
  return owner;
}

function composed(owner) {
  const y = new Float32Array(D);
  for (let d = 0; d < D; d++) y[d] = owner[d] < 0 ? NaN : means[owner[d] * D + d];
  return y;
}

function logDensity(k, d, x) {
  const m = means[k * D + d];
  if (isBinary) return Math.log(Math.min(Math.max(x > 0.5 ? m : 1 - m, 1e-6), 1));
  const v = Math.max(variances[k * D + d], 1e-12);
  return -0.5 * (((x - m) * (x - m)) / v + Math.log(2 * Math.PI * v));
}

function likelihood(owner, x) {
  let sum = 0;
  for (let d = 0; d < D; d++) if (owner[d] >= 0) sum += logDensity(owner[d], d, x[d]);
  return sum;
}

// How far the reconstruction is from the data: share of wrong bits, or root mean square.
function errorOf(owner, x) {
  let sum = 0;
  for (let d = 0; d < D; d++) {
    const y = owner[d] < 0 ? NaN : means[owner[d] * D + d];
    sum += isBinary ? Number(y > 0.5 !== x[d] > 0.5) : (y - x[d]) ** 2;
  }
  return isBinary ? sum / D : Math.sqrt(sum / D);
}

// Level of expertise between the lowest and the highest of the model, on a logarithmic scale.
function expertiseShare(i) {
  const { low, high } = raw.expertise;
  return high > low ? (expertise[i] - low) / (high - low) : 1;
}

// How distinctive an expert is for a variable: far from the usual opinion where it is trusted.
function distinction(k, d) {
  const i = k * D + d;
  const scale = variances ? Math.sqrt(variances[i]) : 1;
  return (Math.abs(means[i] - usual[d]) / scale) * (1 - ranks[i] / K);
}

const strongestCache = new Map();
function strongest(k, count) {
  if (!strongestCache.has(k)) {
    const score = Float64Array.from({ length: D }, (_, d) => distinction(k, d));
    const order = Array.from({ length: D }, (_, d) => d).sort((a, b) => score[b] - score[a] || a - b);
    strongestCache.set(k, order.slice(0, 200));
  }
  return strongestCache.get(k).slice(0, count);
}

// Correlation of two experts' activations over all rows, between -1 and 1.
function correlation(a, b) {
  const n = raw.rows;
  const pa = raw.usage[a] / n;
  const pb = raw.usage[b] / n;
  const spread = Math.sqrt(pa * (1 - pa) * pb * (1 - pb));
  return spread > 0 ? (togetherCounts[a * K + b] / n - pa * pb) / spread : 0;
}

function variableName(d) {
  if (raw.names) return raw.names[d];
  if (isImage) return `pixel (${Math.floor(d / raw.image[1])}, ${d % raw.image[1]})`;
  return `x${d}`;
}

function sampleName(n) {
  const label = raw.sampleLabels ? raw.sampleLabels[n] : "";
  return label ? `${label}` : `Row ${raw.sampleRows[n]}`;
}

// An opinion as a person would say it.
function opinionText(value) {
  return isBinary && Number.isFinite(value) ? percent(value) : tidy(value);
}

function percent(share) {
  return share >= 0.0995 || share === 0 ? `${Math.round(100 * share)}%` : `${(100 * share).toFixed(1)}%`;
}

function tidy(value) {
  if (!Number.isFinite(value)) return "–";
  const size = Math.abs(value);
  if (size !== 0 && (size < 0.001 || size >= 1e6)) return value.toExponential(2);
  return signed(String(Number(value.toPrecision(3))));
}

// A true minus sign, as wide as a plus.
function signed(text) {
  return text.replace("-", "−");
}
