/* What screen readers announce when a page changes by itself: sentences in one polite region (templates/base.html), failures in an alert.
   Sentences that arrive together are joined; the region changes at most once in PAUSE milliseconds, however often the page does. */

import { atMost, el } from "./dom.js";

const PAUSE = 2000, STAYS = 10000; // milliseconds
const MOST = 4; // sentences at once
const region = el("div", { role: "status" });
const root = document.querySelector("[data-announcer]").attachShadow({ mode: "closed" }); // the sentences are no text of the page
root.append(region);
const latest = new Map(); // the last text of each subject
const marked = new Set(); // subjects of regions that the server renders
const answered = new WeakSet(); // announced notices that answer an action
let opened = false;
let waiting = new Map(), failures = new Map(), emptied = null;

const utter = atMost(PAUSE, () => {
  const polite = joined(waiting), urgent = joined(failures);
  [waiting, failures] = [new Map(), new Map()];
  if (polite) {
    region.textContent = polite;
    clearTimeout(emptied);
    emptied = setTimeout(() => (region.textContent = ""), STAYS);
  }
  if (urgent) {
    const alert = el("p", { role: "alert" }, urgent);
    root.append(alert);
    setTimeout(() => alert.remove(), STAYS);
  }
});

function joined(sentences) {
  const all = [...sentences.values()], more = all.length - MOST;
  return [...all.slice(0, MOST), more > 0 ? `and ${more} more` : ""].filter(Boolean).map((text) => (/[.!?…]$/.test(text) ? text : `${text}.`)).join(" ");
}

/* A later text of the same subject replaces one that waits, and a text that the subject has already is not repeated.
   The subject "" is an answer to an action: it is announced each time. */
export function announce(subject, text, failure = false) {
  if (!text || (subject && latest.get(subject) === text)) return;
  latest.set(subject, text);
  waiting.delete(subject);
  failures.delete(subject);
  (failure ? failures : waiting).set(subject, text);
  utter();
}

/* The text that a subject has when the page is opened is not announced, later ones are. */
export function follow(subject, text, failure = false) {
  if (latest.has(subject)) announce(subject, text, failure);
  else latest.set(subject, text);
}

/* Shows a hidden notice and announces it. */
export function reveal(notice) {
  if (!notice?.hidden) return;
  notice.hidden = false;
  announce("", words(notice));
}

/* Regions that the server renders have data-announce (the subject) where a changed text matters, and data-failure if it is one.
   The notices that answer an action are announced, too. Called when the page is opened and after parts of it were replaced. */
export function announceRegions() {
  const present = new Set();
  for (const element of document.querySelectorAll("[data-announce], .notices > .notice")) {
    const text = words(element), isAnswer = !("announce" in element.dataset);
    const subject = isAnswer ? `notice ${text}` : element.dataset.announce;
    present.add(subject);
    if (isAnswer && !answered.has(element)) latest.delete(subject); // a second answer with the same text
    if (isAnswer) answered.add(element);
    if (opened || isAnswer) announce(subject, text, "failure" in element.dataset);
    else latest.set(subject, text);
    marked.add(subject);
  }
  for (const subject of marked) if (!present.has(subject)) latest.delete(subject);
  opened = true;
}

function words(element) {
  return element.textContent.replace(/\s+/g, " ").trim();
}

/* Sets a text only if it differs: screen readers read a region again when its text is replaced by the same one. */
export function write(element, text) {
  if (element.textContent !== String(text)) element.textContent = text;
}
