// Tables: variables by name, the owner's opinion as a bar, the data as a mark on it.

const FIRST_ROWS = 60;
let variableQuery = "";
let variableCount = FIRST_ROWS;

// The range in which a variable's values are drawn.
const scales = new Map();
function scaleOf(d) {
  if (isBinary) return [0, 1];
  if (!scales.has(d)) {
    let low = Infinity;
    let high = -Infinity;
    const take = (v) => {
      low = Math.min(low, v);
      high = Math.max(high, v);
    };
    for (let k = 0; k < K; k++) take(means[k * D + d]);
    for (let n = 0; n < nSamples; n++) take(sampleValues[n * D + d]);
    scales.set(d, high > low ? [low, high] : [low - 0.5, low + 0.5]);
  }
  return scales.get(d);
}

function shareOf(d, value) {
  const [low, high] = scaleOf(d);
  return (value - low) / (high - low);
}

function drawVariables() {
  const box = byId("variables");
  if (!box.firstChild) buildVariables(box);
  const body = box.querySelector("tbody");
  const place = new Map(state.listed.map((k, i) => [k, i]));
  const query = variableQuery.toLowerCase();
  const rows = [];
  for (let d = 0; d < D; d++) {
    if (query && !variableName(d).toLowerCase().includes(query)) continue;
    rows.push(d);
  }
  const key = new Float64Array(D);
  const strength = new Float64Array(D);
  for (const d of rows) {
    const k = state.owner[d];
    key[d] = k < 0 ? 1e9 : place.has(k) ? place.get(k) : 1e8;
    if (k >= 0) strength[d] = distinction(k, d);
  }
  rows.sort((a, b) => key[a] - key[b] || strength[b] - strength[a] || a - b);
  body.replaceChildren(...rows.slice(0, variableCount).map(variableRow));
  const more = box.querySelector(".more");
  more.hidden = rows.length <= variableCount;
  more.textContent = `Show all ${rows.length} variables`;
}

function variableRow(d) {
  const k = state.owner[d];
  const value = state.x[d];
  const opinion = state.values[d];
  const color = k < 0 ? null : css(colorOf(k));
  const dot = el("span", { class: "dot", "aria-hidden": "true" });
  if (color) dot.style.background = color;
  const wrong = isBinary && k >= 0 && opinion > 0.5 !== value > 0.5;
  const name = variableName(d);
  return el(
    "tr",
    { class: wrong ? "wrong" : "" },
    el("th", { scope: "row", title: name, text: name || "(no name)" }),
    el("td", { class: "number", text: tidy(value) }),
    el("td", { class: "wide" }, meter(k < 0 ? 0 : shareOf(d, opinion), color, shareOf(d, value))),
    el("td", { class: "number", text: k < 0 ? "–" : opinionText(opinion) }),
    el(
      "td",
      {},
      k < 0
        ? "nobody"
        : el("button", { type: "button", class: "owner", onclick: () => openDetail(k) }, dot, `Expert ${k}`),
    ),
  );
}

function buildVariables(box) {
  const search = el("input", {
    type: "search",
    placeholder: "Search variables",
    "aria-label": "Search variables",
    oninput: (event) => {
      variableQuery = event.target.value;
      drawVariables();
    },
  });
  const head = ["Variable", "Data", "Opinion (bar) and data (mark)", "Opinion", "Owner"];
  box.append(
    el("div", { class: "bar" }, el("h3", { text: "Who explains which variable" }), search),
    el(
      "div",
      { class: "scroll" },
      el(
        "table",
        { class: "variables" },
        el("thead", {}, el("tr", {}, ...head.map((text) => el("th", { scope: "col", text })))),
        el("tbody", {}),
      ),
    ),
    el("button", {
      type: "button",
      class: "more",
      onclick: () => {
        variableCount = Infinity;
        drawVariables();
      },
    }),
  );
}

// One expert's strongest variables as bars: length is the opinion, colour depth the expertise.
function opinionBars(k, count) {
  const list = el("ul", { class: "bars" });
  for (const d of strongest(k, count)) {
    const i = k * D + d;
    const trust = K > 1 ? 1 - ranks[i] / (K - 1) : 1;
    const bar = meter(shareOf(d, means[i]), null, shareOf(d, usual[d]));
    bar.firstChild.style.opacity = String(0.3 + 0.7 * trust);
    const name = variableName(d) || "(no name)";
    const words = `${name}: expects ${opinionText(means[i])}, usually ${opinionText(usual[d])}, expertise rank ${ranks[i] + 1} of ${K}`;
    list.append(
      el(
        "li",
        { title: words },
        el("span", { class: "name", text: name }),
        bar,
        el("span", { class: "number", text: opinionText(means[i]) }),
      ),
    );
  }
  return list;
}
