// Tables: variables by name, the owner's opinion as a bar, the data as a mark on it.

const FIRST_ROWS = 60;
let variableQuery = "";
let variableCount = FIRST_ROWS;

// The range in which a variable's numbers are drawn.
const scales = new Map();
function scaleOf(d) {
  if (!scales.has(d)) {
    let low = Infinity;
    let high = -Infinity;
    const take = (v) => {
      low = Math.min(low, v);
      high = Math.max(high, v);
    };
    for (let k = 0; k <= K; k++) take(opinionMeans[k * D + d]);
    for (let n = 0; n < nSamples; n++) if (!gapBits || !bitOf(gapBits, n, d)) take(sampleValue(n, d));
    scales.set(d, high > low ? [low, high] : [low - 0.5, low + 0.5]);
  }
  return scales.get(d);
}

function shareOf(d, value) {
  const [low, high] = scaleOf(d);
  return (value - low) / (high - low);
}

// A bar for what expert k says of variable d, with a mark for what is usual.
function opinionBar(k, d, color) {
  const said = saidBy(k, d);
  if (hasLevels(d)) return meter(chanceOf(k, d, said), color, chanceOf(K, d, said));
  return meter(shareOf(d, said), color, shareOf(d, opinionMeans[K * D + d]));
}

const FILTERS = {
  all: ["All", () => true],
  present: ["Present", (d) => ["binary", "count"].includes(raw.kinds[d]) && state.x[d] > 0],
  wrong: ["Not as expected", (d) => isUnexpected(d)],
  surprising: ["Surprising", (d) => surprise(d) > 1],
};
let variableFilter = "all";

function isUnexpected(d) {
  const k = state.owner[d];
  return k >= 0 && !Number.isNaN(state.x[d]) && !isExpected(k, d, state.x[d]);
}

// Bits by which the owner finds a value less likely than it usually is.
function surprise(d) {
  const k = state.owner[d];
  if (k < 0 || Number.isNaN(state.x[d]) || !canScore) return 0;
  return (logDensity(K, d, state.x[d]) - logDensity(k, d, state.x[d])) / Math.LN2;
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
    if (FILTERS[variableFilter][1](d)) rows.push(d);
  }
  const key = new Float64Array(D);
  const strength = new Float64Array(D);
  for (const d of rows) {
    const k = state.owner[d];
    key[d] = k < 0 ? 1e9 : place.has(k) ? place.get(k) : 1e8;
    if (k >= 0) strength[d] = weights[k * D + d];
  }
  rows.sort((a, b) => key[a] - key[b] || strength[b] - strength[a] || a - b);
  body.replaceChildren(...rows.slice(0, variableCount).map(variableRow));
  const more = box.querySelector(".more");
  more.hidden = rows.length <= variableCount;
  more.textContent = `Show all ${rows.length} variables`;
  box.querySelector(".nothing").hidden = rows.length > 0;
  for (const button of box.querySelectorAll(".filters button")) {
    const [text, keep] = FILTERS[button.dataset.filter];
    let count = 0;
    for (let d = 0; d < D; d++) if (keep(d)) count++;
    button.textContent = `${text} ${count}`;
    button.setAttribute("aria-pressed", String(button.dataset.filter === variableFilter));
  }
}

function variableRow(d) {
  const k = state.owner[d];
  const value = state.x[d];
  const color = k < 0 ? null : css(colorOf(k));
  const dot = el("span", { class: "dot", "aria-hidden": "true" });
  if (color) dot.style.background = color;
  const seen = !Number.isNaN(value);
  const wrong = isUnexpected(d);
  const name = variableName(d);
  return el(
    "tr",
    { class: wrong ? "wrong" : "" },
    el("th", { scope: "row", title: name, text: name || "(no name)" }),
    el("td", {
      class: seen ? "number value" : "number value gap",
      text: seen ? valueText(d, value) + (wrong ? " !" : "") : "not observed",
    }),
    el("td", { class: "says", text: k < 0 ? "–" : opinionText(k, d) }),
    el("td", { class: "wide" }, k < 0 ? "" : opinionBar(k, d, color)),
    el(
      "td",
      { class: "who" },
      k < 0
        ? "nobody"
        : el("button", { type: "button", class: "owner", title: expertName(k), onclick: () => openDetail(k) }, dot, el("span", { class: "name", text: expertName(k) })),
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
  const hasAbsence = raw.kinds.includes("binary") || raw.kinds.includes("count");
  const chosen = Object.keys(FILTERS).filter((key) => key !== "present" || hasAbsence);
  const filters = chosen.map((key) =>
    el("button", {
      type: "button",
      "data-filter": key,
      onclick: () => {
        variableFilter = key;
        drawVariables();
      },
    }),
  );
  const head = ["Variable", "This row", "The expert says", "says (bar), usual (mark)", "Explained by"];
  box.append(
    el("div", { class: "bar" }, el("h3", { text: "Who explains which variable" }), search),
    el("div", { class: "filters", role: "group", "aria-label": "Which variables to show" }, ...filters),
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
    el("p", { class: "note nothing", hidden: true, text: "No variable is like that in this row." }),
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

// What an expert says, the strongest opinions first: name, value, bar, chance and usual rate.
function opinionList(k, count) {
  const list = el("ul", { class: "bars" });
  const known = raw.cards[k].opinions.map((opinion) => opinion.d);
  const listed = count <= known.length ? known.slice(0, count) : strongest(k, count).filter((d) => weights[k * D + d] > 0);
  for (const d of listed) {
    const said = saidBy(k, d);
    const name = variableName(d) || "(no name)";
    const short = raw.shortNames ? raw.shortNames[d] : name;
    const [much, usual] = hasLevels(d)
      ? [percent(chanceOf(k, d, said)), percent(chanceOf(K, d, said))]
      : [meanText(d, said), meanText(d, opinionMeans[K * D + d])];
    const seldom = decides[k * D + d] < 0.5 ? `in ${percent(decides[k * D + d])} of its rows` : "";
    list.append(
      el(
        "li",
        { title: `${name}: ${opinionText(k, d)}${seldom && `, ${seldom}`}` },
        el("span", { class: "name" }, short, hasLevels(d) ? el("b", { text: ` ${valueText(d, said)}` }) : "", seldom && el("small", { text: seldom })),
        opinionBar(k, d, `var(--expert-${k})`),
        el("span", { class: "number" }, el("b", { text: much }), el("span", { class: "usual", text: ` usually ${usual}` })),
      ),
    );
  }
  if (!listed.length) list.append(el("li", { class: "note", text: "Says nothing unusual." }));
  return list;
}
