"""Faults of layout that a browser can measure on any page."""

from playwright.sync_api import Page

LAYOUT_FAULTS = r"""
() => {
  const seen = (element) => element.checkVisibility({ visibilityProperty: true }) && element.getBoundingClientRect().height > 0;
  const name = (element) => `${element.tagName.toLowerCase()} "${(element.textContent || element.name || "").trim().slice(0, 24)}"`;
  const faults = [];
  for (const row of document.querySelectorAll(".filters, .acts, .tools, .bulk")) {
    const boxes = ".button, button:not(.help-button), select, input:not([type=checkbox], [type=radio], [type=range], [type=hidden])";
    const mine = (box) => box.closest(".filters, .acts, .tools, .bulk, .sheet") === row;
    const all = [...row.querySelectorAll(boxes)].filter((box) => seen(box) && mine(box));
    for (const one of all) for (const other of all) {
      const a = one.getBoundingClientRect(), b = other.getBoundingClientRect();
      if (a.height > b.height + 1 && a.left !== b.left && Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 10) {
        faults.push(`${name(one)} is ${a.height} px high, ${name(other)} ${b.height}`);
      }
    }
  }
  for (const table of document.querySelectorAll("table")) {
    const rows = [...table.tBodies].flatMap((body) => [...body.rows]).filter(seen);
    if (rows.length < 2) continue;
    for (let column = 0; column < rows[0].cells.length; column += 1) {
      const cells = rows.map((row) => row.cells[column]).filter((cell) => cell && cell.colSpan === 1 && seen(cell));
      const numbers = cells.filter((cell) => /^[−+]?(0|[1-9][\d,]*)(\.\d+)?%?$/.test(cell.innerText.trim()));
      if (numbers.length < 2 || numbers.length < cells.length) continue;
      const wrong = numbers.filter((cell) => getComputedStyle(cell).textAlign !== "right");
      if (wrong.length) faults.push(`numbers of column ${column + 1} of ${name(table)} are not aligned`);
      const tabular = (cell) => getComputedStyle(cell).fontVariantNumeric.includes("tabular-nums");
      if (!numbers.every(tabular)) faults.push(`digits of ${name(table)} differ in width`);
    }
  }
  for (const text of document.querySelectorAll("main :is(.note, .notice)")) {
    const next = text.nextElementSibling;
    if (!next?.matches(".panel, .tiles, .stack, .notice, .tabs") || !seen(text) || !seen(next)) continue;
    const gap = next.getBoundingClientRect().top - text.getBoundingClientRect().bottom;
    if (gap > -10 && gap < 4) faults.push(`${name(text)} touches what follows it`);
  }
  return [...new Set(faults)];
}
"""


def layout_faults(page: Page) -> list[str]:
    """Controls of one row with different heights, columns of numbers that are not aligned, and texts that touch a panel."""
    return list(page.evaluate(LAYOUT_FAULTS))
