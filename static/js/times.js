/* Times in the time zone of the browser. The server writes <time datetime> elements in UTC and names it: without this script they stay so.
   data-time: "ago" (relative), "moment" (date and time), "clock" (time of day). The title has the time in full, with its zone. */

import { ago } from "./format.js";

const ZONE = Intl.DateTimeFormat().resolvedOptions().timeZone;
const TIMES = "time[data-time], .log time[datetime]"; // lines of a log have the time of day
const two = (value) => String(value).padStart(2, "0");

function day(moment) {
  return `${moment.getFullYear()}-${two(moment.getMonth() + 1)}-${two(moment.getDate())}`;
}

function clock(moment) {
  return [moment.getHours(), moment.getMinutes(), moment.getSeconds()].map(two).join(":");
}

/* +02:00, at this moment. */
function offset(moment) {
  const minutes = -moment.getTimezoneOffset(), size = Math.abs(minutes);
  return `${minutes < 0 ? "−" : "+"}${two(Math.floor(size / 60))}:${two(size % 60)}`;
}

/* 2026-03-01 14:05:09 UTC+02:00 (Europe/Berlin) */
export function inFull(moment) {
  return `${day(moment)} ${clock(moment)} UTC${offset(moment)} (${ZONE})`;
}

const WRITTEN = {
  ago,
  moment: (moment) => `${day(moment)} ${clock(moment).slice(0, 5)}`,
  clock,
};

/* A <time> element as the server writes them. */
export function timeElement(text, kind = "ago") {
  const element = document.createElement("time");
  element.dateTime = text;
  element.dataset.time = kind;
  show(element);
  return element;
}

function show(element) {
  const moment = new Date(element.dateTime);
  if (Number.isNaN(moment.getTime())) return;
  const text = WRITTEN[element.dataset.time ?? "clock"](moment), title = inFull(moment);
  if (element.textContent !== text) element.textContent = text;
  if (element.title !== title) element.title = title;
}

function showAll(root) {
  for (const element of root.querySelectorAll(TIMES)) show(element);
}

/* The sentences of the server that contain times: "2026-03-01 12:05 UTC" becomes an element. */
export function withTimes(text) {
  return text.split(/(\d{4}-\d\d-\d\d \d\d:\d\d UTC)/).map((part, index) => (index % 2 ? timeElement(`${part.slice(0, 10)}T${part.slice(11, 16)}:00Z`, "moment") : part));
}

/* Milliseconds that a chart, which draws times in UTC, adds to show the time of the browser's zone. */
export function zoneShift(milliseconds) {
  return -new Date(milliseconds).getTimezoneOffset() * 60_000;
}

/* Once for each page: replaces the times of the page, and those that are added to it. */
export function startTimes() {
  showAll(document);
  for (const element of document.querySelectorAll("[data-zone]")) element.textContent = ZONE;
  setInterval(() => {
    for (const element of document.querySelectorAll('time[data-time="ago"]')) show(element);
  }, 15_000);
  new MutationObserver((changes) => {
    for (const { addedNodes } of changes) for (const node of addedNodes) if (node.nodeType === Node.ELEMENT_NODE) showAll(node.matches(TIMES) ? node.parentElement : node);
  }).observe(document.body, { childList: true, subtree: true });
}
