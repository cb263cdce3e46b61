// One expert up close: its opinions, its company, and its support in different company.

function openDetail(k) {
  const dialog = byId("detail");
  const share = raw.usage[k] / raw.rows;
  const users = [];
  for (let n = 0; n < nSamples && users.length < 12; n++) if (raw.orders[n].includes(k)) users.push(n);
  const body = el("div", { class: "detail-body" });
  if (isImage) body.append(el("div", { class: "pair" }, detailPicture(k, true), detailPicture(k, false)));
  else body.append(el("h3", { text: "What it says; the mark is what is usual" }), opinionList(k, 20));
  body.append(partnerList(k));
  if (users.length) {
    body.append(
      el("h3", { text: isImage ? "Its support changes with its company" : "Some rows in which it is active" }),
      el("div", { class: isImage ? "supports" : "users" }, ...users.map((n) => userButton(k, n))),
    );
  }
  dialog.replaceChildren(
    el(
      "div",
      { class: "bar" },
      el("h2", { id: "detail-title", text: expertName(k) }),
      el("button", { type: "button", class: "quiet", "aria-label": "Close", text: "✕", onclick: () => dialog.close() }),
    ),
    el("p", { class: "note", text: `Expert ${k}, active in ${percent(share)} of ${plural(raw.rows, "row")}.${raw.stability ? ` Stability: ${raw.stability.words[k]}.` : ""}` }),
    el("button", {
      type: "button",
      class: "primary",
      text: state.active.has(k) ? "Take it out of the mix" : "Add it to the mix",
      onclick: () => {
        toggleExpert(k);
        dialog.close();
      },
    }),
    body,
  );
  dialog.showModal();
}

function detailPicture(k, template) {
  const caption = template ? "Opinion" : "Level of expertise";
  const canvas = newCanvas(`${caption} of expert ${k}`, "large");
  if (template) paintTemplate(canvas, k);
  else paintExpertise(canvas, k);
  return el("figure", {}, canvas, el("figcaption", { text: caption }));
}

function userButton(k, n) {
  const button = el("button", {
    type: "button",
    class: "user",
    "aria-label": `Go to ${sampleName(n)}`,
    title: sampleName(n),
    onclick: () => {
      byId("detail").close();
      chooseSample(n);
      byId("explore").scrollIntoView();
    },
  });
  if (isImage) {
    const canvas = newCanvas(`Support of expert ${k} in ${sampleName(n)}`);
    const owner = ownersOf(raw.orders[n]);
    paintSupport(canvas, owner, composed(owner), k, slotColor(1));
    button.append(canvas);
  } else {
    button.textContent = sampleName(n);
  }
  return button;
}

// --------------------------------------------------------- who goes together

function partnerList(k) {
  const box = el("div", { class: "partner-list" });
  if (!raw.together || K < 2) return box;
  const others = Array.from({ length: K }, (_, j) => j).filter((j) => j !== k && raw.usage[j] > 0);
  const scored = others.map((j) => [j, correlation(k, j)]).sort((a, b) => b[1] - a[1]);
  const row = (title, entries) =>
    entries.length
      ? el(
          "div",
          {},
          el("h3", { text: title }),
          el("div", { class: "chips small" }, ...entries.map(([j, value]) => partnerButton(j, value))),
        )
      : "";
  box.append(row("Often together with", scored.filter(([, value]) => value > 0.03).slice(0, 6)));
  box.append(row("Rarely together with", scored.filter(([, value]) => value < -0.03).slice(-6).reverse()));
  return box;
}

function partnerButton(j, value) {
  const button = el("button", {
    type: "button",
    class: "chip",
    "aria-label": `${expertName(j)}, correlation ${value.toFixed(2)}`,
    onclick: () => openDetail(j),
  });
  if (isImage) {
    const canvas = newCanvas(`Template of expert ${j}`, "thumb");
    paintTemplate(canvas, j);
    button.append(canvas);
  }
  button.append(
    el(
      "span",
      { class: "chip-text" },
      el("b", { text: expertName(j) }),
      el("span", { class: "share", text: `${value > 0 ? "+" : ""}${signed(value.toFixed(2))}` }),
    ),
  );
  return button;
}

