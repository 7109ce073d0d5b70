// Pointing and pinning, by mouse, pen or finger.

function fillTip() {
  const tip = byId("tip");
  const head = hoveredHead();
  const target = hoveredTarget();
  tip.hidden = head < 0 && !target;
  if (tip.hidden) return;
  tip.replaceChildren(...(head >= 0 ? headTipParts(head) : tipParts(target)));
  const { innerWidth, innerHeight } = window;
  const { x, y } = state.pointer;
  const below = y + 16 + tip.offsetHeight <= innerHeight - 8;
  tip.style.left = `${Math.max(4, Math.min(x + 14, innerWidth - tip.offsetWidth - 8))}px`;
  tip.style.top = `${Math.max(4, below ? y + 16 : y - 16 - tip.offsetHeight)}px`;  // not under the finger or the pointer
}

function pointAt(event, where) {
  state.pointer = where ? { x: event.clientX, y: event.clientY, where } : null;
  redraw();
}

// A finger leaves when it is lifted; the click that follows points again, and that stays until another touch or a scroll.
function watchPointer(node, where) {
  node.addEventListener("pointermove", (event) => pointAt(event, where));
  node.addEventListener("pointerdown", (event) => pointAt(event, where));
  node.addEventListener("pointercancel", (event) => pointAt(event, null));
  node.addEventListener("pointerleave", (event) => pointAt(event, null));
}

// Pins what is under the pointer, or lets it go when it is what is pinned.
function togglePin(event, where) {
  state.pointer = { x: event.clientX, y: event.clientY, where };
  const target = hoveredTarget();
  if (!target) return;
  giveFocusBack(event);
  const release = sameTarget(target, pinnedTarget());
  if (release && event.pointerType === "touch") state.pointer = null;
  pin(release ? null : pinOf(target), where);
}

function pin(made, except = null) {
  state.pin = made;
  updateFocus();
  showPinned(except);
  redraw();
  writeAddress();
}

// The token `by` places on.
function movePin(by) {
  const token = tokenOf(pinnedTarget());
  const side = token?.side ?? "queries";
  const count = sides[side].length;
  if (count === 0) return;
  const index = token ? (token.index + by + count) % count : by > 0 ? 0 : count - 1;
  pin(pinOf({ side, index }));
}

// After a click the keys act on the page again; who moves by keyboard keeps the focus.
function giveFocusBack(event) {
  if (event.detail > 0) document.activeElement?.blur();
}

function watchFigures() {
  for (const where of ["matrix", "lines"]) {
    const box = byId(`${where}-box`);
    watchPointer(byId(where), where);
    byId(where).addEventListener("click", (event) => togglePin(event, where));
    box.addEventListener("scroll", () => redraw());
  }
  watchPointer(byId("text"), "text");
  byId("text").addEventListener("click", (event) => {
    if (event.target.closest(".token") && getSelection().isCollapsed) togglePin(event, "text");
  });
  byId("text").addEventListener("scroll", () => redraw());
  byId("matrix-box").addEventListener("wheel", (event) => {  // two fingers on a touch pad come as this
    if (!event.ctrlKey) return;
    event.preventDefault();
    pointAt(event, "matrix");
    zoom(event.deltaY < 0 ? 1.2 : 1 / 1.2);
  }, { passive: false });
}

function watchLists() {
  const box = byId("lists");
  watchPointer(box, "list");
  box.addEventListener("focusin", () => redraw());
  box.addEventListener("focusout", () => redraw());
  box.addEventListener("click", (event) => {
    const target = targetOfElement(event.target.closest(".entry"));
    if (!target) return;
    giveFocusBack(event);
    pin(pinOf(target));
  });
}

function watchGrid() {
  const canvas = byId("grid");
  watchPointer(canvas, "grid");
  canvas.addEventListener("click", async (event) => {
    pointAt(event, "grid");
    const n = hoveredHead();
    if (n < 0) return;
    await openHead(n);
    showMap();
  });
  byId("grid-box").addEventListener("scroll", () => redraw());
}

// In a narrow window the map stands below the small maps.
function showMap() {
  const bounds = byId("matrix-box").getBoundingClientRect();
  if (bounds.top < 0 || bounds.top + Math.min(bounds.height, 200) > window.innerHeight) {
    byId("matrix-figure").scrollIntoView({ block: "nearest" });
    state.pointer = null;
    redraw();
  }
}

function watchWindow() {
  document.addEventListener("pointerdown", (event) => {
    if (!event.target.closest("canvas, #text, #lists")) pointAt(event, null);
  });
  window.addEventListener("scroll", () => redraw());
  window.addEventListener("resize", () => {
    placeFigures();
    drawGrid();
    redraw();
  });
}
