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
const isBinary = raw.levels === 2;
// Tables: chances of levels, means and spreads of every expert and, as expert K, of all rows.
const levelCounts = raw.levelCounts || null;
const levelOffsets = levelCounts ? levelCounts.map(((sum) => (n) => (sum += n) - n)(0)) : null;
const chances = raw.chances ? unpacked(raw.chances) : null;
const opinionMeans = raw.opinionMeans ? unpacked(raw.opinionMeans) : null;
const opinionSpreads = raw.opinionSpreads ? unpacked(raw.opinionSpreads) : null;
const weights = raw.weight ? unpacked(raw.weight) : null;
const decides = raw.decides ? unpacked(raw.decides) : null;
// Of other distributions, and where gains and offsets vary, the page knows what Python said, but
// cannot score codes itself.
const canScore =
  !raw.amplitudes &&
  (levelCounts ? levelCounts.every((n, d) => n > 0 || isCount(d)) || raw.normal : isBinary || raw.normal);
// Gain and offset of experts in the data point that is shown; of the others 1 and 0.
const amplitudes = new Map();
const nSamples = raw.orders.length;
const rowBytes = Math.ceil(D / 8);
const gapBits = raw.gaps ? unpacked(raw.gaps) : null; // of the samples: what was not observed

// A data point; NaN where it was not observed.
function sampleOf(n) {
  const x = new Float32Array(D);
  if (raw.samples.kind === "bits") {
    for (let d = 0; d < D; d++) x[d] = bitOf(sampleValues, n, d);
  } else {
    x.set(sampleValues.subarray(n * D, (n + 1) * D));
  }
  if (gapBits) for (let d = 0; d < D; d++) if (bitOf(gapBits, n, d)) x[d] = NaN;
  return x;
}

function sampleValue(n, d) {
  return raw.samples.kind === "bits" ? bitOf(sampleValues, n, d) : sampleValues[n * D + d];
}

function bitOf(bits, n, d) {
  return (bits[n * rowBytes + (d >> 3)] >> (7 - (d & 7))) & 1;
}

