/* Stores the settings of a page in the query of its address, without reloading it. Links marked data-keep-view keep the query. */

export function addressGet(name, otherwise) {
  return new URLSearchParams(location.search).get(name) ?? otherwise;
}

/* Sets values by name; empty ones are removed from the address. */
export function addressSet(values) {
  const address = new URL(location.href);
  for (const [name, value] of Object.entries(values)) {
    if (value === "" || value === null) address.searchParams.delete(name);
    else address.searchParams.set(name, value);
  }
  history.replaceState(history.state, "", address);
  keepView();
}

export function keepView() {
  for (const link of document.querySelectorAll("a[data-keep-view]")) link.search = location.search;
}
