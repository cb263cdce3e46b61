// Curves: how learning went, and how the experts are used.

const WIDTH = 360;
const HEIGHT = 190;
const PAD = { left: 46, right: 12, top: 12, bottom: 28 };

function frame(title, words, xLabel) {
  const drawing = svg("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": words, class: "chart" });
  drawing.append(
    svg("line", { x1: PAD.left, x2: WIDTH - PAD.right, y1: HEIGHT - PAD.bottom, y2: HEIGHT - PAD.bottom, class: "axis" }),
    svg("text", { x: WIDTH - PAD.right, y: HEIGHT - 6, "text-anchor": "end", text: xLabel }),
  );
  byId("charts").append(el("figure", { class: "chart-box" }, el("figcaption", { text: title }), drawing));
  return drawing;
}

function ticks(low, high) {
  const rough = (high - low) / 5;
  const base = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((m) => m * base).find((s) => s >= rough);
  const list = [];
  for (let t = Math.ceil(low / step) * step; t <= high + 1e-9 * step; t += step) list.push(Number(t.toPrecision(12)));
  return list;
}

function yAxis(drawing, low, high) {
  const y = (v) => HEIGHT - PAD.bottom - ((v - low) / (high - low)) * (HEIGHT - PAD.top - PAD.bottom);
  for (const t of ticks(low, high)) {
    drawing.append(
      svg("line", { x1: PAD.left, x2: WIDTH - PAD.right, y1: y(t), y2: y(t), class: "grid" }),
      svg("text", { x: PAD.left - 6, y: y(t) + 3.5, "text-anchor": "end", text: tidy(t) }),
    );
  }
  return y;
}

function lineChart(title, values, unit, className) {
  if (values.length < 2) return;
  const first = tidy(values[0]);
  const last = tidy(values[values.length - 1]);
  const words = `${title}: from ${first} to ${last} ${unit} over ${values.length} iterations`;
  const drawing = frame(title, words, "iteration");
  let [low, high] = [Math.min(...values), Math.max(...values)];
  if (low === high) [low, high] = [low - 1, high + 1];
  const y = yAxis(drawing, low, high);
  const x = (i) => PAD.left + (i / (values.length - 1)) * (WIDTH - PAD.left - PAD.right);
  const points = values.map((v, i) => `${x(i).toFixed(1)},${y(v).toFixed(1)}`).join(" ");
  drawing.append(svg("polyline", { points, class: `curve ${className}` }));
  const end = values.length - 1;
  drawing.append(
    svg("circle", { cx: x(end), cy: y(values[end]), r: 3.5, class: `end ${className}` }),
    svg("text", { x: x(end) - 6, y: y(values[end]) + (y(values[end]) < 40 ? 18 : -8), "text-anchor": "end", class: "value", text: `${last} ${unit}` }),
    svg("text", { x: PAD.left, y: HEIGHT - 6, text: "1" }),
  );
}

function barChart(title, words, values, xLabel, className, describe) {
  const drawing = frame(title, words, xLabel);
  const high = Math.max(...values, 1e-9);
  const y = yAxis(drawing, 0, high);
  const step = (WIDTH - PAD.left - PAD.right) / values.length;
  values.forEach((v, i) => {
    const bar = svg("rect", {
      x: PAD.left + i * step + (step > 3 ? 0.5 : 0),
      width: Math.max(0.5, step - (step > 3 ? 1 : 0)),
      y: y(v),
      height: Math.max(0, HEIGHT - PAD.bottom - y(v)),
      class: `column ${className}`,
    });
    bar.append(svg("title", { text: describe(i) }));
    drawing.append(bar);
  });
}

// Bits of held-back rows over the number of experts, with the baselines as lines.
function selectionChart() {
  if (!raw.selection) return;
  const { sizes, bits, chosen, columns, mixture, words } = raw.selection;
  const drawing = frame("How many experts: bits per held-back row", words, "experts");
  const all = [...bits, columns, ...(mixture === null ? [] : [mixture])];
  const margin = 0.12 * (Math.max(...all) - Math.min(...all)) || 1;
  const y = yAxis(drawing, Math.min(...all) - margin, Math.max(...all) + margin);
  const [first, last] = [sizes[0], sizes[sizes.length - 1]];
  const x = (size) => PAD.left + 8 + ((size - first) / (last - first || 1)) * (WIDTH - PAD.left - PAD.right - 16);
  const at = sizes.indexOf(chosen);
  const isBelow = mixture !== null && mixture < bits[at];
  const level = (value, name, offset = -4) =>
    drawing.append(
      svg("line", { x1: PAD.left, x2: WIDTH - PAD.right, y1: y(value), y2: y(value), class: "level" }),
      svg("text", { x: WIDTH - PAD.right, y: y(value) + offset, "text-anchor": "end", text: name }),
    );
  level(columns, isImage ? "independent pixels" : "independent columns");
  if (mixture !== null) level(mixture, "mixture of as many", isBelow ? 11 : -4);
  drawing.append(svg("polyline", { points: sizes.map((size, i) => `${x(size).toFixed(1)},${y(bits[i]).toFixed(1)}`).join(" "), class: "curve c1" }));
  drawing.append(
    svg("circle", { cx: x(chosen), cy: y(bits[at]), r: 4, class: "end c1" }),
    svg("text", { x: x(chosen), y: y(bits[at]) + (isBelow ? -9 : 16), "text-anchor": "middle", class: "value", text: `${chosen} chosen` }),
    svg("text", { x: x(first), y: HEIGHT - 6, "text-anchor": "middle", text: `${first}` }),
  );
}

function buildCharts() {
  selectionChart();
  const bits = raw.objective.map((nats) => -nats / Math.LN2);
  const without = isImage || raw.types.length < 2 ? "" : ", without types of rows";
  lineChart(`Bits per row while learning${without}`, bits, "bits", "c1");
  lineChart("Active experts a row while learning", raw.active, "experts", "c2");
  const order = Array.from({ length: K }, (_, k) => k).sort((a, b) => raw.usage[b] - raw.usage[a] || a - b);
  const shares = order.map((k) => raw.usage[k] / raw.rows);
  const unused = shares.filter((share) => share === 0).length;
  barChart(
    "How often each expert is active",
    `Usage of experts, from ${percent(shares[0])} down to ${percent(shares[K - 1])} of rows; ${plural(unused, "expert")} unused`,
    shares,
    "experts by usage",
    "c1",
    (i) => `${expertName(order[i])} (expert ${order[i]}): ${percent(shares[i])} of rows`,
  );
  const counts = raw.activeCounts.map((count) => count / raw.rows);
  barChart(
    "How many experts a row needs",
    `Number of active experts a row; most often ${counts.indexOf(Math.max(...counts))}`,
    counts,
    `active experts (0 to ${counts.length - 1})`,
    "c2",
    (i) => `${plural(i, "expert")}: ${percent(counts[i])} of rows`,
  );
}