function gapCount(x) {
  let count = 0;
  for (let d = 0; d < D; d++) if (Number.isNaN(x[d])) count++;
  return count;
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

// What an expert says about a variable of an image: gain * opinion + offset.
function said(k, d) {
  const mean = means[k * D + d];
  if (!amplitudes.has(k)) return mean;
  const [gain, offset] = amplitudes.get(k);
  return gain * mean + offset;
}

function composed(owner) {
  const y = new Float32Array(D);
  for (let d = 0; d < D; d++) y[d] = owner[d] < 0 ? NaN : said(owner[d], d);
  return y;
}

function hasLevels(d) {
  return levelCounts ? levelCounts[d] > 0 : isBinary;
}

function isCount(d) {
  return Boolean(raw.dispersions) && raw.dispersions[d] !== null;
}

// Probability that expert k, or all rows together (k = K), gives to a level of a variable of a table.
function chanceOf(k, d, level) {
  return chances[(levelOffsets[d] + level) * (K + 1) + k];
}

// What an expert of a table says: the likeliest level, or the mean.
function saidBy(k, d) {
  if (!hasLevels(d)) return opinionMeans[k * D + d];
  let best = 0;
  for (let level = 1; level < levelCounts[d]; level++) if (chanceOf(k, d, level) > chanceOf(k, d, best)) best = level;
  return best;
}

// Whether a value is as the expert says: the same level, or a number within two standard deviations.
function isExpected(k, d, x) {
  if (hasLevels(d)) return x === saidBy(k, d);
  return Math.abs(x - opinionMeans[k * D + d]) <= 2 * opinionSpreads[k * D + d];
}

// Heavy tails of a number, whatever an expert says: Cauchy's distribution around all rows.
function leastLogDensity(d, x) {
  if (!raw.tails || raw.tails[d] === null) return -Infinity;
  const z = (x - opinionMeans[K * D + d]) / Math.max(opinionSpreads[K * D + d], 1e-12);
  return raw.tails[d] - Math.log1p(z * z);
}

function logDensity(k, d, x) {
  if (levelCounts) {
    if (hasLevels(d)) return Math.log(Math.max(chanceOf(k, d, x), 1e-12));
    if (isCount(d)) return countLogDensity(x, Math.max(opinionMeans[k * D + d], 1e-12), raw.dispersions[d]);
    const spread = Math.max(opinionSpreads[k * D + d], 1e-12);
    const z = (x - opinionMeans[k * D + d]) / spread;
    return Math.max(-0.5 * z * z - Math.log(spread) - 0.5 * Math.log(2 * Math.PI), leastLogDensity(d, x));
  }
  const m = means[k * D + d];
  if (isBinary) return Math.log(Math.min(Math.max(x > 0.5 ? m : 1 - m, 1e-6), 1));
  const v = Math.max(variances[k * D + d], 1e-12);
  return -0.5 * (((x - m) * (x - m)) / v + Math.log(2 * Math.PI * v));
}

// Negative binomial with this mean and variance mean + dispersion * mean^2; without one, Poisson's.
function countLogDensity(x, mean, dispersion) {
  if (!dispersion) return x * Math.log(mean) - mean - logGamma(x + 1);
  const size = 1 / dispersion;
  const choices = logGamma(x + size) - logGamma(size) - logGamma(x + 1);
  return choices - size * Math.log1p(mean / size) + x * (Math.log(mean) - Math.log(size + mean));
}

// Stirling's series, after the argument was raised to where it is exact.
function logGamma(x) {
  let shift = 0;
  for (; x < 10; x++) shift -= Math.log(x);
  const series = 1 / (12 * x) - 1 / (360 * x ** 3) + 1 / (1260 * x ** 5) - 1 / (1680 * x ** 7);
  return shift + (x - 0.5) * Math.log(x) - x + 0.5 * Math.log(2 * Math.PI) + series;
}

// Log-likelihood of a row under its owners; NaN if the page does not know the distribution.
function likelihood(owner, x) {
  if (!canScore) return NaN;
  let sum = 0;
  for (let d = 0; d < D; d++) {
    if (owner[d] >= 0 && !Number.isNaN(x[d])) sum += logDensity(owner[d], d, x[d]);
  }
  return sum;
}

// Log-likelihood of a row of a table if every column stood for itself.
function usualLikelihood(x) {
  let sum = 0;
  for (let d = 0; d < D; d++) if (!Number.isNaN(x[d])) sum += logDensity(K, d, x[d]);
  return sum;
}

// Bits by which active experts tell a row of a table shorter than columns on their own.
function savedBits(owner, x) {
  let sum = 0;
  for (let d = 0; d < D; d++) {
    if (owner[d] >= 0 && !Number.isNaN(x[d])) sum += logDensity(owner[d], d, x[d]) - logDensity(K, d, x[d]);
  }
  return sum / Math.LN2;
}

// Bits that it takes to name the active experts, under the prior over codes; null if it is not known.
const priorTable = raw.prior ? unpacked(raw.prior.table) : null;
const priorParent = raw.prior ? unpacked(raw.prior.parent) : null;

function codeBits(active) {
  if (!priorTable) return null;
  const on = Array.from({ length: K }, (_, k) => Number(active.has(k)));
  const terms = raw.prior.logWeight.map((start, c) => {
    let sum = start;
    for (let k = 0; k < K; k++) {
      const parent = priorParent[c * K + k] - 1; // -1: it depends on no other expert
      sum += priorTable[4 * (c * K + k) + 2 * (parent < 0 ? 0 : on[parent]) + on[k]];
    }
    return sum;
  });
  const most = Math.max(...terms);
  return -(most + Math.log(terms.reduce((sum, term) => sum + Math.exp(term - most), 0))) / Math.LN2;
}

function unexpectedCount(owner, x) {
  let count = 0;
  for (let d = 0; d < D; d++) if (owner[d] >= 0 && !Number.isNaN(x[d]) && !isExpected(owner[d], d, x[d])) count++;
  return count;
}

// How far the reconstruction is from what was observed: share of wrong bits, or root mean square.
function errorOf(owner, x) {
  const count = D - gapCount(x);
  let sum = 0;
  for (let d = 0; d < D; d++) {
    if (Number.isNaN(x[d])) continue;
    const y = owner[d] < 0 ? NaN : said(owner[d], d);
    sum += isBinary ? Number(y > 0.5 !== x[d] > 0.5) : (y - x[d]) ** 2;
  }
  return isBinary ? sum / count : Math.sqrt(sum / count);
}

function fitText(owner, x) {
  if (gapCount(x) === D) return "nothing observed";
  if (levelCounts) {
    const count = unexpectedCount(owner, x);
    return count ? `${count} of ${D - gapCount(x)} variables not as expected` : "all as expected";
  }
  const error = errorOf(owner, x);
  return isBinary ? `${percent(error)} of ${unitName()} wrong` : `RMSE ${tidy(error)}`;
}

function unitName() {
  return isImage ? "pixels" : "variables";
}

// Level of expertise between the lowest and the highest of the model, on a logarithmic scale.
function expertiseShare(i) {
  const { low, high } = raw.expertise;
  return high > low ? (expertise[i] - low) / (high - low) : 1;
}

const strongestCache = new Map();
function strongest(k, count) {
  if (!strongestCache.has(k)) {
    const score = weights.subarray(k * D, (k + 1) * D);
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

function expertName(k) {
  return raw.expertNames[k];
}

// A value of a table as a person would say it.
function valueText(d, value) {
  if (hasLevels(d)) return raw.levelNames[d][value];
  const whole = Number.isInteger(value) && Math.abs(value) < 1e15;
  return signed(String(whole ? value : Number(value.toPrecision(6))));
}

// A mean to the second digit of the standard deviation of the variable.
function meanText(d, value) {
  const digits = raw.digits[d];
  if (digits === null || !Number.isFinite(value)) return tidy(value);
  const unit = 10 ** Math.max(-digits, 0);
  const rounded = Math.sign(value) * Math.round(Math.abs(value) / unit) * unit;
  return signed(String(Number(digits > 0 ? value.toFixed(digits) : rounded) || 0));
}

// What an expert of a table says, beside what is usual.
function opinionText(k, d) {
  const said = saidBy(k, d);
  if (!hasLevels(d)) return `${meanText(d, said)} (usually ${meanText(d, opinionMeans[K * D + d])})`;
  return `${valueText(d, said)} (${percent(chanceOf(k, d, said))}; usually ${percent(chanceOf(K, d, said))})`;
}

function percent(share) {
  if ((share >= 0.0995 && share < 0.995) || share === 0 || share === 1) return `${Math.round(100 * share)}%`;
  if (share < 0.001) return "under 0.1%";
  return share > 0.999 ? "over 99.9%" : `${(100 * share).toFixed(1)}%`;
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
