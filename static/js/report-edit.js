/* The editor of a report. Every text is sent shortly after typing, and stored in this browser until the server has it. A text
   that another person's save has overtaken is stored by the server as a separate version. */

import { announce, write } from "./announce.js";
import { groupCharts } from "./compare/group-chart.js";
import { edited } from "./dom.js";

const PAUSE = 1000, AGAIN = 5000;
const form = document.querySelector("[data-report]");
const { title, text, base } = form.elements;
const status = form.querySelector("[data-saved]"), conflict = form.querySelector("[data-conflict]");
const token = form.elements.csrfmiddlewaretoken.value, draft = `report-draft-${form.dataset.report}`;
let timer = null, busy = null, theirs = null, sent = { title: title.defaultValue, text: text.defaultValue };

function now() {
  return { title: title.value, text: text.value };
}

function same(one, other) {
  return one.title === other.title && one.text === other.text;
}

/* Every text is saved, so a save is announced only if it is the first, was requested or follows a failure. */
let expected = true;
function say(words, tone = "") {
  write(status, words);
  status.className = `note ${tone}`;
  if (tone) announce("", words, tone === "bad");
  if (tone) expected = true;
}

/* ---- saving ---- */

function changed() {
  localStorage.setItem(draft, JSON.stringify({ ...now(), base: Number(base.value) }));
  say("not saved yet");
  schedule(PAUSE);
}

function schedule(wait) {
  clearTimeout(timer);
  timer = setTimeout(save, wait);
}

/* One save at a time; later input is saved after it. */
async function save() {
  clearTimeout(timer);
  if (busy) return busy.then(save);
  if (same(now(), sent)) return undefined;
  busy = send(now());
  try {
    await busy;
  } finally {
    busy = null;
  }
  return undefined;
}

async function send(saying) {
  say("saving …");
  let answer, response;
  try {
    answer = await fetch(form.dataset.save, {
      method: "PUT", body: JSON.stringify({ ...saying, base: Number(base.value) }),
      headers: { Accept: "application/json", "Content-Type": "application/json", "X-CSRFToken": token },
    });
    response = await answer.json();
  } catch {
    say("the server does not answer: stored in this browser, retried soon", "warn");
    schedule(AGAIN);
    return;
  }
  if (answer.ok) stored(saying, response);
  else if (answer.status === 409) overtaken(saying, response);
  else {
    say(`not saved: ${response.detail ?? Object.values(response).flat().join("; ")}`, "bad");
    if (answer.status >= 500) schedule(AGAIN);
  }
}

function stored(saying, response) {
  sent = saying;
  base.value = response.revision;
  if (same(now(), saying)) {
    localStorage.removeItem(draft);
    say(`saved, version ${response.version}`);
    if (expected) announce("", status.textContent);
    expected = false;
  } else schedule(PAUSE);
}

/* Our text is a version now; the writer selects the text to continue with. Further input is stored as a separate version. */
function overtaken(saying, response) {
  sent = saying;
  theirs = response;
  localStorage.removeItem(draft);
  const link = conflict.querySelector("[data-separate]");
  link.textContent = `version ${response.version}`;
  link.href = `${form.dataset.versions}?version=${response.version}`;
  conflict.hidden = false;
  say(`stored as version ${response.version}`, "warn");
  if (!same(now(), saying)) schedule(PAUSE);
}

form.querySelector("[data-mine]").addEventListener("click", () => {
  conflict.hidden = true;
  if (theirs) base.value = theirs.revision;
  sent = { title: null, text: null };
  save();
});

form.querySelector("[data-theirs]").addEventListener("click", async () => {
  await save();
  if (!theirs) return location.replace(location.pathname);
  [title.value, text.value, base.value] = [theirs.title, theirs.text, theirs.revision];
  [sent, theirs, conflict.hidden] = [now(), null, true];
  say("this is their text; yours is stored as a version");
  preview();
  return undefined;
});

/* ---- preview ---- */

const pane = form.querySelector("[data-preview-pane]");
let drawing = null, asked = 0;

function drawSoon() {
  clearTimeout(drawing);
  drawing = setTimeout(preview, 600);
}

async function preview() {
  const number = (asked += 1);
  const body = new URLSearchParams({ text: text.value, csrfmiddlewaretoken: token });
  const answer = await fetch(form.dataset.preview, { method: "POST", body }).catch(() => null);
  if (!answer?.ok || number !== asked) return;
  const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
  if (number !== asked) return;
  const height = pane.scrollTop;
  pane.replaceChildren(...fresh.body.childNodes);
  pane.scrollTop = height;
  groupCharts(pane);
}

/* ---- input ---- */

for (const field of [title, text]) field.addEventListener("input", changed);
text.addEventListener("input", drawSoon);
form.addEventListener("submit", async (event) => {
  event.preventDefault();
  await save();
  if (same(now(), sent) && conflict.hidden) location.assign(form.dataset.page);
});
document.addEventListener("keydown", (event) => {
  if (!(event.ctrlKey || event.metaKey) || event.key !== "s") return;
  event.preventDefault();
  expected = true;
  if (same(now(), sent)) announce("", status.textContent);
  save();
});
document.addEventListener("visibilitychange", () => document.visibilityState === "hidden" && save());
addEventListener("beforeunload", (event) => {
  if (!same(now(), sent)) event.preventDefault();
});

/* Text that an earlier visit could not send is sent now, with its original base revision. */
const left = JSON.parse(localStorage.getItem(draft) ?? "null");
if (left && !same(left, now())) {
  [title.value, text.value, base.value] = [left.title, left.text, left.base];
  say("restored unsaved text");
  save();
} else if (edited(title) || edited(text)) changed();
else localStorage.removeItem(draft);
preview();
