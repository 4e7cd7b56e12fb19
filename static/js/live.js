/* Websockets that reconnect: the feed of one run with its cursor, and the feed of the runs list.

A run's feed sends {"cursor": N} and gets deltas {"from": a, "to": b, …}: one is applied when the cursor is at least a;
when it is behind, the cursor is sent again. {"type": "resync"} means: too far behind, read again, continue from its cursor. */

import { announce, write } from "./announce.js";

const FIRST_WAIT = 500, LONGEST_WAIT = 15000;
const LOGGED_OUT = 4401, NOT_FOUND = 4404, BAD_MESSAGE = 4400;

class Socket extends EventTarget {
  #path; #wait = FIRST_WAIT; #timer = null; #socket = null; #due = 0;

  constructor(path) {
    super();
    this.#path = path;
    addEventListener("online", () => this.#now());
    document.addEventListener("visibilitychange", () => document.hidden || this.#now());
    addEventListener("pagehide", () => this.#socket?.readyState === WebSocket.OPEN && this.#socket.close());
    addEventListener("pageshow", (event) => event.persisted && this.#now());
  }

  start() {
    const scheme = location.protocol === "https:" ? "wss:" : "ws:";
    this.#timer = null;
    this.#socket = new WebSocket(`${scheme}//${location.host}${this.#path}`);
    this.#socket.onopen = () => {
      this.#wait = FIRST_WAIT;
      showLink("live", "live");
      this.opened();
    };
    this.#socket.onmessage = (event) => this.received(JSON.parse(event.data));
    this.#socket.onclose = (event) => this.#closed(event.code);
  }

  send(message) {
    if (this.#socket?.readyState === WebSocket.OPEN) this.#socket.send(JSON.stringify(message));
  }

  tell(type, detail) {
    this.dispatchEvent(new CustomEvent(type, { detail }));
  }

  opened() {}

  #closed(code) {
    if (code === LOGGED_OUT) return showLink("offline", "logged out: reload the page");
    if (code === NOT_FOUND || code === BAD_MESSAGE) return showLink("offline", "not live: reload the page");
    const wait = this.#wait * (0.75 + Math.random() / 2);
    this.#wait = Math.min(LONGEST_WAIT, this.#wait * 2);
    this.#due = Date.now() + wait;
    this.#timer = setTimeout(() => this.start(), wait);
    this.#count();
  }

  #count() {
    if (this.#timer === null) return;
    const left = Math.ceil((this.#due - Date.now()) / 1000);
    showLink("offline", left > 0 ? `offline, retrying in ${left} s` : "offline, retrying");
    if (left > 0) setTimeout(() => this.#count(), 1000);
  }

  #now() {
    if (this.#timer === null && this.#socket?.readyState !== WebSocket.CLOSED) return;
    if (this.#timer !== null) clearTimeout(this.#timer);
    this.start();
  }
}

export class RunFeed extends Socket {
  constructor(runId, cursor) {
    super(`/ws/runs/${runId}/`);
    this.cursor = cursor;
  }

  opened() {
    this.send({ cursor: this.cursor });
  }

  received(message) {
    if (message.type === "resync") {
      this.cursor = message.cursor;
      this.tell("resync");
    } else if (message.from > this.cursor) {
      this.send({ cursor: this.cursor });
    } else {
      this.cursor = Math.max(this.cursor, message.to);
      this.tell("delta", message);
    }
  }
}

export class RunsFeed extends Socket {
  #opened = false;

  constructor() {
    super("/ws/runs/");
  }

  opened() {
    if (this.#opened) this.tell("resync");
    this.#opened = true;
  }

  received(message) {
    this.tell("runs", message.runs);
  }
}

/* The seconds until the next attempt are shown; only the loss and the return of the connection are announced. */
let lost = false;
function showLink(state, text) {
  for (const mark of document.querySelectorAll("[data-link]")) {
    mark.dataset.link = state;
    write(mark, text);
  }
  if (state === "live" && lost) announce("connection", "Connected again. The page is live.");
  if (state === "offline") announce("connection", text.startsWith("offline") ? "Connection lost. The page retries by itself." : text, true);
  lost = state === "offline";
}
