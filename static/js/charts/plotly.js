/* Plotly is large: it is loaded when the first chart becomes visible, after the page itself is ready. */

import { el } from "../dom.js";

const WAITS = [500, 1000, 2000, 4000, 8000, 15000, 15000];

let loading = null;

export function plotly() {
  loading ??= read(0);
  return loading;
}

/* Retries, so that a short outage of the server does not leave the page without charts. */
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
      failed(new Error("the chart library was not loaded: reload the page"));
    });
    document.head.append(script);
  });
}
