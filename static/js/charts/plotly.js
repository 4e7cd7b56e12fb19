/* Plotly is large: it is loaded when the first chart comes into sight, after the page itself is ready. */

import { el } from "../dom.js";

const WAITS = [500, 1000, 2000, 4000, 8000, 15000, 15000];

let loading = null;

export function plotly() {
  loading ??= read(0);
  return loading;
}

/* A server that is away for a while must not cost the page its charts. */
async function read(tries) {
  try {
    return await once();
  } catch (error) {
    if (tries < WAITS.length) {
      await new Promise((done) => setTimeout(done, WAITS[tries]));
      return read(tries + 1);
    }
    loading = null;
    throw error;
  }
}

function once() {
  return new Promise((done, failed) => {
    const script = el("script", { src: document.querySelector("meta[name=plotly]").content });
    script.addEventListener("load", () => done(window.Plotly));
    script.addEventListener("error", () => {
      script.remove();
      failed(new Error("the drawing library was not read: load the page again"));
    });
    document.head.append(script);
  });
}
