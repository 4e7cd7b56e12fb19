/* What is seen is in the address: settings of a page as its query, without loading it again. Links marked data-keep-view carry it on. */

export function addressGet(name, otherwise) {
  return new URLSearchParams(location.search).get(name) ?? otherwise;
}

/* Values by name; what is empty is taken out of the address. */
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
