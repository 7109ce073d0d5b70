// A dark page prints light.

// At once: a print does not wait for the next frame.
function setPrinting(on) {
  if (state.printing === on || !scene) return;
  state.printing = on;
  showChoices();
  drawGrid();
  drawLegends();
  drawAll();
}

function watchPrint() {
  matchMedia("print").addEventListener("change", (event) => setPrinting(event.matches));
  window.addEventListener("beforeprint", () => setPrinting(true));
  window.addEventListener("afterprint", () => setPrinting(false));
}
