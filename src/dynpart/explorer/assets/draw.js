// Pictures: turns numbers into colours and colours into pixels, in light and in dark.

const ink = { paper: [255, 255, 255], ink: [0, 0, 0], gaps: [[0, 0, 0], [0, 0, 0]], dark: false };

function readTheme() {
  const style = getComputedStyle(document.documentElement);
  const rgb = (name) => style.getPropertyValue(name).trim().split(/\s+/).map(Number);
  ink.paper = rgb("--paper-rgb");
  ink.ink = rgb("--ink-rgb");
  ink.gaps = [rgb("--gap-rgb"), rgb("--gap-stripe-rgb")];
  ink.dark = style.getPropertyValue("--is-dark").trim() === "1";
}

// OKLCH to sRGB (0..255): hues of equal lightness look equally strong.
function oklch(lightness, chroma, hue) {
  const a = chroma * Math.cos((hue * Math.PI) / 180);
  const b = chroma * Math.sin((hue * Math.PI) / 180);
  const l = (lightness + 0.3963377774 * a + 0.2158037573 * b) ** 3;
  const m = (lightness - 0.1055613458 * a - 0.0638541728 * b) ** 3;
  const s = (lightness - 0.0894841775 * a - 1.291485548 * b) ** 3;
  const linear = [
    4.0767416621 * l - 3.3077115913 * m + 0.2309699292 * s,
    -1.2684380046 * l + 2.6097574011 * m - 0.3413193965 * s,
    -0.0041960863 * l - 0.7034186147 * m + 1.707614701 * s,
  ];
  return linear.map((c) => {
    const v = c <= 0.0031308 ? 12.92 * c : 1.055 * Math.max(c, 0) ** (1 / 2.4) - 0.055;
    return Math.round(255 * Math.min(1, Math.max(0, v)));
  });
}

const HUES = [250, 30, 145, 85, 310, 195, 0, 115, 275, 55, 170, 335];

function slotColor(slot) {
  const round = Math.floor(slot / HUES.length);
  const lightness = (ink.dark ? 0.72 : 0.62) + [0, -0.12, 0.1][round % 3];
  return oklch(lightness, 0.155, HUES[slot % HUES.length] + 13 * round);
}

// Low and high values: ink on paper for bits, dark to bright for gray values, as in photographs.
function tones() {
  return isBinary ? [ink.paper, ink.ink] : [[18, 20, 28], [250, 250, 252]];
}

function css(rgb) {
  return `rgb(${rgb[0]} ${rgb[1]} ${rgb[2]})`;
}

function mix(from, to, share, out, at) {
  for (let c = 0; c < 3; c++) out[at + c] = from[c] + (to[c] - from[c]) * share;
}

// Stops from "nothing" to "much" that begin in the background's own tone.
function heatStops() {
  return ink.dark
    ? [ink.paper, [66, 30, 104], [172, 52, 98], [240, 130, 64], [252, 236, 170]]
    : [ink.paper, [250, 214, 150], [238, 134, 92], [178, 50, 104], [62, 16, 88]];
}

function heat(share, out, at, stops) {
  const place = Math.min(1, Math.max(0, share)) * (stops.length - 1);
  const i = Math.min(stops.length - 2, Math.floor(place));
  mix(stops[i], stops[i + 1], place - i, out, at);
}

function newCanvas(label, className) {
  const canvas = document.createElement("canvas");
  const [height, width] = raw.image;
  canvas.width = width;
  canvas.height = height;
  canvas.className = `${className || ""} ${Math.max(width, height) <= 96 ? "pixels" : ""}`.trim();
  canvas.setAttribute("role", "img");
  canvas.setAttribute("aria-label", label);
  return canvas;
}

// 256 colours on the way through some stops, packed for writing a pixel at a time.
function ramp(stops, from = 0, to = 1) {
  const colors = new Uint32Array(256);
  const bytes = new Uint8ClampedArray(colors.buffer);
  for (let i = 0; i < 256; i++) {
    heat(from + ((to - from) * i) / 255, bytes, 4 * i, stops);
    bytes[4 * i + 3] = 255;
  }
  return colors;
}

// Paint every pixel with the packed colour a function gives for it.
function paint(canvas, colorAt) {
  const context = canvas.getContext("2d");
  const image = context.createImageData(canvas.width, canvas.height);
  const out = new Uint32Array(image.data.buffer);
  for (let d = 0; d < D; d++) out[d] = colorAt(d);
  context.putImageData(image, 0, 0);
}

// A value's place among the 256 colours; what is unknown is in the middle.
function level(value) {
  const share = (value - raw.low) / (raw.high - raw.low);
  return share >= 1 ? 255 : share > 0 ? (255 * share) | 0 : share <= 0 ? 0 : 128;
}

function paintValues(canvas, values) {
  const colors = ramp(tones());
  paint(canvas, (d) => colors[level(values[d])]);
}

// What was not observed is striped, in a hue that neither gray values nor surprise have.
function gapColors() {
  return ink.gaps.map((color) => ramp([color, color])[0]);
}

function stripe(d) {
  const width = raw.image[1];
  return (Math.floor(d / width) + (d % width)) % 4 < 2 ? 0 : 1;
}

function paintData(canvas, x) {
  const colors = ramp(tones());
  const gap = gapColors();
  paint(canvas, (d) => (Number.isNaN(x[d]) ? gap[stripe(d)] : colors[level(x[d])]));
}

function paintTemplate(canvas, k) {
  paintValues(canvas, means.subarray(k * D, (k + 1) * D));
}

function paintExpertise(canvas, k) {
  const colors = ramp(heatStops());
  const start = k * D;
  paint(canvas, (d) => colors[(255 * expertiseShare(start + d)) | 0]);
}

// Owners in their colours; within a colour, the opinion decides how deep it is.
function paintPartition(canvas, owner, values, colorOf, highlight) {
  const faded = ink.dark ? 0.16 : 0.12;
  const [low] = tones();
  const nobody = ramp([ink.paper, ink.ink], 0.08, 0.08)[0];
  const ramps = new Map();
  for (const k of new Set(owner)) {
    const strength = highlight === null || highlight === k ? 1 : faded;
    if (k >= 0) ramps.set(k, ramp([low, colorOf(k)], 0.3 * strength, strength));
  }
  paint(canvas, (d) => (owner[d] < 0 ? nobody : ramps.get(owner[d])[level(values[d])]));
}

function paintSurprise(canvas, owner, x) {
  const colors = ramp(heatStops());
  const gap = gapColors();
  const range = raw.high - raw.low;
  paint(canvas, (d) => {
    const k = owner[d];
    if (Number.isNaN(x[d])) return gap[stripe(d)];
    if (k < 0) return colors[0];
    const share = isBinary ? -logDensity(k, d, x[d]) / 5 : Math.abs(x[d] - said(k, d)) / range;
    return colors[Math.min(255, (255 * share) | 0)];
  });
}

// The composed template in gray, one expert's share of it in colour: its support in company.
function paintSupport(canvas, owner, values, k, color) {
  const [low, high] = tones();
  const own = ramp([low, color], 0.25, 1);
  const others = ramp([low, high], 0.06, 0.56);
  paint(canvas, (d) => (owner[d] === k ? own : others)[level(values[d])]);
}
