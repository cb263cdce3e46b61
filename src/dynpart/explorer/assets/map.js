// Tables: a map of rows and experts. Rows with the same experts lie together; a click picks a row.

const ROW_HEIGHT = 16;
const PAPER_WIDTH = 660; // in CSS pixels, what fits on upright paper with its margins
const PAPER_ROWS = 5; // rows of the printed map that stay on one page
const FLAT_CELL = 60; // names stand upright over cells of this width, others are slanted
const SLANTED = 80; // room for the last slanted name
const LEAST_NAMED = 12; // names stand over cells of at least this width
const MOST_NAMED = 40; // experts that are named even if the map must be scrolled sideways
const mapState = { rows: [], canvas: null, cell: 0, nameWidth: 0 };

function buildMap() {
  if (isImage) return;
  byId("map").hidden = false;
  document.querySelector('nav a[href="#map"]').hidden = false;
  const sampled = nSamples < raw.rows ? ` ${nSamples} of ${raw.rows.toLocaleString("en")} rows are shown.` : "";
  byId("map-note").append(
    `A coloured cell: the expert is active in that row. Rows are ordered by type, and those with the same experts lie together.${sampled}`,
    el("span", { class: "on-screen", text: " Click a row, or move with the arrow keys, to see it explained." }),
  );
  const box = byId("map-box");
  const canvas = el("canvas", { role: "img", "aria-label": mapWords() });
  const head = el("div", { class: "map-head", "aria-hidden": "true" });
  mapState.canvas = canvas;
  mapState.experts = raw.together ? raw.together.order : Array.from({ length: K }, (_, k) => k);
  box.append(head, canvas);
  const nameButton = (k) => el("button", { type: "button", tabindex: "-1", title: expertName(k), onclick: () => openDetail(k) }, el("span", { text: expertName(k) }));
  const layout = (width = box.clientWidth) => {
    mapState.nameWidth = width < 500 ? 84 : 120;
    const fits = (margin) => Math.min(150, Math.floor((width - mapState.nameWidth - margin) / K));
    const least = K <= MOST_NAMED ? LEAST_NAMED : 8;
    mapState.cell = fits(34) >= FLAT_CELL ? fits(34) : Math.max(least, fits(SLANTED));
    fillMapHead(head, nameButton);
    paintMap();
  };
  const rowAt = (event) => mapState.rows[Math.floor((event.clientY - canvas.getBoundingClientRect().top) / ROW_HEIGHT)];
  canvas.addEventListener("click", (event) => {
    const n = rowAt(event);
    if (n !== undefined) goToSample(n);
  });
  canvas.addEventListener("pointermove", (event) => {
    const n = rowAt(event);
    canvas.title = n === undefined ? "" : `${sampleName(n)}: ${raw.orders[n].map(expertName).join("; ")}`;
  });
  box.addEventListener("keydown", (event) => {
    const by = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (!by || !mapState.rows.length) return;
    event.preventDefault();
    event.stopPropagation();
    const place = mapState.rows.indexOf(state.sample);
    const next = mapState.rows[Math.min(mapState.rows.length - 1, Math.max(0, place + by))];
    chooseSample(next);
  });
  byId("map-search").addEventListener("input", filterMap);
  byId("map-search").addEventListener("keydown", (event) => {
    if (event.key === "Enter" && mapState.rows.length) goToSample(mapState.rows[0]);
  });
  listeners.push(paintMap);
  themed.push(paintMap);
  addEventListener("resize", () => layout());
  addEventListener("beforeprint", () => {
    layout(Math.min(PAPER_WIDTH, box.clientWidth));
    box.append(paperMap());
  });
  addEventListener("afterprint", () => {
    box.querySelector(".paper-map")?.remove();
    layout();
  });
  filterMap();
  layout();
}

// Names of the experts above their columns.
function fillMapHead(head, tagOf) {
  const { cell, experts, nameWidth } = mapState;
  const flat = cell >= FLAT_CELL;
  head.hidden = cell < LEAST_NAMED;
  head.classList.toggle("flat", flat);
  head.style.width = `${nameWidth + K * cell + (flat ? 0 : SLANTED)}px`;
  head.style.paddingLeft = `${nameWidth}px`;
  head.replaceChildren(
    ...experts.map((k) => {
      const tag = tagOf(k);
      tag.style.width = `${cell}px`;
      tag.style.paddingLeft = `${flat ? 5 : cell / 2 - 6}px`;
      return tag;
    }),
  );
}

