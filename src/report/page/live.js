// The page of a server: each text that is typed is sent, and the page that comes back takes the place of the one before,
// with the same head and view.
//
//   #text=The+cat+sat.&layer=5&head=11&..      the text, then the address of the page below
"use strict";

const byId = (id) => document.getElementById(id);
const waitForMore = 200;  // ms without a key before a text is sent

const given = new URLSearchParams(location.hash.slice(1));
const first = given.get("text") ?? "The animal didn't cross the street because it was too tired.";
given.delete("text");

let view = given.toString();  // the address of the page below
let shown = null;             // its frame
let sent = null;              // its text
let running = null;           // what ends the request that is under way
let timer = 0;

function say(text, failed = false) {
  byId("said").textContent = text;
  byId("said").classList.toggle("failed", failed);
}

// A page in a frame behind the one that is shown; it comes to the front when it is ready.
function open(blob) {
  const frame = document.createElement("iframe");
  const url = URL.createObjectURL(blob);
  frame.title = "Heads";
  frame.className = "coming";
  frame.addEventListener("load", () => {
    URL.revokeObjectURL(url);
    if (!frame.isConnected) return;
    shown?.remove();
    shown = frame;
    frame.className = "";
  });
  for (const old of document.querySelectorAll("iframe.coming")) old.remove();
  frame.src = `${url}#${view}`;
  byId("pages").append(frame);
}

async function send() {
  const text = byId("typed").value;
  if (text === sent) return;
  running?.abort();
  if (text.trim() === "") return say("");
  running = new AbortController();
  const { signal } = running;
  const begin = performance.now();
  try {
    const answer = await fetch("/page", { method: "POST", body: text, headers: { "Content-Type": "text/plain" }, signal });
    if (!answer.ok) return say((await answer.text()).trim(), true);
    open(await answer.blob());
    sent = text;
    say(`${Math.round(performance.now() - begin)} ms`);
    writeAddress();
  } catch (error) {
    if (error.name !== "AbortError") say("The server does not answer.", true);
  }
}

function writeAddress() {
  const address = `#${new URLSearchParams({ text: sent })}${view === "" ? "" : `&${view}`}`;
  if (sent !== null && address !== location.hash) history.replaceState(null, "", address);
}

// The page below has an address and a theme of its own.
function follow() {
  const below = shown?.contentWindow;
  if (!below?.document.documentElement.dataset.ready) return;
  document.documentElement.dataset.theme = below.document.documentElement.dataset.theme;
  view = below.location.hash.slice(1);
  writeAddress();
}

byId("typed").value = first;
byId("typed").addEventListener("input", () => {
  clearTimeout(timer);
  timer = setTimeout(send, waitForMore);
});
document.documentElement.dataset.theme = matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
setInterval(follow, 250);
send();
