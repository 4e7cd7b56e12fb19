/* Plotly is large: it is loaded when the first chart comes into sight, after the page itself is ready. */

import { el } from "../dom.js";

let loading = null;

export function plotly() {
  loading ??= new Promise((done, failed) => {
    const script = el("script", { src: document.querySelector("meta[name=plotly]").content });
    script.addEventListener("load", () => done(window.Plotly));
    script.addEventListener("error", () => failed(new Error("the drawing library was not read: load the page again")));
    document.head.append(script);
  });
  return loading;
}