function buildTogether() {
  if (!raw.together) {
    byId("together").remove();
    document.querySelector('nav a[href="#together"]').remove();
    return;
  }
  const order = raw.together.order;
  const labelled = K <= MOST_LABELS;
  const canvas = el("canvas", {
    width: K,
    height: K,
    class: "pixels",
    role: "img",
    "aria-label": "How often each pair of experts is active together; the list beside it says the same in words",
  });
  const note = el("p", { class: "note" }, "Correlation of activations: warm together, cool apart.", el("span", { class: "on-screen", text: " Point at a cell, or choose an expert." }));
  byId("matrix").append(labelled ? withLabels(canvas, order) : canvas, note);
  const choice = el("select", { "aria-label": "Expert", onchange: () => showPartners(Number(choice.value)) });
  const byUse = Array.from({ length: K }, (_, k) => k).sort((a, b) => raw.usage[b] - raw.usage[a] || a - b);
  for (let k = 0; k < K; k++) choice.append(el("option", { value: k, text: isImage ? `Expert ${k}: ${expertName(k)}` : expertName(k) }));
  const list = el("div", {});
  byId("partners").append(el("label", { class: "select" }, "Company of ", choice), list);
  function showPartners(k) {
    choice.value = String(k);
    list.replaceChildren(partnerList(k));
  }
  const cell = (event) => {
    const box = canvas.getBoundingClientRect();
    const at = (offset, size) => order[Math.min(K - 1, Math.max(0, Math.floor((offset / size) * K)))];
    return [at(event.clientY - box.top, box.height), at(event.clientX - box.left, box.width)];
  };
  canvas.addEventListener("pointermove", (event) => {
    const [a, b] = cell(event);
    note.textContent =
      a === b
        ? `${expertName(a)}: active in ${percent(raw.usage[a] / raw.rows)} of rows.`
        : `“${expertName(a)}” and “${expertName(b)}”: together in ${percent(togetherCounts[a * K + b] / raw.rows)} of rows, correlation ${correlation(a, b).toFixed(2)}.`;
  });
  canvas.addEventListener("click", (event) => showPartners(cell(event)[0]));
  paintTogether(canvas, order);
  themed.push(() => {
    paintTogether(canvas, order);
    showPartners(Number(choice.value));
  });
  showPartners(byUse[0]);
}

const MOST_LABELS = 40;

// The matrix with the experts' names beside its rows and their numbers above its columns.
function withLabels(canvas, order) {
  const head = el("div", { class: "axis-top", "aria-hidden": "true" }, ...order.map((k) => el("span", { title: expertName(k), text: String(k) })));
  const side = el(
    "div",
    { class: "axis-left", "aria-hidden": "true" },
    ...order.map((k) => el("span", { title: expertName(k) }, el("span", { class: "name", text: expertName(k) }), ` ${k}`)),
  );
  return el("div", { class: "labelled" }, el("span", {}), head, side, canvas);
}

function paintTogether(canvas, order) {
  const context = canvas.getContext("2d");
  const image = context.createImageData(K, K);
  const warm = oklch(ink.dark ? 0.75 : 0.6, 0.18, 35);
  const cool = oklch(ink.dark ? 0.7 : 0.55, 0.16, 255);
  let most = 0.05;
  for (let a = 0; a < K; a++) for (let b = 0; b < a; b++) most = Math.max(most, Math.abs(correlation(a, b)));
  for (let i = 0; i < K; i++) {
    for (let j = 0; j < K; j++) {
      const at = 4 * (i * K + j);
      const value = i === j ? 0 : correlation(order[i], order[j]) / most;
      mix(ink.paper, value > 0 ? warm : cool, Math.abs(value) ** 0.7, image.data, at);
      if (i === j) mix(ink.paper, ink.ink, 0.12, image.data, at);
      image.data[at + 3] = 255;
    }
  }
  context.putImageData(image, 0, 0);
}
