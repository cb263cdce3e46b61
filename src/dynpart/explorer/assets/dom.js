// Elements: small helpers. Text only ever enters the page as text.

const byId = (id) => document.getElementById(id);

function el(tag, properties, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties || {})) {
    if (name === "text") element.textContent = value;
    else if (name === "class") element.className = value;
    else if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) element.setAttribute(name, value);
  }
  for (const child of children) if (child !== null && child !== undefined) element.append(child);
  return element;
}

function svg(tag, attributes, ...children) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes || {})) {
    if (name === "text") element.textContent = value;
    else element.setAttribute(name, value);
  }
  for (const child of children) element.append(child);
  return element;
}

// Pictures far down the page are painted when they come near.
const lazyWork = new WeakMap();
const watcher =
  "IntersectionObserver" in window
    ? new IntersectionObserver(
        (entries) => {
          for (const entry of entries) {
            if (!entry.isIntersecting) continue;
            watcher.unobserve(entry.target);
            const work = lazyWork.get(entry.target);
            if (waiting.has(work)) work();
          }
        },
        { rootMargin: "300px" },
      )
    : null;

const waiting = new Set();

function whenVisible(element, work) {
  const once = () => {
    waiting.delete(once);
    work();
  };
  lazyWork.set(element, once);
  waiting.add(once);
  if (watcher) watcher.observe(element);
  else once();
}

// Print shows everything, seen or not.
function paintAll() {
  for (const work of [...waiting]) work();
}

// A bar for a share between 0 and 1, with an optional mark.
function meter(share, color, mark) {
  const fill = el("span", { class: "fill" });
  fill.style.width = `${100 * Math.min(1, Math.max(0, share))}%`;
  if (color) fill.style.background = color;
  const bar = el("span", { class: "meter", "aria-hidden": "true" }, fill);
  if (mark !== undefined && mark !== null) {
    const tick = el("span", { class: "tick" });
    tick.style.left = `${100 * Math.min(1, Math.max(0, mark))}%`;
    bar.append(tick);
  }
  return bar;
}

function plural(count, word) {
  return `${count} ${word}${count === 1 ? "" : "s"}`;
}
