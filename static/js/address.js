/* What is seen is in the address: settings of a page as its query, without loading it again. */

export function addressGet(name, otherwise) {
  return new URLSearchParams(location.search).get(name) ?? otherwise;
}

/* Empty, or what it is anyway: not in the address. */
export function addressSet(name, value, otherwise = "") {
  const address = new URL(location.href);
  if (value === "" || value === otherwise) address.searchParams.delete(name);
  else address.searchParams.set(name, value);
  history.replaceState(history.state, "", address);
}
