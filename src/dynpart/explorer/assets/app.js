// The page comes to life: theme, keys, and the first data point.

const themed = []; // told when light turns dark

function repaint() {
  readTheme();
  colorDots();
  if (isImage) {
    for (let k = 0; k < K; k++) {
      const [template, trust] = cards[k].querySelectorAll("canvas");
      whenVisible(template, () => {
        paintTemplate(template, k);
        paintExpertise(trust, k);
      });
    }
    options.forEach((option, n) => {
      const canvas = option.firstChild;
      whenVisible(canvas, () => paintData(canvas, sampleOf(n)));
    });
    paintData(pictures.data, state.x);
  }
  buildSteps();
  buildChips(true);
  refresh();
  for (const listener of themed) listener();
}

function switchTheme() {
  document.documentElement.dataset.theme = ink.dark ? "light" : "dark";
  repaint();
}

function buildFacts() {
  document.title = raw.title;
  byId("title").textContent = raw.title;
  const perRow = raw.usage.reduce((sum, count) => sum + count, 0) / raw.rows;
  const shape = isImage ? `${raw.image[0]} × ${raw.image[1]} pixels` : plural(D, "variable");
  byId("facts").textContent = [
    plural(K, "expert"),
    shape,
    `${raw.rows.toLocaleString("en")} row${raw.rows === 1 ? "" : "s"}`,
    `${perRow.toFixed(1)} experts a row`,
    ...(raw.savedBits === null ? [] : [savedText(raw.savedBits)]),
  ].join(" · ");
}

function savedText(bits) {
  const columns = isImage ? "pixel by pixel" : "column by column";
  return `a training row takes ${Math.abs(bits).toFixed(1)} bits ${bits >= 0 ? "less" : "more"} than ${columns}`;
}

const KEYS = [
  ["← →", "previous and next data point"],
  ["[ ]", "one expert fewer or more, in the order in which they help"],
  ["p", "play that"],
  ["r", "back to the experts that the model chose"],
  ["/", "search the experts"],
  ["d", "light or dark"],
  ["Tab, Enter", "reach and use every button"],
];

function openKeys() {
  const dialog = byId("keys");
  const rows = KEYS.map(([key, text]) => el("div", {}, el("dt", {}, el("kbd", { text: key })), el("dd", { text })));
  dialog.replaceChildren(
    el(
      "div",
      { class: "bar" },
      el("h2", { id: "keys-title", text: "How to read this page" }),
      el("button", { type: "button", class: "quiet", "aria-label": "Close", text: "✕", onclick: () => dialog.close() }),
    ),
    el("p", {
      text: "A data point is explained by a few active experts. Each has an opinion about every variable and a level of expertise for it; the active expert with the highest expertise owns the variable. Switch experts on and off and watch the ownership change.",
    }),
    el("dl", { class: "keys" }, ...rows),
  );
  dialog.showModal();
}

function reachedStep() {
  const missing = raw.orders[state.sample].findIndex((k) => !state.active.has(k));
  return missing < 0 ? raw.orders[state.sample].length : missing;
}

function onKey(event) {
  const typing = event.target.closest("input, select, textarea, dialog");
  if (typing || event.ctrlKey || event.metaKey || event.altKey) return;
  const total = raw.orders[state.sample].length;
  const actions = {
    ArrowLeft: () => moveSample(-1),
    ArrowRight: () => moveSample(1),
    "[": () => showStep(Math.max(0, reachedStep() - 1)),
    "]": () => showStep(Math.min(total, reachedStep() + 1)),
    p: play,
    r: () => chooseSample(state.sample),
    d: switchTheme,
    "?": openKeys,
    "/": () => byId("expert-search").focus(),
  };
  if (!(event.key in actions)) return;
  event.preventDefault();
  actions[event.key]();
}

function closeOnBackdrop(dialog) {
  dialog.addEventListener("click", (event) => {
    if (event.target === dialog) dialog.close();
  });
}

readTheme();
document.body.classList.toggle("tables", !isImage);
if (!isImage) {
  byId("explore-title").textContent = "Rows";
  byId("samples").setAttribute("aria-label", "Rows");
  for (const id of ["learning", "together", "explore", "by", "map", "types", "experts", "overview"]) byId(id).parentNode.prepend(byId(id));
  for (const id of ["explore", "by", "map", "experts"]) {
    const link = document.querySelector(`nav a[href="#${id}"]`);
    link.parentNode.prepend(link);
  }
  document.querySelector('nav a[href="#explore"]').textContent = "Rows";
}
if (isImage) {
  // Heights of what is not drawn yet, so that links into the page land where they should.
  const slope = raw.image[0] / raw.image[1];
  document.body.style.setProperty("--card-height", `${Math.round(66 * slope + 32)}px`);
  document.body.style.setProperty("--thumb-height", `${Math.round(55 * slope + 2)}px`);
}
buildFacts();
buildPictures();
buildOverview();
buildGallery();
colorDots();
buildSamples();
chooseSample(raw.mapOrder && raw.oddRows.length ? Math.max(0, raw.sampleRows.indexOf(raw.oddRows[0])) : 0);
buildMap();
buildBy();
buildTogether();
buildCharts();
byId("previous").addEventListener("click", () => moveSample(-1));
byId("next").addEventListener("click", () => moveSample(1));
byId("play").addEventListener("click", play);
byId("reset").addEventListener("click", () => chooseSample(state.sample));
byId("theme").addEventListener("click", switchTheme);
byId("help").addEventListener("click", openKeys);
closeOnBackdrop(byId("detail"));
closeOnBackdrop(byId("keys"));
document.addEventListener("keydown", onKey);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", repaint);

addEventListener("beforeprint", () => paintAll());

// For tests and for the curious: the numbers behind the picture.
window.dynpart = Object.freeze({
  active: () => [...state.active],
  owners: () => Array.from(state.owner),
  reconstruction: () => Array.from(state.values),
  logLikelihood: () => likelihood(state.owner, state.x),
  data: () => Array.from(state.x),
  choose: chooseSample,
  toggle: toggleExpert,
  step: showStep,
});