// The map for paper: a table, whose head is repeated on every page and whose rows are not cut. The
// head has no buttons: browsers do not repeat them.
function paperMap() {
  const head = el("div", { class: "map-head", "aria-hidden": "true" });
  fillMapHead(head, (k) => el("div", {}, el("span", { text: expertName(k) })));
  const strips = [];
  for (let start = 0; start < mapState.rows.length; start += PAPER_ROWS) {
    const strip = el("canvas", { "aria-hidden": "true" });
    paintRows(strip, mapState.rows.slice(start, start + PAPER_ROWS), 2);
    strips.push(el("tr", {}, el("td", {}, strip)));
  }
  return el("table", { class: "paper-map" }, el("thead", {}, el("tr", {}, el("th", {}, head))), el("tbody", {}, ...strips));
}

function mapWords() {
  const codes = new Map();
  for (const order of raw.orders) {
    const names = [...order].sort((a, b) => a - b).map(expertName).join(" with ");
    codes.set(names, (codes.get(names) || 0) + 1);
  }
  const most = [...codes].sort((a, b) => b[1] - a[1]).slice(0, 5);
  return `Map of ${plural(nSamples, "row")} and ${plural(K, "expert")}; most frequent: ${most.map(([names, count]) => `${names} (${plural(count, "row")})`).join("; ")}`;
}

function filterMap() {
  const query = byId("map-search").value.trim().toLowerCase();
  mapState.rows = raw.mapOrder.filter((n) => !query || sampleName(n).toLowerCase().includes(query));
  paintMap();
}

function paintMap() {
  const { canvas, rows, cell } = mapState;
  if (canvas && cell) paintRows(canvas, rows, Math.min(2, Math.max(1, window.devicePixelRatio || 1)));
}

function paintRows(canvas, rows, scale) {
  const { cell, experts, nameWidth } = mapState;
  const [width, height] = [nameWidth + K * cell, Math.max(1, rows.length) * ROW_HEIGHT];
  const pen = sizedPen(canvas, width, height, scale);
  const colors = experts.map((k) => css(slotColor(k)));
  const place = new Map(experts.map((k, i) => [k, i]));
  const line = ink.dark ? "rgb(42 47 63)" : "rgb(232 234 241)";
  rows.forEach((n, i) => {
    const top = i * ROW_HEIGHT;
    if (n === state.sample) {
      pen.fillStyle = ink.dark ? "rgb(34 42 71)" : "rgb(233 237 252)";
      pen.fillRect(0, top, width, ROW_HEIGHT);
    }
    pen.fillStyle = css(ink.ink);
    pen.fillText(shortened(pen, sampleName(n), nameWidth - 10), 4, top + ROW_HEIGHT / 2);
    pen.fillStyle = line;
    pen.fillRect(nameWidth, top + ROW_HEIGHT - 1, K * cell, 1);
    for (const k of raw.orders[n]) {
      pen.fillStyle = colors[place.get(k)];
      pen.fillRect(nameWidth + place.get(k) * cell + 1, top + 1, cell - 2, ROW_HEIGHT - 2);
    }
  });
  if (!rows.length) {
    pen.fillStyle = css(ink.ink);
    pen.fillText("no such row", 4, ROW_HEIGHT / 2);
  }
}

// A pen for small text on a canvas of this size in CSS pixels.
function sizedPen(canvas, width, height, scale) {
  canvas.width = width * scale;
  canvas.height = height * scale;
  canvas.style.width = `${width}px`;
  canvas.style.height = `${height}px`;
  const pen = canvas.getContext("2d");
  pen.scale(scale, scale);
  pen.font = '11px system-ui, "Segoe UI", Roboto, sans-serif';
  pen.textBaseline = "middle";
  pen.fillStyle = css(ink.ink);
  return pen;
}

function shortened(pen, text, room) {
  if (pen.measureText(text).width <= room) return text;
  let length = text.length;
  while (length > 1 && pen.measureText(`${text.slice(0, length)}…`).width > room) length--;
  return `${text.slice(0, length)}…`;
}
