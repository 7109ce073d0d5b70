// Elements of the page.

const byId = (id) => document.getElementById(id);

// An element with properties (class, dataset ... by their DOM names) and children; strings stay text.
function element(tag, properties = {}, ...children) {
  const made = document.createElement(tag);
  const { dataset, ...rest } = properties;
  Object.assign(made, rest);
  Object.assign(made.dataset, dataset);
  made.append(...children);
  return made;
}

// A token's text whose direction of writing does not turn what stands beside it.
function tokenName(text, className = "") {
  return element("bdi", { className }, text);
}
